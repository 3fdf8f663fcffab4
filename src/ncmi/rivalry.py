"""``losses_with_rivals``: the per-sample losses of an objective that compares the samples of a (global) batch with each other.

Shapes: B samples of this rank, R rivals, C classes, D feature width.
"""

import itertools

import torch
from torch import Tensor

from ncmi.distributed import gather_rows, max_over_ranks, sum_over_ranks, world_size
from ncmi.functional import (
    FeaturePoints,
    LogDensity,
    Rivals,
    SimplexPoint,
    rival_level,
    rival_losses,
    rivals_of_classes,
    rivals_of_samples,
)
from ncmi.objective import WithRivals
from ncmi.weighting import WeightedTargets

_BLOCK = 256  # rivals that a sample can have: enough to know the close ones by, and the cost stays linear in the batch


def losses_with_rivals(
    objective: WithRivals,
    points: FeaturePoints,
    centroids: LogDensity,
    labels: WeightedTargets,
    classes: Tensor,
    *,
    over_ranks: bool,
) -> Tensor:
    """A number (B,) for each sample of this rank; rivals count alike, whatever the weight of their class.

    Args:
        objective: the logits.
        points: of the samples.
        centroids: all C.
        labels: of the samples, with their weights.
        classes: the same without weights: class indices (B,) or soft labels (B, C).
        over_ranks: whether the samples of other ranks are rivals too. All ranks must call this then, with or without samples.
    """
    counted = classes if labels.valid is None else torch.where(labels.valid, classes, -1)
    everyone, theirs, own = points.log_density, counted, slice(0, len(counted))
    if over_ranks:
        everyone, theirs, own = gather_rows(everyone, counted)
    num_classes = len(centroids.log_density)
    logits, levels = [], []
    for rows, block in _own_blocks(len(everyone), own):
        point = SimplexPoint(points.probs[rows], points.log_density[rows])
        # Centroids and samples in one product.
        found = objective.logits(point, LogDensity(torch.cat([centroids.log_density, everyone[block]])))
        chosen, among = found.split([num_classes, block.stop - block.start], dim=1)
        logits.append(chosen)
        levels.append(rival_level(rivals_of_samples(among, counted[rows], theirs[block]), num_classes))
    of_all = torch.cat(logits)
    rivals = rivals_of_classes(of_all, classes, labels.valid)
    class_level = rival_level(_over_ranks(rivals) if over_ranks else rivals, num_classes)
    return rival_losses(of_all, labels.targets, class_level, torch.cat(levels))


def _over_ranks(rivals: Rivals) -> Rivals:
    """Those of all ranks; one without samples has sums of −∞, which weigh nothing."""
    if world_size() == 1:
        return rivals
    peak = max_over_ranks(rivals.log_total.detach())
    total, count = sum_over_ranks((rivals.log_total - peak).exp(), rivals.count)
    return Rivals(peak + total.log(), count)


def _own_blocks(size: int, own: slice) -> list[tuple[slice, slice]]:
    """Rows of this rank, and the block of the global batch in which they find their rivals.

    Blocks are as equal as they can be and have at most ``_BLOCK`` samples. A rank without samples gets one pair without any,
    so that it takes part in every gradient's message.
    """
    number = -(-size // _BLOCK)
    edges = [size * index // number for index in range(number + 1)] if size else []
    found = []
    for start, stop in itertools.pairwise(edges):
        first, last = max(start, own.start), min(stop, own.stop)
        if first < last:
            found.append((slice(first - own.start, last - own.start), slice(start, stop)))
    return found or [(slice(0, 0), slice(own.start, own.start))]
