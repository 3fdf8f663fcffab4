"""Divergences between points of the simplex.

Shapes: B samples, C classes, D feature width.

The two functions of the paper take plain log-probabilities. The two that the loss and the decision use take points with
log-densities ln(D·p), whose products keep more digits (see ``simplex.py``).
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ncmi.functional import kernels
from ncmi.functional.simplex import FeaturePoints, Points


def kl_divergence(log_probs: Tensor, log_other: Tensor) -> Tensor:
    r"""KL divergence :math:`D(p\|q) = \sum_i p_i \ln(p_i/q_i)` over the last dimension (Eq. 1), never negative.

    Computed as :math:`\sum_i q_i\,(r e^r - \mathrm{expm1}(r))` with r = ln p − ln q: each term is non-negative, so there is
    no cancellation, and an error in the normalisation of either side enters only at second order, where
    the plain sum has it at first order and loses most digits of a small divergence in float32.

    >>> p = torch.tensor([0.5, 0.5]).log()
    >>> q = torch.tensor([0.25, 0.75]).log()
    >>> kl_divergence(p, q)
    tensor(0.1438)
    """
    ratio = log_probs - log_other
    probs, other = log_probs.exp(), log_other.exp()
    # For a large ratio e^r overflows; there p·r - (p - q) is the same number without cancellation. At -200, r·e^r is zero as
    # it is in the limit p = 0.
    near = ratio.clamp(-200.0, 1.0)
    terms = torch.where(ratio > 1.0, probs * ratio - (probs - other), other * (near * near.exp() - torch.expm1(near)))
    return terms.sum(dim=-1)


def cross_entropy(log_probs: Tensor, log_other: Tensor) -> Tensor:
    r"""Cross-entropy :math:`H(p,q) = -\sum_i p_i \ln q_i` over the last dimension (Eq. 2, whose minus is missing in print).

    >>> p = torch.tensor([0.5, 0.5]).log()
    >>> cross_entropy(p, p)
    tensor(0.6931)
    """
    return -(log_probs.exp() * log_other).sum(dim=-1)


def kl_to_own(points: Points, log_density: Tensor) -> Tensor:
    """KL divergence (B,) of each point from the centroid given in the same row of ``log_density`` (B, D)."""
    return torch.linalg.vecdot(points.probs, points.log_density - log_density)


def kl_to_centroids(points: Points, log_density: Tensor) -> Tensor:
    r"""KL divergences (B, C) of B points from C centroids, :math:`D(p_x\|q^v) = p_x\cdot\ln(Dp_x) - p_x\cdot\ln(Dq^v)`.

    One matrix product. Its terms are of the size of ln(D·p), so in float32 a divergence below about 1e-7 is rounding and
    may come out as zero or negative: see :func:`ncmi.functional.harmonic` for the floor that a logarithm needs.
    """
    if isinstance(points, FeaturePoints):
        return _FeatureKL.apply(*points.arguments, log_density)  # pyright: ignore[reportReturnType]
    return _KLToCentroids.apply(points.probs, points.log_density, log_density)  # pyright: ignore[reportReturnType]


class _KLToCentroids(torch.autograd.Function):
    """The product above with a backward that touches each (B, D) tensor once."""

    @staticmethod
    def forward(ctx, probs: Tensor, log_density: Tensor, centroid_log_density: Tensor) -> Tensor:
        ctx.save_for_backward(probs, log_density, centroid_log_density)
        return _kl_matrix(probs, log_density, centroid_log_density)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        probs, log_density, centroid_log_density = ctx.saved_tensors
        (grad,) = grad_outputs
        total = grad.sum(dim=-1, keepdim=True)
        grad_probs = grad_log = grad_centroids = None
        if ctx.needs_input_grad[0]:
            grad_probs = torch.addmm(log_density * total, grad, centroid_log_density, alpha=-1)
        if ctx.needs_input_grad[1]:
            grad_log = probs * total
        if ctx.needs_input_grad[2]:
            grad_centroids = (grad.T @ probs).neg_()
        return grad_probs, grad_log, grad_centroids


class _FeatureKL(torch.autograd.Function):
    """The same straight from features: the map and the product in one node."""

    @staticmethod
    def forward(
        ctx, features: Tensor, center: Tensor | None, temperature: float, simplex, log_density: Tensor
    ) -> Tensor:
        mapped = kernels.features_forward(features, center, temperature, simplex)
        ctx.save_for_backward(log_density, *mapped)
        ctx.temperature = temperature
        return _kl_matrix(mapped.probs, mapped.log_density, log_density)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        log_density, *rest = ctx.saved_tensors
        mapped = kernels.MappedFeatures(*rest)
        (grad,) = grad_outputs
        grad_features = grad_centroids = None
        if ctx.needs_input_grad[0]:
            # The gradient at ln p is p ⊙ (Σ_v G_v ln(Dp) − G·ln(Dq)); a multiple of p drops out in the map's gradient.
            # Formed with the other sign, which the last factor takes back.
            total = grad.sum(dim=-1, keepdim=True)
            grad_log = (grad @ log_density).addcmul_(mapped.log_density, total, value=-1).mul_(mapped.probs)
            mapped = mapped._replace(factor=-mapped.factor)
            grad_features = kernels.features_gradient(grad_log, mapped, ctx.temperature)
        if ctx.needs_input_grad[4]:
            grad_centroids = torch.addmm(grad.new_zeros(1, 1), grad.T, mapped.probs, beta=0, alpha=-1)
        return grad_features, None, None, None, grad_centroids


def _kl_matrix(probs: Tensor, log_density: Tensor, centroid_log_density: Tensor) -> Tensor:
    own = torch.linalg.vecdot(probs, log_density).unsqueeze(-1)
    return torch.addmm(own, probs, centroid_log_density.T, alpha=-1)
