"""Forward and gradient of the map to the simplex, written by hand: plain tensor code without autograd.

Shapes: R rows (samples or classes), D feature width.

The autograd nodes of this package are put together from these. They write into their own temporaries where they can and
keep one sigmoid for everything: that, not arithmetic, is what the time of a head this small goes into.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Simplex = Literal["nsf", "softmax"]

# sigmoid(-80) is a normal float32 number, so ln(sigmoid(a)) is exact to rounding for a >= -80.
SAFE_LOGIT = 80.0
# Norms up to this, and down to its reciprocal, come from squares that neither overflow nor vanish in float32.
_SAFE_NORM = 1e15
_ROUNDING = 8  # machine epsilons that a feature's difference from an equal mean can have


class Mapped(NamedTuple):
    """Rows on the simplex: p = weights·scale, ln(D·p) = log_density; ``sigmoid`` is None for the softmax."""

    weights: Tensor
    scale: Tensor
    log_density: Tensor
    sigmoid: Tensor | None


def scale_forward(features: Tensor, center: Tensor | None, temperature: float) -> tuple[Tensor, Tensor]:
    """Scaled features (R, D) and the factor (R, 1) that scaled them, zero for a row that equals the centre to rounding."""
    centred = features.clone() if center is None else features - center
    norm = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    inverse = norm.reciprocal()
    nearest = _rounding_of(center)
    if may_look(norm) and float((norm + inverse).amax()) < min(_SAFE_NORM, 1 / max(float(nearest), 1 / _SAFE_NORM)):
        factor = inverse.mul_(1 / temperature)
        return centred.mul_(factor), factor
    peak = centred.abs().amax(dim=-1, keepdim=True)
    peak = torch.where(peak == 0, torch.ones_like(peak), peak)
    centred.div_(peak)
    norm = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    factor = torch.where(norm * peak <= nearest, torch.zeros_like(norm), (norm * temperature).reciprocal())
    return centred.mul_(factor), factor / peak


def _rounding_of(center: Tensor | None) -> Tensor | float:
    """Distance from the centre that rounding alone can make, which must not be blown up to unit length."""
    if center is None:
        return 0.0
    return center.abs().amax(dim=0) * (_ROUNDING * torch.finfo(center.dtype).eps * center.numel() ** 0.5)


def scale_gradient(grad: Tensor, scaled: Tensor, factor: Tensor, temperature: float) -> Tensor:
    """Gradient at the features from that at the scaled features; overwrites ``grad``."""
    along = (scaled * grad).sum(dim=-1, keepdim=True).mul_(temperature**2)
    return grad.addcmul_(scaled, along, value=-1).mul_(factor)


def nsf_forward(logits: Tensor, bounded: bool) -> Mapped:
    """NSF of the rows of ``logits``; ``bounded`` promises that none is below −80."""
    if not bounded:
        log_sigmoid = F.logsigmoid(logits)
        mapped = softmax_forward(log_sigmoid)
        return mapped._replace(sigmoid=log_sigmoid.exp_())
    sigmoid = torch.sigmoid(logits)
    scale = sigmoid.sum(dim=-1, keepdim=True).reciprocal_()
    log_density = sigmoid.log().add_((scale * logits.shape[-1]).log_())
    return Mapped(sigmoid, scale, log_density, sigmoid)


def softmax_forward(logits: Tensor) -> Mapped:
    """Softmax of the rows of ``logits``."""
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    weights = shifted.exp()
    scale = weights.sum(dim=-1, keepdim=True).reciprocal_()
    return Mapped(weights, scale, shifted.add_((scale * logits.shape[-1]).log_()), None)


def map_gradient(grad: Tensor, mapped: Mapped, overwrite: bool = True) -> Tensor:
    """Gradient at the logits from the gradient at ln p (which counts p as a function of ln p).

    A multiple of p in ``grad`` has no effect, because the entries of p sum to one. The result takes ``grad``'s memory unless
    told not to, as a gradient that autograd handed over must be left alone.
    """
    total = grad.sum(dim=-1, keepdim=True).mul_(mapped.scale)
    subtract = grad.addcmul_ if overwrite else grad.addcmul
    grad = subtract(mapped.weights, total, value=-1)
    return grad if mapped.sigmoid is None else grad.addcmul_(grad, mapped.sigmoid, value=-1)


def map_forward(logits: Tensor, simplex: Simplex, bounded: bool) -> Mapped:
    """The named map of the rows of ``logits``."""
    return softmax_forward(logits) if simplex == "softmax" else nsf_forward(logits, bounded)


class MappedFeatures(NamedTuple):
    """What the gradient of the whole map needs, and ``probs`` for whoever asked."""

    probs: Tensor
    scaled: Tensor
    factor: Tensor
    weights: Tensor
    scale: Tensor
    log_density: Tensor
    sigmoid: Tensor | None


def features_forward(features: Tensor, center: Tensor | None, temperature: float, simplex: Simplex) -> MappedFeatures:
    """Centre, normalise, temper and map features (R, D)."""
    scaled, factor = scale_forward(features, center, temperature)
    mapped = map_forward(scaled, simplex, 1 / temperature <= SAFE_LOGIT)
    return MappedFeatures(mapped.weights * mapped.scale, scaled, factor, *mapped)


def features_gradient(grad: Tensor, mapped: MappedFeatures, temperature: float) -> Tensor:
    """Gradient at the features from the gradient at ln p, as in :func:`map_gradient`; overwrites ``grad``."""
    grad = map_gradient(grad, Mapped(*mapped[3:]))
    return scale_gradient(grad, mapped.scaled, mapped.factor, temperature)


def may_look(tensor: Tensor) -> bool:
    """Whether a decision may depend on values: not in a compiled step, nor where it would make the host wait for a GPU."""
    return tensor.device.type == "cpu" and tensor.numel() > 0 and not torch.compiler.is_compiling()
