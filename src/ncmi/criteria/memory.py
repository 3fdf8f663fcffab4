"""``FeatureMemory``: feature vectors of past steps with their labels, for batches too small to hold two classes.

Shapes: B samples of this rank, M vectors at most, D feature width.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ncmi.buffers import keep_precision
from ncmi.distributed import gather_labels, sum_over_ranks


class Labelled(NamedTuple):
    """Features (n, D) without a gradient, and their class indices (n,)."""

    features: Tensor
    targets: Tensor


class FeatureMemory(nn.Module):
    """The last M feature vectors of all ranks with their labels, oldest first; equal on every rank.

    All of it is in the ``state_dict``, so that a run resumes with the memory that it had.

    Args:
        size: M.
        num_features: D.

    >>> memory = FeatureMemory(size=3, num_features=2)
    >>> for label in range(4):
    ...     memory.store(memory.gathered(torch.full((1, 2), float(label)), torch.tensor([label])))
    >>> memory.held().targets, int(memory.stored)
    (tensor([1, 2, 3]), 3)
    """

    features: Tensor
    targets: Tensor
    stored: Tensor

    def __init__(self, size: int, num_features: int):
        super().__init__()
        self.size = size
        self.register_buffer("features", torch.zeros(size, num_features))
        self.register_buffer("targets", torch.zeros(size, dtype=torch.long))
        # How many of the rows, counted from the last one, hold a vector.
        self.register_buffer("stored", torch.zeros((), dtype=torch.long))

    @property
    def full(self) -> bool:
        """Whether every row holds a vector."""
        return int(self.stored) == self.size

    def held(self) -> Labelled:
        """What is remembered, oldest first."""
        first = self.size - int(self.stored)
        return Labelled(self.features[first:], self.targets[first:])

    @torch.no_grad()
    def gathered(self, features: Tensor, targets: Tensor) -> Labelled:
        """The batch of all ranks, in rank order: what one process would have as its batch."""
        everyone, own = gather_labels(targets)
        padded = self.features.new_zeros(len(everyone), self.features.shape[1])
        padded[own] = features.to(padded.dtype)
        return Labelled(sum_over_ranks(padded)[0], everyone)

    @torch.no_grad()
    def store(self, batch: Labelled) -> None:
        """Append a batch, that of all ranks; what no longer fits is forgotten, oldest first."""
        self.features.copy_(torch.cat([self.features, batch.features])[-self.size :])
        self.targets.copy_(torch.cat([self.targets, batch.targets])[-self.size :])
        self.stored.copy_((self.stored + len(batch.targets)).clamp(max=self.size))

    def extra_repr(self) -> str:
        """Settings for ``print(criterion)``."""
        return f"{self.size}, {self.features.shape[1]}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        return super()._apply(keep_precision(fn), recurse)
