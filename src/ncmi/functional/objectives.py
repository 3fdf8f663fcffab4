"""Four objectives, as pure functions of points, labels and centroids.

Shapes: B samples, C classes, D feature width, K rows of the statistics.

Two kinds. A **ratio of means** (``theorem1``, ``centroid``) sees a batch only through its class statistics, so ranks and
batches are summed first and the ratio is formed last. A **per-sample** objective (``released``, ``harmonic``) gives one
number a sample, whose mean is the loss. Centroids come as points (K, D) or (C, D).

All are differences of sums. In float32 a numerator resolves about 1e-8: for perfectly tight classes a loss can come out as
zero or −1e-6 instead of a small positive number, while its gradient keeps three digits.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ncmi.functional.divergence import kl_to_centroids, kl_to_own
from ncmi.functional.kernels import may_look
from ncmi.functional.simplex import Centroids, Points
from ncmi.functional.statistics import ClassStatistics

# k of `harmonic` and `rivals`: of those tried in objective-study the best on sets of 2 to 100 classes. Competitors add up:
# with C − 1 at equal distance the own centroid must be nearer by (C − 1)^(1/k) to have half of the probability, 1.8 for
# C = 100. A larger exponent is slower to start.
EXPONENT = 8.0


class Ratio(NamedTuple):
    """A ratio of means before the division: what stands above (concentration) and below (separation) the line."""

    concentration: Tensor
    separation: Tensor


def theorem1(statistics: ClassStatistics, centroids: Centroids) -> Ratio:
    r"""Theorem 1's objective, corrected: :math:`q^{c_x}` stands where the paper prints :math:`q^{c_z}`.

    .. math::
        F(q) = \frac{\frac1N\sum_x D(p_x\|q^{c_x})}
                    {\frac1{N^2}\sum_{x,z:\,c_x\ne c_z}\bigl[H(p_x,p_z) - H(p_x,q^{c_x})\bigr]}

    Identities: numerator = CMI + Σ_y (n_y/N) D(s^y‖q^y), denominator = Γ − Σ_y [n_y(N−n_y)/N²] D(s^y‖q^y). So over q the
    minimum is NCMI, reached at q = s, **as long as the denominator is positive**: elsewhere the ratio is negative and
    unbounded below, and the caller must not divide.
    """
    return Ratio(*_Theorem1.apply(*statistics, centroids.log_density))  # pyright: ignore[reportGeneralTypeIssues]


def centroid(statistics: ClassStatistics, centroids: Centroids, prior: Tensor | None = None) -> Ratio:
    r"""Ratio of means with the separation measured from the centroids.

    .. math::
        \frac{\frac1N\sum_x D(p_x\|q^{c_x})}{\frac1{N^2}\sum_x\sum_{v\ne c_x} n_v\,D(q^v\|p_x)}

    Every term below the line is a divergence, so unlike :func:`theorem1` it cannot change sign.

    Args:
        statistics: sums over the batch.
        centroids: the rows of the statistics.
        prior: class probabilities (K,) that replace n_v/N below the line, so that absent classes count too.
    """
    prior = statistics.counts / statistics.counts.sum() if prior is None else prior
    return Ratio(*_Centroid.apply(*statistics, prior, centroids.log_density))  # pyright: ignore[reportGeneralTypeIssues]


def released(points: Points, centroids: Centroids, targets: Tensor) -> Tensor:
    r"""The published script's per-sample ratio (B,): :math:`D(p_x\|q^{c_x}) / \frac1C\sum_{v\ne c_x} D(q^v\|p_x)`.

    All C centroids count, with a uniform prior. Soft labels (B, C) give :math:`\sum_y t_y D_y/\mathrm{SEP}_y`. A separation
    below the resolution of its sum (four times the type's machine epsilon) is set to it: there p equals every centroid.
    """
    probs = centroids.probs
    num_classes = len(probs)
    neg_entropies = torch.linalg.vecdot(probs, centroids.log_density)
    everything = neg_entropies.sum() - points.log_density @ probs.sum(dim=0)
    if targets.is_floating_point():
        own_class = neg_entropies - points.log_density @ probs.T
        separation = ((everything.unsqueeze(-1) - own_class) / num_classes).clamp_min(_resolution(probs))
        return (targets * kl_to_centroids(points, centroids.log_density) / separation).sum(dim=-1)
    own_probs = probs.index_select(0, targets)
    own_class = neg_entropies.index_select(0, targets) - torch.linalg.vecdot(own_probs, points.log_density)
    separation = ((everything - own_class) / num_classes).clamp_min(_resolution(probs))
    return kl_to_own(points, centroids.log_density.index_select(0, targets)) / separation


def harmonic(points: Points, centroids: Centroids, targets: Tensor, exponent: float = EXPONENT) -> Tensor:
    r"""Per-sample losses (B,) in which no pair of classes can hide: :math:`\ln\bigl(1+\sum_{v\ne y}(D_y/D_v)^k\bigr)`.

    :math:`D_v = D(p_x\|q^v)`. A loss below ln 2 means that every ratio is below one, so the nearest centroid is the right
    one. It is cross-entropy on :func:`harmonic_logits`; soft labels (B, C) therefore work as in soft cross-entropy, and the
    mean is at least the entropy of the label given the output: classes whose outputs have merged cannot be cheap.
    """
    return F.cross_entropy(harmonic_logits(points, centroids, exponent), targets, reduction="none")


def harmonic_logits(points: Points, centroids: Centroids, exponent: float = EXPONENT) -> Tensor:
    r"""Logits (B, C) of which :func:`harmonic` is the cross-entropy, :math:`-k\ln D(p_x\|q^v)`: the largest is the nearest.

    Their softmax is the probability of each class that a network trained with ``harmonic`` or ``rivals`` states.

    The logarithm has a pole at D = 0, and the matrix product that gives D resolves no more than four times the type's machine
    epsilon (float32: 5e-7; the worst error seen is 3e-7, and 3e-6 of softmax at a temperature of 0.02): smaller divergences
    are set to it, which also keeps the gradient finite where p = q^v.
    """
    divergence = kl_to_centroids(points, centroids.log_density)
    return _NegativeLogPower.apply(divergence, exponent)  # pyright: ignore[reportReturnType]


def _resolution(divergence: Tensor) -> float:
    """What rounding leaves of a divergence that is a difference of two sums: the worst error seen in float32 is 3e-7."""
    return 4 * torch.finfo(divergence.dtype).eps


class _NegativeLogPower(torch.autograd.Function):
    """−k ln D, with D floored at the resolution of the product that made it; no gradient where the floor holds."""

    @staticmethod
    def forward(ctx, divergence: Tensor, exponent: float) -> Tensor:
        floor = _resolution(divergence)
        # Looking for a value below the floor is cheaper than two more passes over all of them.
        if not may_look(divergence) or not float(divergence.amin()) >= floor:
            # Above every divergence, its reciprocal is zero: that is the gradient.
            ctx.save_for_backward(torch.where(divergence < floor, torch.inf, divergence))
            divergence = divergence.clamp_min(floor)
        else:
            ctx.save_for_backward(divergence)
        ctx.exponent = exponent
        return divergence.log().mul_(-exponent)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        (divergence,) = ctx.saved_tensors
        return (grad_outputs[0] / divergence).mul_(-ctx.exponent), None


class _Theorem1(torch.autograd.Function):
    """Numerator and denominator in one pass over the sums, with their gradients in closed form."""

    @staticmethod
    def forward(ctx, counts: Tensor, prob_sum: Tensor, log_sum: Tensor, neg_entropy: Tensor, log_density: Tensor):
        total = counts.sum()
        others = total - counts
        own = (prob_sum * log_density).sum(dim=-1)
        all_probs, all_logs = prob_sum.sum(dim=0), log_sum.sum(dim=0)
        same_class = torch.dot(prob_sum.flatten(), log_sum.flatten())
        separation = others.dot(own) - all_probs.dot(all_logs) + same_class
        ctx.save_for_backward(prob_sum, log_sum, log_density, all_probs, all_logs, others, total)
        return (neg_entropy - own.sum()) / total, separation / total**2

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        prob_sum, log_sum, log_density, all_probs, all_logs, others, total = ctx.saved_tensors
        concentration, separation = grad_outputs[0] / total, grad_outputs[1] / total**2
        own = others.mul(separation).sub_(concentration).unsqueeze(-1)
        grad_prob_sum = (log_sum - all_logs).mul_(separation).addcmul_(log_density, own)
        grad_log_sum = (prob_sum - all_probs).mul_(separation)
        return None, grad_prob_sum, grad_log_sum, concentration, prob_sum * own


class _Centroid(torch.autograd.Function):
    """The same for a separation that is measured from the centroids."""

    @staticmethod
    def forward(
        ctx,
        counts: Tensor,
        prob_sum: Tensor,
        log_sum: Tensor,
        neg_entropy: Tensor,
        prior: Tensor,
        log_density: Tensor,
    ):
        total = counts.sum()
        weighted = log_density.exp().mul_((prior / log_density.shape[-1]).unsqueeze(-1))
        all_probs, all_logs = weighted.sum(dim=0), log_sum.sum(dim=0)
        others = (total - counts).unsqueeze(-1)
        # Σ_v π_v q^v · [(N − n_v) ln(D q^v) − (L − L_v)]
        difference = (log_sum - all_logs).addcmul_(log_density, others)
        separation = torch.dot(weighted.flatten(), difference.flatten())
        own = torch.dot(prob_sum.flatten(), log_density.flatten())
        ctx.save_for_backward(prob_sum, log_density, weighted, all_probs, difference, others, total)
        return (neg_entropy - own) / total, separation / total

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        prob_sum, log_density, weighted, all_probs, difference, others, total = ctx.saved_tensors
        concentration, separation = grad_outputs[0] / total, grad_outputs[1] / total
        grad_log_sum = (weighted - all_probs).mul_(separation)
        grad_log = (difference + others).mul_(separation).mul_(weighted).addcmul_(prob_sum, concentration, value=-1)
        return None, log_density * -concentration, grad_log_sum, concentration, None, grad_log
