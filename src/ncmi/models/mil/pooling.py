"""Softmax and weighted means inside each bag of a packed group.

Shapes: G bags, ΣN instances of all bags, H attention heads, D width of a value.

A group holds a handful of bags and a bag thousands of instances, so a loop over the bags costs nothing; it copies no
(ΣN, D) tensor, needs no padding, and gives each bag what it would get alone. Numbers are float32 at least, autocast off: a
weight of one in 100,000 is below what float16 holds.
"""

import torch
from torch import Tensor


def log_attention(logits: Tensor, sizes: list[int]) -> Tensor:
    """Logarithms (ΣN, H) of the attention weights: log-softmax over the instances of each bag.

    >>> log_attention(torch.zeros(6, 1), [4, 2]).exp().flatten()
    tensor([0.2500, 0.2500, 0.2500, 0.2500, 0.5000, 0.5000])
    """
    return torch.cat([part.log_softmax(dim=1) for part in _rows(logits, sizes)], dim=1).mT


def attention_mean(logits: Tensor, values: Tensor, sizes: list[int]) -> Tensor:
    """Means (G, H, D) of the values (ΣN, D) of each bag, weighted with the softmax of the logits (ΣN, H)."""
    with torch.autocast(values.device.type, enabled=False):
        parts = zip(_rows(logits, sizes), values.split(sizes), strict=True)
        return torch.stack([scores.softmax(dim=1) @ at_least_single(part) for scores, part in parts])


def bag_sums(values: Tensor, sizes: list[int]) -> Tensor:
    """Sums (G,) of the numbers (ΣN,) of each bag."""
    return torch.stack([part.sum() for part in values.split(sizes)])


def at_least_single(values: Tensor) -> Tensor:
    """The same numbers in float32, or in float64 where they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _rows(logits: Tensor, sizes: list[int]) -> list[Tensor]:
    """The logits (H, N) of each bag, instances side by side in memory.

    There torch sums 100,000 exponentials ten times as exactly as down a column, where each is added to the last.
    """
    return [part.mT.contiguous() for part in at_least_single(logits).split(sizes)]
