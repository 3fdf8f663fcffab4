"""Networks by name. Each returns features (B, D), or logits (B, C) when it is given ``num_classes``."""

import difflib
import inspect
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from torch import nn

from ncmi.checks import choose
from ncmi.models.backbone import Backbone
from ncmi.models.cifar_resnet import CifarResNet
from ncmi.models.mlp import MLP
from ncmi.models.resnet import ResNet
from ncmi.models.weights import load_weights
from ncmi.models.wrap import as_backbone

__all__ = ["MLP", "Backbone", "CifarResNet", "ResNet", "as_backbone", "create_model", "list_models", "load_weights"]

_TIMM = "timm:"

_MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": MLP,
    # For small machines: 77,000 parameters and D = 64; 0.3 million and D = 128; then 0.2 and 0.3 million and D = 64.
    "resnet8_slim": partial(ResNet, block="basic", blocks=(1, 1, 1), width=16, stem="cifar"),
    "resnet10_slim": partial(ResNet, block="basic", blocks=(1, 1, 1, 1), width=16, stem="cifar"),
    "resnet18_slim": partial(ResNet, block="basic", blocks=(2, 2, 2, 2), width=8, stem="cifar"),
    "resnet34_slim": partial(ResNet, block="basic", blocks=(3, 4, 6, 3), width=8, stem="cifar"),
    "resnet18": partial(ResNet, block="basic", blocks=(2, 2, 2, 2)),
    "resnet34": partial(ResNet, block="basic", blocks=(3, 4, 6, 3)),
    "resnet50": partial(ResNet, block="bottleneck", blocks=(3, 4, 6, 3)),
    "resnet101": partial(ResNet, block="bottleneck", blocks=(3, 4, 23, 3)),
    "resnet20": partial(CifarResNet, blocks=(3, 3, 3)),
    "resnet32": partial(CifarResNet, blocks=(5, 5, 5)),
    "resnet44": partial(CifarResNet, blocks=(7, 7, 7)),
    "resnet56": partial(CifarResNet, blocks=(9, 9, 9)),
}


def list_models() -> list[str]:
    """Names that :func:`create_model` knows; ``timm:<name>`` comes on top where timm is installed.

    >>> list_models()[:3]
    ['mlp', 'resnet8_slim', 'resnet10_slim']
    """
    return list(_MODELS)


def create_model(name: str, *, num_classes: int = 0, **options: Any) -> nn.Module:
    """A network with random weights, in ``train()`` mode; :func:`load_weights` fills it.

    Every network has ``num_features``, ``num_classes``, ``forward_features(images)`` and
    ``forward_head(x, pre_logits=False)``.

    Args:
        name: one of :func:`list_models`, ``timm:<name>``, or ``package.module:function`` for a function of yours (a file
            ``networks.py`` here is the package ``networks``) that returns a module with ``num_features``, whose output is
            features.
        num_classes: C; with 0 the network has no head and returns features.
        options: of the class: ``stem``, ``width``, ``blocks``, ``in_channels`` (:class:`ResNet`), ``in_features``,
            ``hidden``, ``batch_norm`` (:class:`MLP`); timm's own for a timm model, with ``in_channels`` for ``in_chans``.

    >>> create_model("resnet18", stem="cifar").num_features
    512
    >>> create_model("resnet10_slim", num_classes=100).get_classifier()
    Linear(in_features=128, out_features=100, bias=True)
    """
    if name.startswith(_TIMM):
        return _create_timm_model(name.removeprefix(_TIMM), num_classes, options)
    if ":" in name:
        return _create_own_model(name, num_classes, options)
    build = _MODELS[choose("create_model", "name", name, [*_MODELS, f"{_TIMM}<name>"])]
    parameters = inspect.signature(build).parameters
    for option in options:
        choose("create_model", f"an option of {name!r}", option, parameters)
    for parameter in parameters.values():
        if parameter.default is parameter.empty and parameter.name not in options:
            raise ValueError(f"create_model: {name!r} needs {parameter.name}; pass {parameter.name}=….")
    return build(num_classes=num_classes, **options)


def _create_own_model(name: str, num_classes: int, options: dict[str, Any]) -> nn.Module:
    """What a user's function returns, with the names that training asks for."""
    module_name, _, function_name = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # which a console script does not search by itself
    try:
        function = getattr(import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"create_model: {name!r} must be package.module:function, timm:<name> or one of {', '.join(list_models())}; "
            f"{error}."
        ) from error
    if num_classes:
        raise ValueError(f"create_model: {name!r} returns features; create it with num_classes=0.")
    return as_backbone(function(**options))


def _create_timm_model(name: str, num_classes: int, options: dict[str, Any]) -> nn.Module:
    try:
        import timm  # pyright: ignore[reportMissingImports]
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision built for another torch
        raise ImportError(
            f"create_model: 'timm:{name}' needs timm, which cannot be imported here ({error}). Install it with "
            f"`pip install timm`, with a torchvision that fits your torch, or take one of {', '.join(list_models())}."
        ) from error
    if ":" not in name and not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(_TIMM + other) for other in near)}?" if near else ""
        raise ValueError(f"create_model: timm has no model {name!r}.{hint}")
    if "in_channels" in options:
        options = {**options, "in_chans": options["in_channels"]}
        del options["in_channels"]
    model = timm.create_model(name, num_classes=num_classes, **options)
    # Some networks (MobileNetV3, VGG) have one more layer between the pooled map and the classifier; timm's num_features
    # is the width before it, ours that of the features which the network returns.
    model.num_features = getattr(model, "head_hidden_size", model.num_features)
    return model
