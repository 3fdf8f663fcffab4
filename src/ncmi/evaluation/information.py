"""CMI, Γ and NCMI of points that come in pieces.

Shapes: B samples of a piece, C classes, D feature width.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ncmi.evaluation.features import LabelledFeatures
from ncmi.evaluation.protocol import Criterion, device_of
from ncmi.functional import ClassStatistics, SimplexPoint, ncmi
from ncmi.metric import add_to_classes

CHUNK = 4096  # rows that are mapped and scored at a time, in float64

# Γ of outputs that are equal to the last float32 digit; below it CMI/Γ is a ratio of two rounding errors (as in NCMIMetric).
_RESOLUTION = 1e-12


class Terms(NamedTuple):
    """CMI, Γ and NCMI as numbers; ``ncmi`` is NaN where Γ is zero: one class only, or outputs that are all alike."""

    cmi: float
    gamma: float
    ncmi: float


class ClassSums:
    """The class statistics (n, P, L, E) of all points added so far: float64, in place, two C×D matrices however many come.

    >>> from ncmi.functional import simplex_point
    >>> sums = ClassSums(num_classes=2, num_features=3)
    >>> sums.add(simplex_point(torch.tensor([[1.0, 0.0, -1.0], [-1.0, 0.0, 1.0]]).double()), torch.tensor([0, 1]))
    >>> round(terms(sums.statistics).ncmi, 9), sums.statistics.counts.tolist()
    (0.0, [1.0, 1.0])
    """

    def __init__(self, num_classes: int, num_features: int, device: torch.device | None = None):
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        shape = (num_classes, num_features)
        self.statistics = ClassStatistics(zeros(num_classes), zeros(*shape), zeros(*shape), zeros())

    def add(self, points: SimplexPoint, targets: Tensor) -> None:
        """Add points (B, D) in float64 to the sums of their classes (B,)."""
        counts, prob_sum, log_sum, neg_entropy = self.statistics
        own = torch.linalg.vecdot(points.probs, points.log_density)
        add_to_classes(counts, targets, torch.ones_like(own))
        add_to_classes(prob_sum, targets, points.probs)
        add_to_classes(log_sum, targets, points.log_density)
        neg_entropy.add_(own.sum())


def class_sums(criterion: Criterion, part: LabelledFeatures) -> ClassSums:
    """The class statistics of labelled features under the criterion's map."""
    device = device_of(criterion)
    sums = ClassSums(criterion.num_classes, criterion.num_features, device)
    for features, targets in part.chunks(CHUNK):
        sums.add(criterion.points(features.to(device).double()), targets.to(device))
    return sums


def terms(statistics: ClassStatistics) -> Terms:
    """CMI, Γ and NCMI of the sums."""
    cmi, gamma, ratio = (value.item() for value in ncmi(statistics))
    return Terms(cmi, gamma, ratio if gamma > _RESOLUTION else math.nan)


def class_mean_log_density(statistics: ClassStatistics) -> Tensor:
    """Class means s^y as log-densities ln(D·s^y), (C, D); the row of a class without samples is NaN."""
    means = statistics.prob_sum / statistics.counts.unsqueeze(-1)
    # A probability can underflow at temperatures below 0.01; its logarithm is then that of the smallest number.
    return (means * means.shape[1]).clamp_min(torch.finfo(means.dtype).tiny).log()
