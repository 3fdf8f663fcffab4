"""``GroupPlan``: which bags make which training group, epoch by epoch, with at least two classes in each group.

Shapes: N bags, C classes, G bags of a group.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ncmi.data.keyed import permutation

# A stream of its own beside those of ncmi.data.keyed: which bags a balanced epoch takes.
_CHOICE = 4
_ENDS = ("amin", "amax")


@dataclass(frozen=True, eq=False)
class GroupPlan:
    """Bag indices of each training step of one rank; a function of (seed, epoch).

    Plain: every bag once an epoch. Balanced: as many draws as there are bags, the same number from every class, as the
    weighted sampler of CLAM has on average; bags of a rare class come several times, all about equally often. Groups differ
    in size by one at most, so that no step is made on a small rest. A group of one class has no pair to compare, so one of
    its bags changes places with a bag of the group that has most of the other classes.

    Joined in rank order, the ranks' parts of a step are the group that one process would take.

    Args:
        targets: class indices (N,).
        group_size: the most bags of a group, of all ranks together; 16 by default, of which one in a thousand has only one
            class by chance even on CAMELYON-17.
        two_classes: at least two classes in each group; ``False`` is for losses that need no pairs, and groups of one bag.
            (With groups of two and an odd number of bags, one group has three.)
        balanced: the same number of draws from every class.
        seed: of order and choice.
        rank: of this process.
        num_ranks: number of processes.

    >>> plan = GroupPlan(torch.tensor([0, 0, 0, 0, 0, 1, 1, 2]), group_size=3)
    >>> [sorted(plan.targets[group].tolist()) for group in plan.batches(epoch=0)]
    [[0, 2], [0, 0, 1], [0, 0, 1]]
    """

    targets: Tensor
    group_size: int = 16
    two_classes: bool = True
    balanced: bool = False
    seed: int = 0
    rank: int = 0
    num_ranks: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.num_ranks:
            raise ValueError(f"GroupPlan: rank must lie in [0, {self.num_ranks - 1}]; got {self.rank}.")
        if self.group_size < self.num_ranks:
            raise ValueError(
                f"GroupPlan: group_size is that of all ranks together and must be at least their number, {self.num_ranks}; "
                f"got {self.group_size}."
            )
        count = len(self.targets)
        if count < 1:
            raise ValueError("GroupPlan: there is no bag to make a group of; the set is empty.")
        if self.two_classes:
            self._check_two_classes(count)
        if count // len(self) < self.num_ranks:
            raise ValueError(
                f"GroupPlan: {count} bags in {len(self)} groups leave a group with {count // len(self)}, too few for "
                f"{self.num_ranks} ranks. Raise group_size, {self.group_size}."
            )

    def _check_two_classes(self, count: int) -> None:
        if self.group_size < 2:
            raise ValueError(
                f"GroupPlan: a group of {self.group_size} cannot have two classes. Pass group_size=2 or more, or "
                "two_classes=False for a loss that needs no pairs."
            )
        sizes = torch.bincount(self.targets)
        largest, others = int(sizes.max()), count - int(sizes.max())
        if others == 0:
            raise ValueError(
                f"GroupPlan: groups of two classes need bags of two classes; all {count} are of class {int(sizes.argmax())}."
            )
        if not self.balanced and others < len(self):
            raise ValueError(
                f"GroupPlan: two classes in each of {len(self)} groups need a bag outside the largest class for each; that "
                f"class has {largest} of {count} bags, and {others} are left. Pass group_size={-(-count // others)} or more, "
                "or balanced=True."
            )

    def __len__(self) -> int:
        """Steps of an epoch."""
        count = len(self.targets)
        groups = -(-count // self.group_size)
        return max(1, min(groups, count // 2)) if self.two_classes else groups

    def batches(self, epoch: int, start_step: int = 0) -> Iterator[Tensor]:
        """Indices (G,) of this rank's bags in each step of an epoch, from ``start_step`` on."""
        groups = self._groups(epoch)
        for group in groups[start_step:]:
            first, last = (len(group) * rank // self.num_ranks for rank in (self.rank, self.rank + 1))
            yield group[first:last]

    def _groups(self, epoch: int) -> tuple[Tensor, ...]:
        count = len(self.targets)
        order = permutation(count, seed=self.seed, epoch=epoch)
        if self.balanced:
            order = self._draws(epoch)[order]
        starts = torch.arange(len(self) + 1) * count // len(self)
        sizes = starts.diff()
        if self.two_classes:
            order = self._mixed(order, torch.arange(len(self)).repeat_interleave(sizes))
        return order.split(sizes.tolist())

    def _draws(self, epoch: int) -> Tensor:
        """Bags (N,), the same number of each class to within one; those of a class in turn."""
        count = len(self.targets)
        turns = permutation(count, seed=self.seed, epoch=epoch, purpose=_CHOICE)
        # Classes in the order of their first bag in this epoch: which of them gets one draw more is random too.
        classes = list(dict.fromkeys(self.targets[turns].tolist()))
        draws = []
        for place, label in enumerate(classes):
            members = turns[self.targets[turns] == label]
            wanted = count * (place + 1) // len(classes) - count * place // len(classes)
            draws.append(members.repeat(-(-wanted // len(members)))[:wanted])
        return torch.cat(draws)

    def _mixed(self, order: Tensor, group_of: Tensor) -> Tensor:
        """The order with two classes in every group; ``group_of`` (N,) is the group of each place.

        A swap makes one group of one class fewer. A partner that keeps a second class is there as long as there are more
        bags outside the class than other groups, which the constructor has checked.
        """
        order, labels = order.clone(), self.targets[order]
        ends = [
            labels.new_empty(len(self)).scatter_reduce_(0, group_of, labels, how, include_self=False) for how in _ENDS
        ]
        for group in (ends[0] == ends[1]).nonzero().flatten().tolist():
            own = (group_of == group).nonzero().flatten()
            # Looked at again, because a swap may have brought it a second class already.
            label = labels[own[0]]
            if bool((labels[own] == label).all()):
                others = labels != label
                counts = torch.bincount(group_of[others], minlength=len(self))
                partner = int((counts == counts.max()).nonzero()[0])
                place = int((others & (group_of == partner)).nonzero()[0])
                swap, back = torch.tensor([int(own[0]), place]), torch.tensor([place, int(own[0])])
                order[swap], labels[swap] = order[back], labels[back]
        return order
