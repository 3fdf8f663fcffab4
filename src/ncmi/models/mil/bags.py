"""``Bags``: several bags in one tensor, one behind the other, without padding.

Shapes: G bags, N instances of a bag, ΣN instances of all bags, F width of an instance.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

_ONE_OR_MANY = "Pass one bag (N, F), or Bags.pack([...]) for a group of bags."


class Bags(NamedTuple):
    """A group of bags: ``instances`` (ΣN, F), one bag behind the other, and ``lengths`` (G,), whole numbers N.

    >>> bags = Bags.pack([torch.zeros(3, 5), torch.ones(2, 5)])
    >>> bags.instances.shape, bags.lengths
    (torch.Size([5, 5]), tensor([3, 2]))
    """

    instances: Tensor
    lengths: Tensor

    @classmethod
    def pack(cls, bags: Sequence[Tensor]) -> "Bags":
        """The group of these bags, each (N, F)."""
        if not len(bags):
            raise ValueError("Bags.pack: a group must hold at least one bag; got none.")
        shapes = [tuple(bag.shape) for bag in bags]
        if any(len(shape) != 2 or shape[1] != shapes[0][-1] for shape in shapes):
            raise ValueError(
                f"Bags.pack: every bag must have shape (N, F) with the same F; got {', '.join(map(str, shapes))}. "
                "Take the bags of one feature extractor."
            )
        return cls(torch.cat(tuple(bags)), torch.tensor([len(bag) for bag in bags]))

    @classmethod
    def unpad(cls, padded: Tensor, mask: Tensor) -> "Bags":
        """The group inside a padded tensor (G, N, F), of which ``mask`` (G, N) is true at real instances.

        >>> Bags.unpad(torch.zeros(2, 3, 5), torch.tensor([[True, True, True], [True, False, False]])).lengths
        tensor([3, 1])
        """
        if padded.ndim != 3 or mask.dtype != torch.bool or mask.shape != padded.shape[:2]:
            raise ValueError(
                "Bags.unpad: padded must have shape (G, N, F) and mask shape (G, N), true at real instances; got "
                f"{tuple(padded.shape)} and {mask.dtype} {tuple(mask.shape)}. Pass mask.bool() if 1 marks an instance."
            )
        return cls(padded[mask], mask.sum(dim=1))

    def split(self) -> tuple[Tensor, ...]:
        """The bags one by one, as views of ``instances``."""
        return self.instances.split(self.lengths.tolist())


def read_bags(owner: str, bags: Tensor | Bags, in_features: int, dtype: torch.dtype) -> tuple[Tensor, list[int]]:
    """Instances (ΣN, F) in ``dtype`` and the sizes N of the bags, after every check; one bag counts as a group of one.

    Features are kept in float16 on disk; they are cast here, on the device where they are.
    """
    if isinstance(bags, Tensor):
        instances, sizes = (
            bags,
            [bags.shape[0]] if bags.ndim else [],
        )  # not len(), which an export would take for a constant
    elif isinstance(bags, Bags):
        instances, sizes = bags.instances, _sizes(owner, bags.lengths)
    else:
        raise TypeError(f"{owner}: the input must be a tensor or Bags; got {type(bags).__name__}. {_ONE_OR_MANY}")
    if not instances.is_floating_point():
        raise TypeError(
            f"{owner}: instances must be real numbers (float16, bfloat16, float32 or float64); got {instances.dtype}. "
            "Pass the features of the patches, not the patches."
        )
    shape = tuple(instances.shape)
    if instances.ndim == 3:
        raise ValueError(
            f"{owner}: a bag must have shape (N, {in_features}); got {shape}. Pass bag[0] if the first of the three is a "
            "batch of one bag, or Bags.unpad(padded, mask) for a padded group."
        )
    # A slide without tissue comes as shape (0,) or (0, F) from common feature extractors.
    if (instances.ndim > 0 and shape[0] == 0) or 0 in sizes:
        place = f"bag {sizes.index(0)} of {len(sizes)} is empty" if len(sizes) > 1 and 0 in sizes else f"got {shape}"
        raise ValueError(f"{owner}: a bag must hold at least one instance; {place}. Leave out slides without patches.")
    if instances.ndim != 2 or shape[1] != in_features:
        remedy = f"Build the model with in_features={shape[1]}." if instances.ndim == 2 else _ONE_OR_MANY
        raise ValueError(
            f"{owner}: a bag must have shape (N, {in_features}) because in_features={in_features}; got {shape}. {remedy}"
        )
    if sum(sizes) != shape[0]:
        raise ValueError(
            f"{owner}: lengths must add up to the number of instances; got lengths with sum {sum(sizes)} and "
            f"{shape[0]} instances. Bags.pack([...]) counts them."
        )
    instances = instances.to(dtype)
    _check_finite(owner, instances)
    return instances, sizes


def _sizes(owner: str, lengths: Tensor) -> list[int]:
    if lengths.ndim != 1 or lengths.is_floating_point() or not len(lengths):
        raise ValueError(
            f"{owner}: lengths must be whole numbers of shape (G,), one for each bag; got {lengths.dtype} of shape "
            f"{tuple(lengths.shape)}. Bags.pack([...]) counts them."
        )
    sizes = lengths.tolist()
    if min(sizes) < 0:
        raise ValueError(f"{owner}: lengths must not be negative; got {min(sizes)}. Bags.pack([...]) counts them.")
    return sizes


def _check_finite(owner: str, instances: Tensor) -> None:
    """No NaN and no infinity; in eager mode only, as a compiled step must not wait for the device."""
    if torch.compiler.is_compiling():
        return
    # A finite sum proves that every entry is finite; only an overflowing sum needs the longer look.
    values = instances.detach()
    if not math.isfinite(values.sum(dtype=torch.promote_types(values.dtype, torch.float32))) and not bool(
        values.isfinite().all()
    ):
        bad = (~values.isfinite()).any(dim=1)
        raise ValueError(
            f"{owner}: instances must be finite; {int(bad.sum())} of {len(bad)} rows hold NaN or infinity (first at row "
            f"{int(bad.nonzero()[0])}). Extract the features of this slide again, or leave those rows out."
        )
