"""What enters a head: labelled features, or batches that a frozen model turns into features.

Shapes: B samples, C classes, D feature width.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ncmi.checks import check_features, check_targets
from ncmi.metric import drop_ignored

IGNORE_INDEX = -100  # nn.CrossEntropyLoss's

Model = nn.Module | Callable[[Any], Tensor]


def labelled(
    owner: str, features: Tensor, targets: Tensor, num_features: int, num_classes: int
) -> tuple[Tensor, Tensor]:
    """Checked features (B, D) and class indices (B,), without the samples whose label is −100."""
    check_features(owner, features, num_features)
    check_targets(owner, targets, len(features), num_classes, IGNORE_INDEX)
    if targets.is_floating_point():
        raise TypeError(f"{owner}: targets must be class indices (B,) here; got soft labels. Pass targets.argmax(1).")
    features, targets = drop_ignored(features.detach(), targets, IGNORE_INDEX)
    if not len(targets):
        raise ValueError(f"{owner}: there is no labelled sample. Pass at least one row with a class index.")
    return features, targets


def accuracy(predicted: Tensor, targets: Tensor) -> float:
    """Share of right decisions."""
    return (predicted == targets).double().mean().item()


@contextmanager
def frozen(model: Model | None) -> Iterator[None]:
    """Evaluation mode for the time of the block; afterwards every submodule has its own mode back.

    ``model`` may be a module or a method of one, such as ``network.forward_features``. Any other function is left alone.
    """
    owner = getattr(model, "__self__", model)
    modules = list(owner.modules()) if isinstance(owner, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        if modules:
            modules[0].eval()
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def extract(model: Model | None, inputs: Any) -> Tensor:
    """Features of a batch, without a gradient, computed where the model's parameters are."""
    if model is None:
        return inputs
    owner = getattr(model, "__self__", model)
    parameter = next(owner.parameters(), None) if isinstance(owner, nn.Module) else None
    if parameter is not None and isinstance(inputs, Tensor):
        inputs = inputs.to(parameter.device)
    with torch.no_grad():
        return model(inputs)
