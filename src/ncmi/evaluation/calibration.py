"""Calibration: whether a decision with confidence 0.8 is right eight times in ten.

Shapes: N samples, C classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_calibration_error

from ncmi.evaluation.scores import check_probabilities, places

BINS = 15  # Guo et al. 2017, and usual since


class Reliability(NamedTuple):
    """Mean confidence, accuracy and count of the samples in each bin, (bins,) each; the means of an empty bin are NaN."""

    confidence: Tensor
    accuracy: Tensor
    count: Tensor


def calibration_error(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> float:
    r"""Expected calibration error :math:`\sum_b \frac{n_b}N\,|\mathrm{accuracy}_b - \mathrm{confidence}_b|` (Guo et al. 2017).

    The confidence of a sample is its largest probability; bins are of equal width.

    Args:
        probabilities: (N, C), rows that sum to one.
        targets: class indices (N,).
        bins: number of bins.

    >>> calibration_error(torch.tensor([[0.75, 0.25]]).repeat(4, 1).double(), torch.tensor([0, 0, 0, 1]))
    0.0
    """
    return confidence_error(*_confidence("calibration_error", probabilities, targets, bins), bins)


def confidence_error(confidence: Tensor, right: Tensor, bins: int = BINS) -> float:
    """Expected calibration error of confidences (N,) in [0, 1] of decisions that are ``right`` (N,) or not."""
    # torchmetrics takes a number above 1, even by a rounding, as the sign of logits and puts a sigmoid over all.
    return binary_calibration_error(confidence.double().clamp_max(1.0), right.long(), n_bins=bins).item()


def reliability(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> Reliability:
    """Confidence, accuracy and count of each of ``bins`` equal bins, as in :func:`calibration_error`: a reliability diagram.

    >>> reliability(torch.tensor([[0.75, 0.25]]).repeat(4, 1), torch.tensor([0, 0, 0, 1]), bins=2).accuracy
    tensor([  nan, 0.7500], dtype=torch.float64)
    """
    return confidence_reliability(*_confidence("reliability", probabilities, targets, bins), bins)


def confidence_reliability(confidence: Tensor, right: Tensor, bins: int = BINS) -> Reliability:
    """The reliability of confidences (N,) in [0, 1] of decisions that are ``right`` (N,) or not."""
    confidence = confidence.double().clamp_max(1.0)
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64, device=confidence.device)
    # A confidence on an edge belongs to the upper bin, as in torchmetrics; 1 to the last.
    index = (torch.bucketize(confidence, edges, right=True) - 1).clamp_max(bins - 1)
    count = index.bincount(minlength=bins)
    means = [index.bincount(weights, minlength=bins) / count for weights in (confidence, right.double())]
    return Reliability(means[0], means[1], count)


def _confidence(owner: str, probabilities: Tensor, targets: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """Largest probability (N,), and whether its class is the right one (N,)."""
    if bins < 1:
        raise ValueError(f"{owner}: bins must be at least 1; got {bins}. 15 is usual.")
    check_probabilities(owner, probabilities, targets)
    return probabilities.amax(dim=1), places(probabilities, targets.long()) == 0
