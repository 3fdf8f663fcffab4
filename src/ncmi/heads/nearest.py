"""Centroids that decide best on fixed points: the problem behind :meth:`ncmi.CentroidClassifier.fit`.

Shapes: N samples, C classes, D feature width.

Only tensors enter here: points of the simplex and where the centroids start.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ncmi.heads.lbfgs import minimize
from ncmi.heads.logistic import held_out_rows

# Decades from centroids that hardly leave their start to ones that the data alone decide on.
STRENGTHS = tuple(10.0**decade for decade in range(1, -6, -1))

_CHUNK = 4096  # rows whose divergences exist at a time
_TOLERANCE = 1e-4  # of the gradient, in units of the penalty's curvature: an excess of about 1e-8
_GAIN = 1e-3  # nats; what weaker penalties must gain for the search to go on
_PATIENCE = 2


class LabelledPoints(NamedTuple):
    """Points p of the simplex, ``probs`` and ``log_density`` ln(D·p) (N, D) in float64, and their classes (N,)."""

    probs: Tensor
    log_density: Tensor
    targets: Tensor

    def rows(self, mask: Tensor) -> "LabelledPoints":
        """Those of the samples that ``mask`` (N,) marks."""
        return LabelledPoints(*(tensor[mask] for tensor in self))


class Choice(NamedTuple):
    """A strength, and the logits a (C, D) of the centroids that minimise :func:`objective` with it."""

    strength: float
    logits: Tensor


def objective(
    logits: Tensor, data: LabelledPoints, exponent: float, strength: float, start: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Value and gradient of :math:`\frac1N\sum_x\ln\sum_v (D_{c_x}/D_v)^k+\frac\lambda{2C}\sum_v\|a^v-a_0^v\|^2`.

    :math:`D_v=D(p_x\|q^v)` and :math:`q^v=\mathrm{softmax}(a^v)`: every distribution without zeros is one, whatever the map.

    Args:
        logits: a (C, D).
        data: the samples.
        exponent: k of ``harmonic``.
        strength: λ.
        start: a₀ (C, D).
    """
    num_classes, num_features = logits.shape
    log_density = as_log_density(logits)
    moved = logits - start
    value = 0.5 * strength / num_classes * moved.square().sum()
    total, products = logits.new_zeros(num_classes), torch.zeros_like(logits)
    floor = 4 * torch.finfo(logits.dtype).eps
    for probs, own_log, labels in zip(*(tensor.split(_CHUNK) for tensor in data), strict=True):
        own = torch.linalg.vecdot(probs, own_log).unsqueeze(1)
        divergence = torch.addmm(own, probs, log_density.T, alpha=-1).clamp_min_(floor)
        scores = divergence.log().mul_(-exponent).log_softmax(dim=1)
        value += F.nll_loss(scores, labels, reduction="sum") / len(data.targets)
        residual = scores.exp_().scatter_add_(1, labels[:, None], -torch.ones_like(own)).div_(divergence)
        total += residual.sum(dim=0)
        products.addmm_(residual.T, probs)
    # ∂D_v/∂a^v = q^v − p
    gradient = (products - log_density.exp() * (total / num_features)[:, None]).mul_(exponent / len(data.targets))
    return value, gradient.add_(moved, alpha=strength / num_classes)


def fit_centroids(logits: Tensor, data: LabelledPoints, exponent: float, strength: float, start: Tensor) -> Tensor:
    """The a (C, D) that minimise :func:`objective`, found from ``logits`` on."""

    def by_strength(point: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        value, gradient = objective(point[0], data, exponent, strength, start)
        return value, [gradient]

    unit = torch.full_like(start, (len(start) / strength) ** 0.5)
    return minimize(by_strength, [logits], [unit], _TOLERANCE)[0][0]


def search_strength(train: LabelledPoints, held_out: LabelledPoints, exponent: float, start: Tensor) -> Choice:
    """The strength of ``STRENGTHS`` whose centroids, fitted on ``train``, have the smallest loss on ``held_out``.

    From the strongest on, each from the last one's minimum, until two in a row have gained nothing worth its time. If every
    fit is worse than the start, the start stays, and the strength is infinite.
    """
    logits, best, chosen = start, start, float("inf")
    lowest = last = float(objective(start, held_out, exponent, 0.0, start)[0])
    idle = 0
    for strength in STRENGTHS:
        logits = fit_centroids(logits, train, exponent, strength, start)
        value = float(objective(logits, held_out, exponent, 0.0, start)[0])
        if value < lowest:
            chosen, lowest, best = strength, value, logits
        idle = 0 if value < last - _GAIN else idle + 1
        last = value
        if idle == _PATIENCE:
            break
    return Choice(chosen, best)


def choose_centroids(
    start: Tensor, train: LabelledPoints, held_out: LabelledPoints | None, exponent: float, *, seed: int
) -> tuple[Tensor, float]:
    """Centroids ln(D·q) (C, D) fitted on ``train``, with a strength chosen on ``held_out``, and that strength.

    Without ``held_out`` 20 % of each class of ``train`` choose, and the centroids are then fitted on all.
    """
    if held_out is not None:
        strength, logits = search_strength(train, held_out, exponent, start)
    else:
        mask = held_out_rows(train.targets, seed)
        strength, logits = search_strength(train.rows(~mask), train.rows(mask), exponent, start)
        if math.isfinite(strength):
            logits = fit_centroids(logits, train, exponent, strength, start)
    return as_log_density(logits), strength


def as_log_density(logits: Tensor) -> Tensor:
    """The distributions softmax(a) of logits a (C, D) as ln(D·q)."""
    return logits.log_softmax(dim=1) + math.log(logits.shape[1])
