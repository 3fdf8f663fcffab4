"""Class statistics (n, P, L, E): the sums from which every ratio of the paper is formed in linear time.

Shapes: B samples, C classes, D feature width, K rows of the statistics (K = C, or fewer when only the classes of a batch
get a row).

``update → merge → compute``: :func:`class_statistics` sums a batch, :func:`merge_statistics` adds two sums (of batches, of
ranks), :func:`cmi`, :func:`gamma` and :func:`ncmi` turn them into numbers. The loss, the metric and the distributed step
all use the same four sums; nothing of shape B×B or B×C×D is ever formed.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ncmi.functional import kernels
from ncmi.functional.kernels import Simplex
from ncmi.functional.simplex import FeaturePoints, Points


class ClassStatistics(NamedTuple):
    r"""Sums over samples; with weights :math:`w_{xy}` (one-hot labels, soft labels, class weights) they are

    ``counts`` (K,): :math:`n_y = \sum_x w_{xy}`;
    ``prob_sum`` (K, D): :math:`P_y = \sum_x w_{xy}\,p_x`;
    ``log_sum`` (K, D): :math:`L_y = \sum_x w_{xy}\,\ln(D p_x)`;
    ``neg_entropy`` (): :math:`E = \sum_x w_x\,p_x\cdot\ln(D p_x)` with :math:`w_x = \sum_y w_{xy}`.
    """

    counts: Tensor
    prob_sum: Tensor
    log_sum: Tensor
    neg_entropy: Tensor


class NCMITerms(NamedTuple):
    """``cmi`` (concentration, Eq. 5), ``gamma`` (separation, Eq. 7) and ``ncmi``, their ratio (Eq. 8)."""

    cmi: Tensor
    gamma: Tensor
    ncmi: Tensor


def class_statistics(
    points: Points, targets: Tensor, num_classes: int, weight: Tensor | None = None
) -> ClassStatistics:
    """The four sums of a batch, O(BD) for hard labels.

    Args:
        points: points of the simplex, (B, D).
        targets: hard labels (B,) in [0, num_classes), or soft labels (B, num_classes) whose rows sum to one.
        num_classes: number of rows K.
        weight: a weight per sample (B,).

    >>> from ncmi.functional import simplex_point
    >>> statistics = class_statistics(simplex_point(torch.randn(5, 3)), torch.tensor([0, 1, 1, 0, 1]), num_classes=2)
    >>> statistics.counts
    tensor([2., 3.])
    """
    if targets.is_floating_point():
        return _soft_statistics(points, targets, weight)
    if isinstance(points, FeaturePoints):
        sums = _FeatureStatistics.apply(*points.arguments, targets, num_classes, weight)
    else:
        sums = _HardStatistics.apply(points.probs, points.log_density, targets, num_classes, weight)
    counts = _counts(targets, num_classes, weight, sums[0].dtype)  # pyright: ignore[reportOptionalSubscript]
    return ClassStatistics(counts, *sums)  # pyright: ignore[reportGeneralTypeIssues]


def compact_labels(targets: Tensor) -> tuple[Tensor, Tensor]:
    """Rows for the classes of a batch only: ``classes`` (B,) and ``rows`` (B,) with ``classes[rows] == targets``.

    The shapes do not depend on how many classes are present (a compiled step needs that): the first entries of ``classes``
    are the distinct labels, the rest is filled with class 0, whose spare rows no sample points to.

    >>> compact_labels(torch.tensor([7, 3, 7]))
    (tensor([3, 7, 0]), tensor([1, 0, 1]))
    """
    ordered, order = targets.sort()
    is_new = torch.cat([ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).long()])
    rank = is_new.cumsum(0)
    rows = torch.empty_like(targets).scatter_(0, order, rank)
    return torch.zeros_like(targets).scatter_(0, rank, ordered), rows


def merge_statistics(first: ClassStatistics, second: ClassStatistics) -> ClassStatistics:
    """Statistics of the union of two disjoint sets of samples: the sum, entry by entry."""
    return ClassStatistics(*(a + b for a, b in zip(first, second, strict=True)))


def cmi(statistics: ClassStatistics) -> Tensor:
    r"""Conditional mutual information :math:`I(X;\hat Y|Y) = \frac1N\sum_x D(p_x\|s^{c_x})` (Eqs. 5 and 6)."""
    count, prob_sum, _, neg_entropy = statistics
    return (neg_entropy - (prob_sum * _log_mean_density(count, prob_sum)).sum()) / count.sum()


def gamma(statistics: ClassStatistics) -> Tensor:
    r"""Separation :math:`\Gamma = \frac1{N^2}\sum_{x,z:\,c_x\ne c_z} D(s^{c_x}\|p_z)` (Eq. 7).

    From the sums: :math:`N^2\Gamma = \sum_y (N-n_y)\,P_y\cdot\ln(D s^y) - (P\cdot L - \sum_y P_y\cdot L_y)`.
    """
    count, prob_sum, _, _ = statistics
    total = count.sum()
    within = ((total - count).unsqueeze(-1) * prob_sum * _log_mean_density(count, prob_sum)).sum()
    return (within - cross_class_sum(statistics)) / total**2


def ncmi(statistics: ClassStatistics) -> NCMITerms:
    """CMI, Γ and their ratio NCMI (Eqs. 5–8).

    >>> from ncmi.functional import simplex_point
    >>> points = simplex_point(torch.tensor([[9.0, -9.0], [9.0, -9.0], [-9.0, 9.0]]))
    >>> ncmi(class_statistics(points, torch.tensor([0, 0, 1]), num_classes=2)).cmi.abs() < 1e-6
    tensor(True)
    """
    concentration, separation = cmi(statistics), gamma(statistics)
    return NCMITerms(concentration, separation, concentration / separation)


def cross_class_sum(statistics: ClassStatistics) -> Tensor:
    r""":math:`\sum_{c_x\ne c_z} p_x\cdot\ln(D p_z) = P\cdot L - \sum_y P_y\cdot L_y`, the pair sum without pairs."""
    _, prob_sum, log_sum, _ = statistics
    return prob_sum.sum(dim=0) @ log_sum.sum(dim=0) - (prob_sum * log_sum).sum()


def _log_mean_density(count: Tensor, prob_sum: Tensor) -> Tensor:
    """ln(D·s^y), (K, D), with zero rows for classes without samples."""
    empty = (count <= 0).unsqueeze(-1)
    mean = prob_sum / torch.where(empty, 1.0, count.unsqueeze(-1))
    return torch.where(empty, 1.0, mean * prob_sum.shape[-1]).log()


def _counts(targets: Tensor, num_classes: int, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    ones = torch.ones_like(targets, dtype=dtype) if weight is None else weight
    return ones.new_zeros(num_classes).index_add_(0, targets, ones)


def _soft_statistics(points: Points, targets: Tensor, weight: Tensor | None) -> ClassStatistics:
    if weight is not None:
        targets = targets * weight.unsqueeze(-1)
    own = torch.linalg.vecdot(points.probs, points.log_density)
    return ClassStatistics(
        targets.sum(dim=0), targets.T @ points.probs, targets.T @ points.log_density, targets.sum(dim=1) @ own
    )


class _HardStatistics(torch.autograd.Function):
    """P, L and E of points in one node, so that the backward writes each (B, D) gradient once."""

    @staticmethod
    def forward(
        ctx, probs: Tensor, log_density: Tensor, targets: Tensor, num_classes: int, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(probs, log_density, targets, weight)
        return _sums(probs, log_density, targets, num_classes, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        probs, log_density, targets, weight = ctx.saved_tensors
        grad_prob_sum, grad_log_sum, grad_own = grad_outputs
        grad_probs = grad_prob_sum.index_select(0, targets).addcmul_(log_density, grad_own)
        grad_log = grad_log_sum.index_select(0, targets).addcmul_(probs, grad_own)
        if weight is not None:
            grad_probs.mul_(weight.unsqueeze(-1))
            grad_log.mul_(weight.unsqueeze(-1))
        return grad_probs, grad_log, None, None, None


class _FeatureStatistics(torch.autograd.Function):
    """P, L and E straight from features: the map and the sums in one node."""

    @staticmethod
    def forward(
        ctx,
        features: Tensor,
        center: Tensor | None,
        temperature: float,
        simplex: Simplex,
        targets: Tensor,
        num_classes: int,
        weight: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        mapped = kernels.features_forward(features, center, temperature, simplex)
        ctx.save_for_backward(targets, weight, *mapped)
        ctx.temperature = temperature
        return _sums(mapped.probs, mapped.log_density, targets, num_classes, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        targets, weight, *rest = ctx.saved_tensors
        mapped = kernels.MappedFeatures(*rest)
        grad_prob_sum, grad_log_sum, grad_own = grad_outputs
        grad_probs = grad_prob_sum.index_select(0, targets).addcmul_(mapped.log_density, grad_own)
        # E also has the gradient p at ln p, which the map's gradient would remove again.
        grad = grad_log_sum.index_select(0, targets).addcmul_(grad_probs, mapped.probs)
        if weight is not None:
            grad.mul_(weight.unsqueeze(-1))
        return kernels.features_gradient(grad, mapped, ctx.temperature), None, None, None, None, None, None


def _sums(
    probs: Tensor, log_density: Tensor, targets: Tensor, num_classes: int, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    if weight is None:
        own = (probs * log_density).sum()
    else:
        own = torch.linalg.vecdot(probs, log_density) @ weight
        probs, log_density = probs * weight.unsqueeze(-1), log_density * weight.unsqueeze(-1)
    prob_sum = probs.new_zeros(num_classes, probs.shape[-1]).index_add_(0, targets, probs)
    log_sum = torch.zeros_like(prob_sum).index_add_(0, targets, log_density)
    return prob_sum, log_sum, own
