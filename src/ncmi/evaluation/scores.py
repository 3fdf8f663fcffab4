"""Scores and labels in, places out: how many classes stand ahead of the right one.

Shapes: B samples, C classes.
"""

import torch
from torch import Tensor

from ncmi.checks import check_targets

TOP = 5


def check_scores(owner: str, scores: Tensor, num_samples: int, num_classes: int) -> None:
    """Scores (B, C) without NaN; minus infinity is a class that cannot be decided for."""
    if scores.shape != (num_samples, num_classes):
        raise ValueError(
            f"{owner}: scores must have shape ({num_samples}, {num_classes}), one number a sample and class; got "
            f"{tuple(scores.shape)}. Look at what scores(features) returns."
        )
    if bool(scores.isnan().any()):
        row = int(scores.isnan().any(dim=1).nonzero()[0])
        raise ValueError(
            f"{owner}: scores must be numbers; row {row} holds NaN, though its features are finite. Check the parameters "
            "of the criterion."
        )


def places(scores: Tensor, targets: Tensor) -> Tensor:
    """Number (B,) of classes ahead of the right one: 0 is a right decision, below 5 is right among the top five.

    Of equal scores the lower class comes first, as in ``argmax``, so that outputs that are all alike are right at the rate
    of chance and not always. A right class with a score of minus infinity has place C: it cannot be decided for.

    >>> places(torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.5, 0.5]]), torch.tensor([2, 2]))
    tensor([1, 2])
    """
    num_classes = scores.shape[1]
    own = scores.gather(1, targets.unsqueeze(1))
    earlier = torch.arange(num_classes, device=scores.device) < targets.unsqueeze(1)
    ahead = ((scores > own) | ((scores == own) & earlier)).sum(dim=1)
    return torch.where(own.squeeze(1) == -torch.inf, num_classes, ahead)


def check_probabilities(owner: str, probabilities: Tensor, targets: Tensor) -> None:
    """Non-negative rows (N, C) that sum to one, with class indices (N,), none of them ignored."""
    if probabilities.ndim != 2 or not len(probabilities):
        raise ValueError(
            f"{owner}: probabilities must have shape (N, C) with at least one row; got {tuple(probabilities.shape)}."
        )
    sums = probabilities.double().sum(dim=1)
    if bool((probabilities < 0).any()) or not bool(((sums - 1).abs() < 1e-3).all()):
        raise ValueError(
            f"{owner}: probabilities must be non-negative rows that sum to one; got sums of {float(sums.min()):.4g} … "
            f"{float(sums.max()):.4g}. For scores pass scores.softmax(1)."
        )
    if targets.is_floating_point():
        raise TypeError(f"{owner}: targets must be class indices (N,); got soft labels. Pass targets.argmax(1).")
    if check_targets(owner, targets, len(probabilities), probabilities.shape[1], -100):
        raise ValueError(
            f"{owner}: targets must be class indices; some are -100. Leave those rows out of both arguments."
        )
