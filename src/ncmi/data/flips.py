"""Labels made wrong on purpose, to measure what finds them.

Which samples, and what they become, is a function of seed and sample index alone, in integers.

Shapes: N samples, n changed ones.
"""

from typing import NamedTuple

from torch import Tensor

from ncmi.data.keyed import FLIP, permutation, random_bits


class Flips(NamedTuple):
    """Targets (N,) with some changed, and the indices (n,) of those, in rising order."""

    targets: Tensor
    changed: Tensor


def flip_labels(targets: Tensor, share: float, num_classes: int, seed: int = 0) -> Flips:
    """``targets`` (N,) with ``share`` of them, rounded to whole samples, changed to another class, each as likely.

    >>> import torch
    >>> flips = flip_labels(torch.zeros(10, dtype=torch.int64), 0.2, num_classes=3)
    >>> len(flips.changed), bool((flips.targets[flips.changed] != 0).all())
    (2, True)
    """
    count = round(share * len(targets))
    changed = permutation(len(targets), seed=seed, purpose=FLIP)[:count].sort().values
    steps = 1 + random_bits(changed, 1, seed=seed, purpose=FLIP).squeeze(1) % (num_classes - 1)
    flipped = targets.clone()
    flipped[changed] = (targets[changed] + steps.to(targets.dtype)) % num_classes
    return Flips(flipped, changed)
