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
from ncmi.heads.sharpness import fit_sharpness

# Half decades from centroids that hardly leave their start to ones that the data alone decide on.
STRENGTHS = tuple(10.0 ** (1 - half / 2) for half in range(11))

_CHUNK = 4096  # rows whose divergences exist at a time
_TOLERANCE = 1e-4  # of the gradient, in units of the penalty's curvature: an excess of about 1e-8
_GAIN = 1e-3  # nats; what weaker penalties must gain for the search to go on
_PATIENCE = 2
_WIDEST = 100.0  # nats; the range of scores where the classes are told apart without a mistake


class LabelledPoints(NamedTuple):
    """Points p of the simplex, ``probs`` (N, D) in float64, and their classes (N,)."""

    probs: Tensor
    targets: Tensor

    def rows(self, mask: Tensor) -> "LabelledPoints":
        """Those of the samples that ``mask`` (N,) marks."""
        return LabelledPoints(*(tensor[mask] for tensor in self))


class Choice(NamedTuple):
    """A strength, and the logits a (C, D) of the centroids that minimise :func:`objective` with it."""

    strength: float
    logits: Tensor


def objective(
    logits: Tensor, data: LabelledPoints, sharpness: float, strength: float, start: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Value and gradient of :math:`-\frac1N\sum_x\ln\mathrm{softmax}(-\beta D)_{c_x}+\frac\lambda{2C}\sum_v\|a^v-a_0^v\|^2`.

    :math:`D_v=D(p_x\|q^v)` and :math:`q^v=\mathrm{softmax}(a^v)`: every distribution without zeros is one, whatever the map.

    Args:
        logits: a (C, D).
        data: the samples.
        sharpness: β.
        strength: λ.
        start: a₀ (C, D).
    """
    num_classes, num_features = logits.shape
    log_density = as_log_density(logits)
    moved = logits - start
    value = 0.5 * strength / num_classes * moved.square().sum()
    total, products = logits.new_zeros(num_classes), torch.zeros_like(logits)
    for probs, labels in zip(*(tensor.split(_CHUNK) for tensor in data), strict=True):
        # −D but for a number that all classes share
        scores = (probs @ log_density.T).mul_(sharpness).log_softmax(dim=1)
        value += F.nll_loss(scores, labels, reduction="sum") / len(data.targets)
        residual = scores.exp_().scatter_add_(1, labels[:, None], -torch.ones_like(scores[:, :1]))
        total += residual.sum(dim=0)
        products.addmm_(residual.T, probs)
    # ∂D_v/∂a^v = q^v − p
    gradient = (products - log_density.exp() * (total / num_features)[:, None]).mul_(sharpness / len(data.targets))
    return value, gradient.add_(moved, alpha=strength / num_classes)


def mean_sharpness(train: LabelledPoints, held_out: LabelledPoints) -> float:
    """The β under which ``held_out`` is most likely if the class means of ``train`` decide.

    Held out, because after training many samples lie so near to their own mean that they would ask for a β without bound.
    """
    classes, labels = train.targets.unique(return_inverse=True)
    sums = train.probs.new_zeros(len(classes), train.probs.shape[1]).index_add_(0, labels, train.probs)
    means = sums / labels.bincount().unsqueeze(1)
    known = held_out.rows(torch.isin(held_out.targets, classes))
    found = fit_sharpness(known.probs @ means.log().T, torch.searchsorted(classes, known.targets), _WIDEST)
    return 1.0 if found is None else found.value


def minimize_from(logits: Tensor, data: LabelledPoints, sharpness: float, strength: float, start: Tensor) -> Tensor:
    """The a (C, D) that minimise :func:`objective`, found from ``logits`` on."""

    def by_strength(point: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        value, gradient = objective(point[0], data, sharpness, strength, start)
        return value, [gradient]

    unit = torch.full_like(start, (len(start) / strength) ** 0.5)
    return minimize(by_strength, [logits], [unit], _TOLERANCE)[0][0]


def search_strength(train: LabelledPoints, held_out: LabelledPoints, sharpness: float, start: Tensor) -> Choice:
    """The strength of ``STRENGTHS`` whose centroids, fitted on ``train``, have the smallest loss on ``held_out``.

    From the strongest on, each from the last one's minimum, until two in a row have gained nothing worth its time. If every
    fit is worse than the start, the start stays, and the strength is infinite.
    """
    logits, best, chosen = start, start, float("inf")
    lowest = last = float(objective(start, held_out, sharpness, 0.0, start)[0])
    idle = 0
    for strength in STRENGTHS:
        logits = minimize_from(logits, train, sharpness, strength, start)
        value = float(objective(logits, held_out, sharpness, 0.0, start)[0])
        if value < lowest:
            chosen, lowest, best = strength, value, logits
        idle = 0 if value < last - _GAIN else idle + 1
        last = value
        if idle == _PATIENCE:
            break
    return Choice(chosen, best)


def fit_centroids(start: Tensor, train: LabelledPoints, strength: float) -> Tensor:
    """Centroids ln(D·q) (C, D) fitted on ``train`` with a given strength."""
    sharpness = mean_sharpness(train, train)
    return as_log_density(minimize_from(start, train, sharpness, strength, start))


def choose_centroids(
    start: Tensor, train: LabelledPoints, held_out: LabelledPoints | None, *, seed: int
) -> tuple[Tensor, float]:
    """Centroids ln(D·q) (C, D) fitted on ``train``, with a strength chosen on ``held_out``, and that strength.

    Without ``held_out`` 20 % of each class of ``train`` choose, and the centroids are then fitted on all.
    """
    if held_out is not None:
        sharpness = mean_sharpness(train, held_out)
        strength, logits = search_strength(train, held_out, sharpness, start)
    else:
        mask = held_out_rows(train.targets, seed)
        part, rest = train.rows(~mask), train.rows(mask)
        sharpness = mean_sharpness(part, rest)
        strength, logits = search_strength(part, rest, sharpness, start)
        if math.isfinite(strength):
            logits = minimize_from(logits, train, sharpness, strength, start)
    return as_log_density(logits), strength


def as_log_density(logits: Tensor) -> Tensor:
    """The distributions softmax(a) of logits a (C, D) as ln(D·q)."""
    return logits.log_softmax(dim=1) + math.log(logits.shape[1])
