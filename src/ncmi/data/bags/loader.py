"""``BagLoader``: groups of bags, packed one after the other, on the device.

Shapes: G bags of this rank's group with n instances each, ΣN instances of all of them, F feature width.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ncmi.data.bags.bag_set import BagSet
from ncmi.data.bags.groups import GroupPlan
from ncmi.data.batches import BatchPlan


class BagBatch(NamedTuple):
    """A group of bags, one after the other.

    Instances (ΣN, F) in float32, the number of instances of each bag, lengths (G,), their targets (G,) and their indices (G,)
    in the set, all on one device.
    """

    instances: Tensor
    lengths: Tensor
    targets: Tensor
    indices: Tensor

    def bags(self) -> tuple[Tensor, ...]:
        """The instances (n, F) of each bag, as views, for models that take one bag at a time."""
        return self.instances.split(self.lengths.tolist())


class BagLoader:
    """Groups of bags of the current epoch from its start step on; ``len()`` is the number of steps of a whole epoch.

    Features travel to the device in the type they are stored in and become float32 there.

    Args:
        bags: the set; preload it if it fits into memory.
        group_size: the most bags of a group, of all ranks together. 16 by default; 1 goes bag by bag.
        shuffle: training groups as in :class:`GroupPlan`; ``False`` takes every bag once and in order (evaluation).
        two_classes: at least two classes in each training group.
        balanced: the same number of bags from every class, in training.
        seed: of order and choice.
        rank: of this process.
        num_ranks: number of processes.
        device: where the groups are; ``None`` is the CPU.

    >>> from ncmi.data.bags import Bag, HeldBags
    >>> reader = HeldBags({name: Bag(torch.ones(index + 1, 4).half(), None) for index, name in enumerate("abc")})
    >>> bags = BagSet(("a", "b", "c"), ("p", "q", "r"), torch.tensor([0, 1, 0]), ("benign", "malignant"), 4, reader)
    >>> [(batch.instances.shape, batch.lengths.tolist()) for batch in BagLoader(bags, group_size=2, shuffle=False)]
    [(torch.Size([3, 4]), [1, 2]), (torch.Size([3, 4]), [3])]
    """

    def __init__(
        self,
        bags: BagSet,
        group_size: int = 16,
        *,
        shuffle: bool = True,
        two_classes: bool = True,
        balanced: bool = False,
        seed: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        device: torch.device | str | None = None,
    ):
        if balanced and not shuffle:
            raise ValueError("BagLoader: balanced needs shuffle, because an evaluation takes every bag once.")
        self.source = bags
        self.plan: GroupPlan | BatchPlan = (
            GroupPlan(bags.targets, group_size, two_classes, balanced, seed, rank, num_ranks)
            if shuffle
            else BatchPlan(len(bags), group_size, shuffle=False, rank=rank, num_ranks=num_ranks)
        )
        self.device = torch.device(device or "cpu")
        self.epoch = 0
        self.start_step = 0

    def __len__(self) -> int:
        return len(self.plan)

    def set_epoch(self, epoch: int, start_step: int = 0) -> None:
        """Choose the epoch to iterate over; ``start_step`` > 0 goes on in its middle, as after a restart."""
        if not 0 <= start_step <= len(self):
            raise ValueError(f"BagLoader: start_step must lie in [0, {len(self)}]; got {start_step}.")
        self.epoch, self.start_step = epoch, start_step

    def __iter__(self) -> Iterator[BagBatch]:
        for indices in self.plan.batches(self.epoch, self.start_step):
            yield pack(self.source, indices, self.device)


def pack(bags: BagSet, indices: Tensor, device: torch.device | str | None = None) -> BagBatch:
    """The bags at ``indices`` (G,), one after the other, on a device."""
    parts = [bags.bag(index).instances for index in indices.tolist()]
    lengths = torch.tensor([len(part) for part in parts], dtype=torch.int64)
    # Moved as stored: half the bytes, where features are float16.
    instances = torch.cat(parts).to(device).to(torch.float32)
    return BagBatch(instances, lengths.to(device), bags.targets[indices].to(device), indices.to(device))
