"""The β that turns scores into probabilities softmax(β·scores): one over their temperature.

Shapes: N samples, C classes.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

_CHUNK = 8192  # rows whose scores are held in float64 at a time


class Sharpness(NamedTuple):
    """β > 0, and whether it is a minimum and not an end of the range that was searched."""

    value: float
    inside: bool


def fit_sharpness(scores: Tensor, targets: Tensor, widest: float = 1e6) -> Sharpness | None:
    """The β with the smallest negative log-likelihood of softmax(β·scores); ``None`` where all scores of a sample are equal.

    The likelihood is convex in β, so there is one minimum; it is found by Newton steps inside a bracket, which cannot diverge.

    Args:
        scores: (N, C).
        targets: class indices (N,).
        widest: the largest mean range of β·scores; where all are decided right, the likelihood has no minimum before it.

    >>> fit_sharpness(torch.tensor([[3.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])).inside
    True
    """
    spread = (scores.amax(dim=1) - scores.amin(dim=1)).double().mean().item()
    if not spread > 0:
        return None
    lowest, highest = 1e-4 / spread, widest / spread
    if _likelihood_slope(scores, targets, lowest)[0] >= 0:
        return Sharpness(lowest, False)
    if _likelihood_slope(scores, targets, highest)[0] <= 0:
        return Sharpness(highest, False)
    beta = math.sqrt(lowest * highest)
    while highest / lowest > 1 + 1e-9:
        slope, curvature = _likelihood_slope(scores, targets, beta)
        lowest, highest = (beta, highest) if slope < 0 else (lowest, beta)
        step = beta - slope / curvature if curvature > 0 else math.nan
        if abs(step - beta) <= 1e-9 * beta:
            break
        beta = step if lowest < step < highest else math.sqrt(lowest * highest)
    return Sharpness(beta, True)


def _likelihood_slope(scores: Tensor, targets: Tensor, beta: float) -> tuple[float, float]:
    """First and second derivative of the mean negative log-likelihood of softmax(β·scores) with respect to β."""
    slope = curvature = 0.0
    for rows, labels in zip(scores.split(_CHUNK), targets.split(_CHUNK), strict=True):
        rows = rows.double()
        probs = (beta * rows).softmax(dim=1)
        mean = torch.linalg.vecdot(probs, rows)
        own = rows.gather(1, labels.unsqueeze(1)).squeeze(1)
        slope += (mean - own).sum().item()
        curvature += torch.linalg.vecdot(probs, (rows - mean.unsqueeze(1)).square()).sum().item()
    return slope / len(scores), curvature / len(scores)
