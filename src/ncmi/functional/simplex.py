"""Maps from real vectors to probability vectors, with hand-written gradients.

Shapes: B samples, C classes, D feature width.

Only tensors enter here: no labels, no state. Everything else in the package speaks of a point of the simplex as the
pair ``(probs, log_density)``, where ``log_density = ln(D·p)`` is the log-probability relative to the uniform
distribution. Divergences do not change when ln D is added to both logarithms, but their rounding does: ln p is about
−6 at D = 512 while a divergence is about 1e-3, so float32 would lose three digits to the constant.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ncmi.functional import kernels
from ncmi.functional.kernels import Simplex


class SimplexPoint(NamedTuple):
    """Points of the simplex: ``probs`` p and ``log_density`` ln(D·p), both (..., D)."""

    probs: Tensor
    log_density: Tensor

    @property
    def log_probs(self) -> Tensor:
        """Plain log-probabilities ln p."""
        return self.log_density - math.log(self.log_density.shape[-1])


class LogDensity(NamedTuple):
    """Points of the simplex of which mostly ``log_density`` ln(D·p) is needed, like centroids."""

    log_density: Tensor

    @property
    def probs(self) -> Tensor:
        """Probabilities p, computed at each call."""
        return self.log_density.exp() * (1 / self.log_density.shape[-1])


class FeaturePoints:
    """The points that features (B, D) map to, computed when and how they are needed.

    :func:`ncmi.functional.class_statistics` and :func:`ncmi.functional.kl_to_centroids` take the map into their own
    autograd node, which spares several passes over (B, D) tensors; whoever asks for ``probs`` or ``log_density`` gets them.
    """

    def __init__(
        self, features: Tensor, center: Tensor | None = None, temperature: float = 0.2, simplex: Simplex = "nsf"
    ):
        self.arguments = (features, center, temperature, simplex)
        self._point: SimplexPoint | None = None

    @property
    def features(self) -> Tensor:
        """The features f."""
        return self.arguments[0]

    @property
    def probs(self) -> Tensor:
        """Probabilities p."""
        return self._materialized().probs

    @property
    def log_density(self) -> Tensor:
        """Log-densities ln(D·p)."""
        return self._materialized().log_density

    def _materialized(self) -> SimplexPoint:
        if self._point is None:
            self._point = feature_point(*self.arguments)
        return self._point


Points = SimplexPoint | FeaturePoints
Centroids = SimplexPoint | LogDensity


def log_nsf(logits: Tensor) -> Tensor:
    r"""Logarithm of the normalized sigmoid function over the last dimension.

    .. math:: \ln \sigma^{NSF}(a)_j = \ln\sigma(a_j) - \ln \sum_i \sigma(a_i)

    (Eq. 3 of the paper.) Exact for any finite input: no sigmoid is formed that could round to zero.

    >>> log_nsf(torch.tensor([0.0, 0.0])).exp()
    tensor([0.5000, 0.5000])
    """
    return F.log_softmax(F.logsigmoid(logits), dim=-1)


def nsf(logits: Tensor) -> Tensor:
    r"""Normalized sigmoid function over the last dimension, :math:`\sigma(a_j)/\sum_i\sigma(a_i)` (Eq. 3).

    >>> nsf(torch.tensor([[0.0, 100.0]]))
    tensor([[0.3333, 0.6667]])
    """
    return log_nsf(logits).exp()


def log_softmax(logits: Tensor) -> Tensor:
    """Logarithm of the softmax over the last dimension (Eq. 4): the twin of :func:`log_nsf` in the paper's ablation."""
    return F.log_softmax(logits, dim=-1)


def softmax(logits: Tensor) -> Tensor:
    """Softmax over the last dimension (Eq. 4): the twin of :func:`nsf` in the paper's ablation."""
    return F.softmax(logits, dim=-1)


def scale_features(features: Tensor, center: Tensor | None = None, temperature: float = 0.2) -> Tensor:
    r"""Centred, L2-normalised, tempered features :math:`z' = (f - c) / (\|f - c\|_2\,\tau)`, lines 2–3 of Algorithm 1.

    A row that equals the centre (to eight roundings) has no direction: it maps to zero, the uniform distribution, and gets no
    gradient. Where squares would overflow or vanish the norm is taken after division by the largest entry, so any normal
    number works, however large or small.

    Args:
        features: f, (B, D).
        center: c, (D,); no gradient flows to it. ``None`` stands for zero.
        temperature: τ > 0. 0.2 was the best of the authors' 290 logged CIFAR-100 runs.
    """
    return _ScaleFeatures.apply(features, center, temperature)  # pyright: ignore[reportReturnType]


def simplex_point(logits: Tensor, simplex: Simplex = "nsf", bound: float | None = None) -> SimplexPoint:
    """Probabilities and log-densities of ``logits`` (..., D), with one fused backward for both.

    Args:
        logits: any real vectors.
        simplex: ``"nsf"`` (the method) or ``"softmax"`` (the ablation).
        bound: the largest size that a logit can have, as 1/τ for :func:`scale_features`. With a small one the sigmoid is
            formed once and reused; without one the smallest logit decides whether that is safe.
    """
    return SimplexPoint(*_Simplex.apply(logits, simplex, _is_bounded(logits, bound)))  # pyright: ignore[reportGeneralTypeIssues]


