"""``BagSet``: labelled bags of instance features, one bag a slide, read from disk when they are asked for.

Shapes: N bags of n instances each (n differs from bag to bag), F feature width, C classes.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor


class Bag(NamedTuple):
    """Instances (n, F) in the type they are stored in, and their coordinates (n, 2) as int64 if the file has any."""

    instances: Tensor
    coordinates: Tensor | None


BagReader: TypeAlias = Callable[[str], Bag]


@dataclass(frozen=True)
class HeldBags:
    """A reader of bags that are in memory already; calling it with a slide's name returns its bag."""

    bags: Mapping[str, Bag]

    def __call__(self, slide: str) -> Bag:
        """The bag of ``slide``."""
        return self.bags[slide]


@dataclass(frozen=True, eq=False)
class BagSet:
    """Names, patients and classes of N bags; each bag is read, and checked, when it is asked for.

    Args:
        slides: N names, each once.
        patients: the patient of each slide; splits keep the slides of a patient together.
        targets: class indices int64 (N,).
        class_names: C names; the class index is the position.
        in_features: F, the width that every bag must have.
        reader: from a slide's name to its bag.
        name: what to call the set in messages.
        columns: further columns of the set's table by name, N texts each; a centre, for one.
        root: the folder of the set, where its splits lie.
        left_out: slides of the table that were left out on request; a split may still name them.

    >>> reader = HeldBags({name: Bag(torch.full((3, 4), index), None) for index, name in enumerate("ab")})
    >>> bags = BagSet(("a", "b"), ("p", "q"), torch.tensor([0, 1]), ("benign", "malignant"), 4, reader)
    >>> len(bags), bags.num_classes, bags.subset(torch.tensor([1])).bag(0).instances.shape
    (2, 2, torch.Size([3, 4]))
    """

    slides: tuple[str, ...]
    patients: tuple[str, ...]
    targets: Tensor
    class_names: tuple[str, ...]
    in_features: int
    reader: BagReader
    name: str = "bags"
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    root: Path | None = None
    left_out: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        count = len(self.slides)
        lengths = {"patients": len(self.patients), **{name: len(column) for name, column in self.columns.items()}}
        for what, length in lengths.items():
            if length != count:
                raise ValueError(f"BagSet: {what} must have one entry a slide, {count}; got {length}.")
        if self.targets.dtype != torch.int64 or self.targets.shape != (count,):
            raise ValueError(
                f"BagSet: targets must be int64 of shape ({count},), one class a slide; got {self.targets.dtype} of shape "
                f"{tuple(self.targets.shape)}."
            )
        if count and not 0 <= int(self.targets.min()) <= int(self.targets.max()) < len(self.class_names):
            raise ValueError(
                f"BagSet: targets must lie in [0, {len(self.class_names) - 1}] because there are {len(self.class_names)} "
                f"classes; got {int(self.targets.min())} … {int(self.targets.max())}."
            )
        if twice := first_twice(self.slides):
            raise ValueError(f"{self.name}: each slide must be in the set once; {twice!r} is there twice.")

    def __len__(self) -> int:
        return len(self.slides)

    @property
    def num_classes(self) -> int:
        """C, also when some class has no bag here."""
        return len(self.class_names)

    def bag(self, index: int) -> Bag:
        """Bag ``index``: instances as stored (float16 stays), read now unless the set was preloaded."""
        slide = self.slides[index]
        bag = self.reader(slide)
        if not isinstance(self.reader, HeldBags):
            check_bag(f"{self.name}: slide {slide!r}", bag, self.in_features)
        return bag

    def subset(self, indices: Tensor) -> "BagSet":
        """The bags at ``indices`` (n,), in that order; they are numbered from 0 again and share what is in memory."""
        chosen = indices.tolist()
        return replace(
            self,
            slides=tuple(self.slides[i] for i in chosen),
            patients=tuple(self.patients[i] for i in chosen),
            targets=self.targets[indices],
            columns={name: tuple(column[i] for i in chosen) for name, column in self.columns.items()},
        )

    def preload(self) -> "BagSet":
        """The same set with every bag read, checked and held in memory; subsets of it share that memory."""
        return replace(self, reader=HeldBags({slide: self.bag(index) for index, slide in enumerate(self.slides)}))


def check_bag(owner: str, bag: Bag, in_features: int | None = None) -> None:
    """At least one instance, finite features of the width ``in_features`` (any, if ``None``), and coordinates that fit."""
    instances, coordinates = bag
    shape = tuple(instances.shape)
    if not instances.numel():
        raise ValueError(
            f"{owner}: a bag must have at least one instance; this one is empty (shape {shape}), as of a slide on which no "
            "tissue was found. Extract its features again, or leave the slide out with leave_out=[...]."
        )
    if instances.ndim != 2 or not instances.is_floating_point():
        raise ValueError(
            f"{owner}: features must be real numbers of shape (n, F), one row an instance; got {instances.dtype} of shape "
            f"{shape}."
        )
    if in_features is not None and shape[1] != in_features:
        raise ValueError(
            f"{owner}: features must have the width of the set's first bag, {in_features}; got {shape[1]}. Extract all "
            "slides with the same encoder."
        )
    # A finite sum proves that every entry is finite; only an overflowing sum needs the longer look.
    total = instances.sum(dtype=torch.promote_types(instances.dtype, torch.float32))
    if not math.isfinite(total) and not bool(instances.isfinite().all()):
        bad = (~instances.isfinite()).any(dim=1)
        raise ValueError(
            f"{owner}: features must be finite; {int(bad.sum())} of {len(bad)} instances hold NaN or infinity (first at "
            f"{int(bad.nonzero()[0])}). Extract this slide again, or leave it out with leave_out=[...]."
        )
    if coordinates is not None and coordinates.shape != (len(instances), 2):
        raise ValueError(
            f"{owner}: coordinates must have shape ({len(instances)}, 2), one pair an instance; got "
            f"{tuple(coordinates.shape)}. Features and coordinates are of different runs; extract the slide again."
        )


def first_twice(names: tuple[str, ...] | list[str]) -> str | None:
    """The first name that was there before, or ``None``."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def some(names: list[str]) -> str:
    """Up to five names for a sentence, and how many more there are."""
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
