"""``as_backbone``: any module that returns features, with the names training asks for.

Shapes: B samples, D feature width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ncmi.models.backbone import Backbone

_OWNER = "as_backbone"


class Wrapped(Backbone):
    """A user's module ``body``, which returns features (B, D), as a network without a head."""

    head_name = "head"

    def __init__(self, body: nn.Module, num_features: int):
        super().__init__()
        self.body = body
        self.num_features = num_features
        self.num_classes = 0
        self.head = nn.Identity()

    def forward_features(self, images: Tensor) -> Tensor:
        """Features (B, D) of the module."""
        return _checked(self.body(images), self.num_features)

    def pool(self, x: Tensor) -> Tensor:
        """The features (B, D) themselves."""
        return x


def as_backbone(module: nn.Module, num_features: int | None = None, example: Any = None) -> nn.Module:
    """``module`` with ``num_features``, ``num_classes``, ``forward_features`` and ``forward_head``.

    A module that has them all (ours, timm's) is returned as it is; another is wrapped and must return features (B, D).

    Args:
        module: the network.
        num_features: D; by default the module's attribute ``num_features``, else what ``example`` shows.
        example: a batch, on the module's device; the module sees it once, in ``eval()`` mode and without gradients.

    >>> body = nn.Sequential(nn.Flatten(), nn.Linear(48, 7), nn.ReLU())
    >>> as_backbone(body, example=torch.randn(2, 3, 4, 4)).num_features
    7
    """
    known = getattr(module, "num_features", None)
    known = known if isinstance(known, int) else None
    if num_features is not None and known not in (None, num_features):
        raise ValueError(
            f"{_OWNER}: num_features={num_features} contradicts the module's own num_features={known}. "
            "Leave num_features out, or set the attribute right."
        )
    if known is not None and all(hasattr(module, name) for name in ("forward_features", "forward_head", "num_classes")):
        return module
    width = num_features if num_features is not None else known
    if width is None and example is None:
        raise ValueError(
            f"{_OWNER}: the width of the features of {type(module).__name__} is not known. Pass num_features=…, or "
            "example=… with a batch of inputs."
        )
    if example is None:
        assert width is not None
        return Wrapped(module, width)
    with _evaluation(module):
        features = _checked(module(example), width)
    return Wrapped(module, features.shape[1])


def _checked(output: Any, num_features: int | None) -> Tensor:
    """``output`` if it is features (B, D), of the width ``num_features`` where that is known."""
    if not isinstance(output, Tensor):
        raise TypeError(
            f"{_OWNER}: the module must return one tensor of features (B, D); got {type(output).__name__}. "
            "Wrap it in a module whose forward picks the pooled features."
        )
    if output.ndim != 2:
        remedy = (
            "Pool the map: nn.Sequential(module, nn.AdaptiveAvgPool2d(1), nn.Flatten())."
            if output.ndim == 4
            else "Pool or flatten it to one row a sample."
        )
        raise ValueError(f"{_OWNER}: the module must return features (B, D); got {tuple(output.shape)}. {remedy}")
    if num_features not in (None, output.shape[1]):
        raise ValueError(
            f"{_OWNER}: the module must return features (B, {num_features}) because num_features={num_features}; "
            f"got {tuple(output.shape)}. Pass num_features={output.shape[1]}."
        )
    return output


@contextmanager
def _evaluation(module: nn.Module) -> Iterator[None]:
    """``eval()`` mode without gradients; afterwards each part is in the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training
