"""Stratified choices of samples: a validation part off the training set, or a small training set.

The total is exact, and each class gets its share to within one sample, unless that would leave it with none. Which samples
are taken is a function of the seed and of the sample's index alone, in integers, so it is the same on every machine.

Shapes: N samples, C classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ncmi.data.keyed import SPLIT, permutation


class Split(NamedTuple):
    """Two sets of sample indices, each in rising order; together they are all samples."""

    kept: Tensor
    held_out: Tensor


def split_off(targets: Tensor, held_out: int | float, seed: int = 0) -> Split:
    """Indices kept and held out, the latter with the class proportions of ``targets`` (N,).

    Every class keeps a sample, so that it can be trained; a class of one sample is never held out.

    Args:
        targets: class indices (N,).
        held_out: how many samples (an int), or which fraction of them (a float in (0, 1); rounded to whole samples).
        seed: another seed holds out other samples.

    >>> kept, held_out = split_off(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2]), 4)
    >>> len(kept), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2])[held_out].tolist()
    (5, [0, 0, 1, 1])
    """
    targets = targets.cpu()
    count = _count("split_off", held_out, len(targets))
    sizes = torch.bincount(targets)
    room = (sizes - 1).clamp_min(0)  # a class keeps one
    if count > int(room.sum()):
        raise ValueError(
            f"split_off: {count} of {len(targets)} samples cannot be held out, because each of the "
            f"{int((sizes > 0).sum())} classes must keep one; at most {int(room.sum())} can. Pass a smaller held_out."
        )
    taken = _choose(targets, _shares(sizes, count, torch.zeros_like(room), room, seed), seed)
    mask = torch.zeros(len(targets), dtype=torch.bool)
    mask[taken] = True
    return Split((~mask).nonzero().flatten(), taken)


def stratified_subset(targets: Tensor, count: int, seed: int = 0) -> Tensor:
    """Indices (count,) of a part with the class proportions of ``targets`` (N,), in rising order.

    Every class is in it as long as ``count`` is at least the number of classes.

    >>> stratified_subset(torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1, 2]), 4).tolist()
    [2, 3, 7, 9]
    """
    targets = targets.cpu()
    if not 1 <= count <= len(targets):
        raise ValueError(f"stratified_subset: count must lie in [1, {len(targets)}], the size of the set; got {count}.")
    sizes = torch.bincount(targets)
    least = (sizes > 0).long()
    if count < int(least.sum()):
        least.zero_()
    return _choose(targets, _shares(sizes, count, least, sizes, seed), seed)


def _count(owner: str, wanted: int | float, length: int) -> int:
    count = round(wanted * length) if isinstance(wanted, float) else wanted
    if isinstance(wanted, float) and not 0 < wanted < 1:
        raise ValueError(f"{owner}: a fraction must lie in (0, 1); got {wanted}. For a number of samples pass an int.")
    if not 1 <= count < length:
        raise ValueError(f"{owner}: held_out must lie in [1, {length - 1}] for {length} samples; got {wanted}.")
    return count


def _shares(sizes: Tensor, count: int, least: Tensor, most: Tensor, seed: int) -> Tensor:
    """How many of each class (C,): count · sizes / N by largest remainder, between ``least`` and ``most``."""
    # In a random order of classes, so that the first ones are not favoured where remainders are equal.
    turns = permutation(len(sizes), seed=seed, purpose=SPLIT)
    sizes, least, most, total = sizes[turns], least[turns], most[turns], int(sizes.sum())
    shares = (sizes * count // total).clamp(least, most)
    never = torch.iinfo(torch.int64).max
    while (left := count - int(shares.sum())) != 0:
        owed = sizes * count - shares * total
        if left > 0:
            shares[torch.where(shares < most, owed, -never).argmax()] += 1
        else:
            shares[torch.where(shares > least, owed, never).argmin()] -= 1
    return torch.empty_like(shares).index_copy_(0, turns, shares)


def _choose(targets: Tensor, shares: Tensor, seed: int) -> Tensor:
    """The first ``shares`` (C,) samples of each class in a random order, sorted by index."""
    order = permutation(len(targets), seed=seed, purpose=SPLIT)
    order = order[targets[order].argsort(stable=True)]
    sizes = torch.bincount(targets, minlength=len(shares))
    starts = sizes.cumsum(0) - sizes
    labels = targets[order]
    place = torch.arange(len(order)) - starts[labels]
    return order[place < shares[labels]].sort().values
