"""``BatchPlan``: which sample is in which batch of which rank, epoch by epoch.

Shapes: N samples, W ranks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ncmi.data.keyed import permutation


@dataclass(frozen=True)
class BatchPlan:
    """Sample indices of each step of one rank.

    Shuffled (training): in every step the ranks' batches, joined in rank order, are the batch that one process would take,
    and all ranks make the same number of steps. In order (evaluation): each rank goes through a contiguous part of the set,
    and every sample is in exactly one part; the ranks' numbers of steps can differ by one.

    Args:
        num_samples: N.
        batch_size: of all ranks together.
        shuffle: a new order each epoch, by (seed, epoch).
        drop_last: leave out the last batch of an epoch if it is smaller than ``batch_size``.
        seed: of the order.
        rank: of this process.
        num_ranks: W.

    >>> plan = BatchPlan(10, 4, shuffle=False, rank=1, num_ranks=2)
    >>> [batch.tolist() for batch in plan.batches(epoch=0)]
    [[5, 6], [7, 8], [9]]
    """

    num_samples: int
    batch_size: int
    shuffle: bool = True
    drop_last: bool = False
    seed: int = 0
    rank: int = 0
    num_ranks: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.num_ranks:
            raise ValueError(f"BatchPlan: rank must lie in [0, {self.num_ranks - 1}]; got {self.rank}.")
        if self.batch_size < self.num_ranks:
            raise ValueError(
                f"BatchPlan: batch_size is that of all ranks together and must be at least their number, {self.num_ranks}; "
                f"got {self.batch_size}."
            )
        if self.num_samples < 1:
            raise ValueError("BatchPlan: there is no sample to make a batch of; the set is empty.")
        rest = self.num_samples % self.batch_size
        if self.shuffle and self.drop_last and self.num_samples < self.batch_size:
            raise ValueError(
                f"BatchPlan: {self.num_samples} samples do not fill one batch of {self.batch_size}, and drop_last leaves "
                "nothing. Lower batch_size, or pass drop_last=False."
            )
        if self.shuffle and not self.drop_last and 0 < rest < self.num_ranks:
            raise ValueError(
                f"BatchPlan: the last batch of an epoch has {rest} of {self.num_samples} samples, too few for "
                f"{self.num_ranks} ranks. Pass drop_last=True, or another batch_size than {self.batch_size}."
            )
        if not self.shuffle and self.drop_last:
            raise ValueError("BatchPlan: drop_last needs shuffle, because an evaluation takes every sample once.")

    def __len__(self) -> int:
        """Steps of an epoch."""
        if self.shuffle and self.drop_last:
            return self.num_samples // self.batch_size
        if self.shuffle:
            return -(-self.num_samples // self.batch_size)
        first, last = self._part(self.num_samples)
        return -(-(last - first) // self._own_size)

    def batches(self, epoch: int, start_step: int = 0) -> Iterator[Tensor]:
        """Indices (B,) of this rank's batches in an epoch, from ``start_step`` on."""
        if self.shuffle:
            order = permutation(self.num_samples, seed=self.seed, epoch=epoch)
            for step in range(start_step, len(self)):
                whole = order[step * self.batch_size : (step + 1) * self.batch_size]
                first, last = self._part(len(whole))
                yield whole[first:last]
        else:
            first, last = self._part(self.num_samples)
            for start in range(first + start_step * self._own_size, last, self._own_size):
                yield torch.arange(start, min(start + self._own_size, last))

    @property
    def _own_size(self) -> int:
        return -(-self.batch_size // self.num_ranks)

    def _part(self, length: int) -> tuple[int, int]:
        """Begin and end of this rank's contiguous part of ``length`` samples; sizes differ by at most one."""
        return length * self.rank // self.num_ranks, length * (self.rank + 1) // self.num_ranks