def log_density(logits: Tensor, simplex: Simplex = "nsf") -> LogDensity:
    """Log-densities of ``logits`` (..., D), for points whose probabilities are seldom needed."""
    return LogDensity(_LogDensity.apply(logits, simplex, _is_bounded(logits, None)))  # pyright: ignore[reportArgumentType]


def feature_point(
    features: Tensor, center: Tensor | None = None, temperature: float = 0.2, simplex: Simplex = "nsf"
) -> SimplexPoint:
    """The method's whole map, features (B, D) to points of the simplex: :func:`scale_features`, then NSF."""
    return SimplexPoint(*_FeaturePoint.apply(features, center, temperature, simplex))  # pyright: ignore[reportGeneralTypeIssues]


def to_log_probs(
    features: Tensor, center: Tensor | None = None, temperature: float = 0.2, simplex: Simplex = "nsf"
) -> Tensor:
    r"""Log-probabilities ln p of features: :math:`p = \sigma^{NSF}((f-c)/(\|f-c\|_2\,\tau))`, (B, D) to (B, D).

    >>> log_probs = to_log_probs(torch.tensor([[3.0, 4.0]]), temperature=0.5)
    >>> bool(torch.isclose(log_probs.exp().sum(), torch.tensor(1.0)))
    True
    """
    return feature_point(features, center, temperature, simplex).log_probs


def to_logits(probs: Tensor, simplex: Simplex = "nsf") -> Tensor:
    """Logits whose simplex map gives ``probs`` (..., D): how a class mean becomes a starting value of ξ.

    The map forgets one number per row (the sum of the sigmoids). Here the sigmoids average ½, as they do for centred
    features, or less where an entry above 2/D would otherwise need a sigmoid above 0.99.
    """
    if simplex == "softmax":
        # A probability can underflow at temperatures below 0.01; its logarithm is then that of the smallest number.
        return (probs * probs.shape[-1]).clamp_min(torch.finfo(probs.dtype).tiny).log()
    peak = probs.amax(dim=-1, keepdim=True)
    scale = torch.minimum(torch.full_like(peak, 0.5 * probs.shape[-1]), 0.99 / peak)
    return torch.logit(probs * scale)


class _ScaleFeatures(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features: Tensor, center: Tensor | None, temperature: float) -> Tensor:
        scaled, factor = kernels.scale_forward(features, center, temperature)
        ctx.save_for_backward(scaled, factor)
        ctx.temperature = temperature
        return scaled

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        scaled, factor = ctx.saved_tensors
        return kernels.scale_gradient(grad_outputs[0].clone(), scaled, factor, ctx.temperature), None, None


class _Simplex(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: Tensor, simplex: Simplex, bounded: bool) -> tuple[Tensor, Tensor]:
        mapped = kernels.map_forward(logits, simplex, bounded)
        probs = mapped.weights * mapped.scale
        ctx.save_for_backward(probs, *mapped)
        ctx.set_materialize_grads(False)
        return probs, mapped.log_density

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor | None):
        probs, *rest = ctx.saved_tensors
        grad_probs, grad_log = grad_outputs
        grad = _log_gradient(probs, grad_probs, grad_log)
        return None if grad is None else kernels.map_gradient(grad, kernels.Mapped(*rest)), None, None


class _LogDensity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: Tensor, simplex: Simplex, bounded: bool) -> Tensor:
        mapped = kernels.map_forward(logits, simplex, bounded)
        ctx.save_for_backward(*mapped)
        return mapped.log_density

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        return kernels.map_gradient(grad_outputs[0], kernels.Mapped(*ctx.saved_tensors), overwrite=False), None, None


class _FeaturePoint(torch.autograd.Function):
    """Both steps in one node."""

    @staticmethod
    def forward(ctx, features: Tensor, center: Tensor | None, temperature: float, simplex: Simplex):
        mapped = kernels.features_forward(features, center, temperature, simplex)
        ctx.save_for_backward(*mapped)
        ctx.set_materialize_grads(False)
        ctx.temperature = temperature
        return mapped.probs, mapped.log_density

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor | None):
        mapped = kernels.MappedFeatures(*ctx.saved_tensors)
        grad_probs, grad_log = grad_outputs
        grad = _log_gradient(mapped.probs, grad_probs, grad_log)
        grad = None if grad is None else kernels.features_gradient(grad, mapped, ctx.temperature)
        return grad, None, None, None


def _is_bounded(logits: Tensor, bound: float | None) -> bool:
    if bound is not None:
        return bound <= kernels.SAFE_LOGIT
    return kernels.may_look(logits) and float(logits.detach().amin()) >= -kernels.SAFE_LOGIT


def _log_gradient(probs: Tensor, grad_probs: Tensor | None, grad_log: Tensor | None) -> Tensor | None:
    """Gradients at p and at ln p as one gradient at ln p, in memory of its own."""
    if grad_probs is None:
        return None if grad_log is None else grad_log.clone()
    return grad_probs * probs if grad_log is None else torch.addcmul(grad_log, grad_probs, probs)
