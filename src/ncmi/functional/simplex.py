"""Maps from real vectors to probability vectors, with hand-written gradients.

Shapes: B samples, C classes, D feature width.

Only tensors enter here: no labels, no state. Everything else in the package speaks of a point of the simplex as the
pair ``(probs, log_density)``, where ``log_density = ln(D·p)`` is the log-probability relative to the uniform
distribution. Divergences do not change when ln D is added to both logarithms, but their rounding does: ln p is about
−6 at D = 512 while a divergence is about 1e-3, so float32 would lose three digits to the constant.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

Simplex = Literal["nsf", "softmax"]

# sigmoid(-80) is about 2e-35, still a normal float32, so log(sigmoid(a)) is exact to rounding for a >= -80.
_SAFE_LOGIT = 80.0


class SimplexPoint(NamedTuple):
    """Points of the simplex: ``probs`` p and ``log_density`` ln(D·p), both (..., D)."""

    probs: Tensor
    log_density: Tensor

    @property
    def log_probs(self) -> Tensor:
        """Plain log-probabilities ln p."""
        return self.log_density - math.log(self.log_density.shape[-1])


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

    A row that equals the centre has no direction: it maps to zero (the uniform distribution) and gets no gradient.
    The norm is taken after division by the largest entry, so any finite row works, however large or small.

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
        bound: a known bound on |logits|, such as 1/τ for :func:`scale_features`. With a small one the sigmoid is formed
            once and reused; without one the smallest logit decides whether that is safe.
    """
    if simplex == "softmax":
        return SimplexPoint(*_Softmax.apply(logits))  # pyright: ignore[reportGeneralTypeIssues]
    if bound is not None:
        bounded = bound <= _SAFE_LOGIT
    elif torch.compiler.is_compiling() or logits.numel() == 0:
        bounded = False
    else:
        bounded = bool(logits.detach().amin() >= -_SAFE_LOGIT)
    return SimplexPoint(*_NormalizedSigmoid.apply(logits, bounded))  # pyright: ignore[reportGeneralTypeIssues]


def feature_point(
    features: Tensor, center: Tensor | None = None, temperature: float = 0.2, simplex: Simplex = "nsf"
) -> SimplexPoint:
    """The method's whole map, features (B, D) to points of the simplex: :func:`scale_features`, then NSF."""
    return simplex_point(scale_features(features, center, temperature), simplex, bound=1 / temperature)


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
        return (probs * probs.shape[-1]).log()
    peak = probs.amax(dim=-1, keepdim=True)
    scale = torch.minimum(torch.full_like(peak, 0.5 * probs.shape[-1]), 0.99 / peak)
    return torch.logit(probs * scale)


class _ScaleFeatures(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features: Tensor, center: Tensor | None, temperature: float) -> Tensor:
        centred = features.clone() if center is None else features - center
        peak = torch.linalg.vector_norm(centred, ord=math.inf, dim=-1, keepdim=True)
        peak = torch.where(peak == 0, torch.ones_like(peak), peak)
        centred.div_(peak)
        norm = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
        inverse = torch.where(norm == 0, norm, (norm * temperature).reciprocal())
        scaled = centred.mul_(inverse)
        ctx.save_for_backward(scaled, inverse / peak)
        ctx.temperature = temperature
        return scaled

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        scaled, inverse_norm = ctx.saved_tensors
        (grad,) = grad_outputs
        along = torch.linalg.vecdot(scaled, grad).unsqueeze(-1) * ctx.temperature**2
        return torch.addcmul(grad, scaled, along, value=-1).mul_(inverse_norm), None, None


class _NormalizedSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: Tensor, bounded: bool) -> tuple[Tensor, Tensor]:
        if bounded:
            sigmoid = torch.sigmoid(logits)
            mean = sigmoid.mean(dim=-1, keepdim=True)
            density = sigmoid / mean
            log_density = density.log()
            probs = density.mul_(1 / logits.shape[-1])
        else:
            log_sigmoid = F.logsigmoid(logits)
            peak = log_sigmoid.amax(dim=-1, keepdim=True)
            probs, log_density = _shifted_softmax(log_sigmoid - peak)
            sigmoid = log_sigmoid.exp()
        ctx.save_for_backward(probs, sigmoid)
        ctx.set_materialize_grads(False)
        return probs, log_density

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        probs, sigmoid = ctx.saved_tensors
        inner = _log_softmax_gradient(probs, *grad_outputs)
        if inner is None:
            return None, None
        return torch.addcmul(inner, inner, sigmoid, value=-1), None


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: Tensor) -> tuple[Tensor, Tensor]:
        probs, log_density = _shifted_softmax(logits - logits.amax(dim=-1, keepdim=True))
        ctx.save_for_backward(probs)
        ctx.set_materialize_grads(False)
        return probs, log_density

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        return _log_softmax_gradient(*ctx.saved_tensors, *grad_outputs)


def _shifted_softmax(shifted: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities and log-densities of the softmax of rows whose largest entry is 0."""
    exponential = shifted.exp()
    mean = exponential.mean(dim=-1, keepdim=True)
    return exponential / (mean * shifted.shape[-1]), shifted - mean.log()


def _log_softmax_gradient(probs: Tensor, grad_probs: Tensor | None, grad_log: Tensor | None) -> Tensor | None:
    """Gradient at a from the gradients at p and ln p, where ln p = log_softmax(a)."""
    if grad_probs is None:
        if grad_log is None:
            return None
        grad = grad_log
    else:
        grad = grad_probs * probs if grad_log is None else torch.addcmul(grad_log, grad_probs, probs)
    return torch.addcmul(grad, probs, grad.sum(dim=-1, keepdim=True), value=-1)
