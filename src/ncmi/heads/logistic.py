"""Multinomial logistic regression to the exact minimum: the problem behind a linear probe.

Shapes: N samples, C classes, D feature width.

Only tensors enter here. Features are standardised by the caller, so one weight decay means the same for every coordinate.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ncmi.heads import lbfgs

# Half decades from 1, which leaves little but the class priors, to 1e-6, which leaves every direction with a millionth of a
# coordinate's variance to the data. Below that, separable classes gain nothing but larger logits: they grow like ln(1/λ).
WEIGHT_DECAYS = tuple(10.0 ** (-half / 2) for half in range(13))
HELD_OUT = 0.2

_CHUNK = 4096  # rows whose logits exist at a time: they stay in cache, and memory does not grow with N·C
_RISES = 2


class Line(NamedTuple):
    """A linear map to logits: ``weight`` (C, D) and ``bias`` (C,)."""

    weight: Tensor
    bias: Tensor


def objective(line: Line, features: Tensor, targets: Tensor, weight_decay: float = 0.0) -> tuple[Tensor, Line]:
    r"""Value and gradient of :math:`\frac1N\sum_x -\ln\mathrm{softmax}(Wf_x+b)_{c_x} + \frac\lambda2\|W\|^2`.

    The value is summed in float64: a line search near the minimum compares values that float32 cannot tell apart.
    """
    value = 0.5 * weight_decay * line.weight.double().square().sum()
    gradient = Line(torch.zeros_like(line.weight), torch.zeros_like(line.bias))
    for rows, labels in zip(features.split(_CHUNK), targets.split(_CHUNK), strict=True):
        labels = labels.unsqueeze(1)
        log_probs = torch.addmm(line.bias, rows, line.weight.T).log_softmax(dim=1)
        value -= log_probs.gather(1, labels).sum(dtype=torch.float64) / len(features)
        residual = log_probs.exp_().scatter_add_(1, labels, -torch.ones_like(labels, dtype=features.dtype))
        gradient.weight.addmm_(residual.T, rows)
        gradient.bias.add_(residual.sum(dim=0))
    gradient.weight.div_(len(features)).add_(line.weight, alpha=weight_decay)
    gradient.bias.div_(len(features))
    return value, gradient


def minimize(
    features: Tensor, targets: Tensor, start: Line, weight_decay: float, tolerance: float
) -> tuple[Line, float]:
    """The line that minimises :func:`objective`, by L-BFGS, and the largest entry of the gradient there.

    Each weight, and with it the gradient, is measured in units of its curvature at the start. For uncorrelated columns (see
    :func:`principal_axes`) that makes the problem nearly round, however unequal they are: tens of steps instead of
    thousands. In these units the excess over the minimum is about half the squared length of the gradient. It ends when no
    entry of the gradient exceeds ``tolerance``.
    """

    def by_line(point: Sequence[Tensor]) -> tuple[Tensor, Line]:
        return objective(Line(*point), features, targets, weight_decay)

    point, largest = lbfgs.minimize(
        by_line, [tensor.to(features.dtype) for tensor in start], _units(start, features, weight_decay), tolerance
    )
    return Line(*point), largest


def _units(line: Line, features: Tensor, weight_decay: float) -> Line:
    """One over the square root of the objective's second derivative along each weight and bias."""
    spread = torch.zeros_like(line.bias)
    for rows in features.split(_CHUNK):
        probs = torch.addmm(line.bias, rows, line.weight.T).softmax(dim=1)
        spread += (probs * (1 - probs)).sum(dim=0)
    spread /= len(features)
    # A class that is certain everywhere at the start need not be so at the minimum.
    spread = spread.clamp_min(1e-3 / len(spread))
    moment = features.square().mean(dim=0)
    return Line(
        torch.addmm(spread.new_full((1, 1), weight_decay), spread[:, None], moment[None]).rsqrt(), spread.rsqrt()
    )


def principal_axes(features: Tensor) -> Tensor:
    """Orthonormal axes (D, K), K = min(N, D), along which centred features are uncorrelated.

    Rotated features pose the same problem, because the penalty does not see a rotation; with fewer samples than coordinates
    the axes left out carry no data, and their weights are zero at the minimum.
    """
    if len(features) < features.shape[1]:
        return torch.linalg.svd(features, full_matrices=False).Vh.T
    return torch.linalg.eigh(features.T @ features).eigenvectors


class Choice(NamedTuple):
    """A weight decay, the line that minimises :func:`objective` with it, and the largest gradient entry of the search."""

    weight_decay: float
    line: Line
    largest: float


def search_weight_decay(features: Tensor, targets: Tensor, start: Line, tolerance: float, seed: int) -> Choice:
    """The weight decay of ``WEIGHT_DECAYS`` with the smallest held-out cross-entropy.

    Each candidate is minimised to ``tolerance``: a fit that stops early is regularised by the stop, and a weak weight decay
    would win with a solution that it does not have. The strongest comes first. The next starts where the last step of the path
    leads when it is repeated, because weights move about evenly with ln λ.

    The search ends when the held-out cross-entropy has risen twice in a row: the weaker candidates are the costly ones. But
    not before it was below half of ln C: where a large direction says nothing about the class and small ones do, it rises
    before it falls.
    """
    held_out = held_out_rows(targets, seed)
    train = (features[~held_out], targets[~held_out])
    test = (features[held_out], targets[held_out])
    before = line = start
    chosen, lowest, steepest = WEIGHT_DECAYS[0], float("inf"), 0.0
    best, last, rises = start, float("inf"), 0
    for weight_decay in WEIGHT_DECAYS:
        ahead = Line(2 * line.weight - before.weight, 2 * line.bias - before.bias)
        before = line
        line, largest = minimize(*train, ahead, weight_decay, tolerance)
        steepest = max(steepest, largest)
        value = float(objective(line, *test)[0])
        if value < lowest:
            chosen, lowest, best = weight_decay, value, line
        rises = rises + 1 if value > last else 0
        last = value
        if rises == _RISES and lowest < 0.5 * math.log(len(start.bias)):
            break
    return Choice(chosen, best, steepest)


def held_out_rows(targets: Tensor, seed: int) -> Tensor:
    """A mask (N,) of 20 % of each class, at least one sample of a class that has two or more."""
    count = targets.bincount()
    quota = torch.maximum((HELD_OUT * count).round().long(), (count > 1).long())
    shuffled = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed)).to(targets.device)
    order = shuffled[targets[shuffled].argsort(stable=True)]
    ordered = targets[order]
    rank = torch.arange(len(targets), device=targets.device) - (count.cumsum(0) - count)[ordered]
    return torch.zeros_like(targets, dtype=torch.bool).scatter_(0, order, rank < quota[ordered])
