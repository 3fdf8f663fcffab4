"""``Criterion``: what evaluation asks of the thing that a network was trained with.

Shapes: B samples, C classes, D feature width.
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from ncmi.functional import SimplexPoint


class Criterion(Protocol):
    """A loss on features together with its own decision: nearest centroid, or a linear head.

    In ``eval()`` mode a call communicates nothing and changes no state. It need not be an ``nn.Module``; one that is gets
    its mode back after each evaluation.
    """

    @property
    def num_classes(self) -> int:
        """C."""
        ...

    @property
    def num_features(self) -> int:
        """D."""
        ...

    @property
    def decision(self) -> str:
        """What decides, in words, such as ``"learned q"`` or ``"head"``."""
        ...

    @property
    def probabilities_need_temperature(self) -> bool:
        """Whether the softmax of the scores needs a fitted temperature; that of logits does not, that of divergences does."""
        ...

    @property
    def centroids(self) -> Tensor | None:
        """The centroids that it decides by, as log-densities ln(D·q) (C, D); ``None`` where something else decides."""
        ...

    def __call__(self, features: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of these samples, a scalar: features (B, D), targets (B,)."""
        ...

    def scores(self, features: Tensor) -> Tensor:
        """Scores (B, C) of features (B, D); the largest decides."""
        ...

    def points(self, features: Tensor) -> SimplexPoint:
        """Features (B, D) as points of the simplex, with the centre as it stands, in the features' own precision."""
        ...


def as_module(criterion: Criterion) -> nn.Module | None:
    """The criterion if it is a module, whose mode evaluation must set; otherwise ``None``."""
    return criterion if isinstance(criterion, nn.Module) else None


def device_of(*owners: object) -> torch.device:
    """The device of the first parameter or buffer found in ``owners``; the CPU if there is none."""
    for owner in owners:
        if isinstance(owner, nn.Module):
            for tensor in (*owner.parameters(), *owner.buffers()):
                return tensor.device
    return torch.device("cpu")
