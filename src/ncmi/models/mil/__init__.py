"""Bag models by name, for multiple-instance learning. Each returns a bag's vector, attention logits and auxiliary loss."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from ncmi.checks import choose
from ncmi.models.mil.abmil import ABMIL
from ncmi.models.mil.aem import AEM
from ncmi.models.mil.anchor import Anchored
from ncmi.models.mil.asmil import ASMIL, TokenMIL
from ncmi.models.mil.bags import Bags
from ncmi.models.mil.base import BagModel, BagOutput
from ncmi.models.mil.cross_attention import CrossAttentionMIL
from ncmi.models.mil.transmil import TransMIL
from ncmi.models.mil.wrap import as_bag_model

__all__ = [
    "ABMIL",
    "AEM",
    "ASMIL",
    "Anchored",
    "BagModel",
    "BagOutput",
    "Bags",
    "CrossAttentionMIL",
    "TokenMIL",
    "TransMIL",
    "as_bag_model",
    "create_bag_model",
    "list_bag_models",
]

_CLAM = partial(ABMIL, num_features=512, bias=True, dropout=0.25)

_MODELS: dict[str, Callable[..., BagModel]] = {
    "abmil": ABMIL,
    "abmil_clam_small": partial(_CLAM, attention_width=256),
    "abmil_clam_big": partial(_CLAM, attention_width=384),
    "cross_attention": CrossAttentionMIL,
    "transmil": TransMIL,
    "asmil": ASMIL,
}
_AEM_OPTIONS = ("base", "weight", "total_steps")


def list_bag_models() -> list[str]:
    """Names that :func:`create_bag_model` knows.

    >>> list_bag_models()
    ['abmil', 'abmil_clam_small', 'abmil_clam_big', 'cross_attention', 'transmil', 'asmil', 'aem']
    """
    return [*_MODELS, "aem"]


def create_bag_model(name: str, in_features: int, **options: Any) -> BagModel:
    """A bag model with random weights, in ``train()`` mode.

    Every model maps one bag (N, F) or a group :class:`Bags` to a :class:`BagOutput` and has ``in_features`` and
    ``num_features``; the head stands outside.

    Args:
        name: one of :func:`list_bag_models`.
        in_features: F, the width of an instance: read it from the first bag.
        options: of the class, as ``num_features``, ``dropout``. ``aem`` takes ``weight`` and ``total_steps``, a ``base``
            (any other name; ``"cross_attention"`` as published) and the base's options.

    >>> create_bag_model("abmil", 1024).num_features
    512
    >>> create_bag_model("aem", 384, base="abmil", weight=0.05, num_features=64).num_features
    64
    """
    owner = "create_bag_model"
    choose(owner, "name", name, list_bag_models())
    if isinstance(in_features, bool) or not isinstance(in_features, int) or in_features < 1:
        raise ValueError(
            f"{owner}: in_features must be a whole number of at least 1; got {in_features!r}. Pass bag.shape[1]."
        )
    num_features = options.get("num_features")
    if num_features is not None and num_features < 1:
        raise ValueError(
            f"{owner}: num_features must be at least 1; got {num_features}. Leave it out for a usual width."
        )
    if name == "aem":
        base = choose(owner, "base", options.pop("base", "cross_attention"), _MODELS)
        own = {option: options.pop(option) for option in _AEM_OPTIONS if option in options and option != "base"}
        _check_options(owner, f"'aem' on {base!r}", options, base, _AEM_OPTIONS)
        return AEM(_MODELS[base](in_features, **options), **own)
    _check_options(owner, repr(name), options, name)
    return _MODELS[name](in_features, **options)


def _check_options(owner: str, title: str, options: dict[str, Any], name: str, more: tuple[str, ...] = ()) -> None:
    known = [*more, *(option for option in inspect.signature(_MODELS[name]).parameters if option != "in_features")]
    for option in options:
        choose(owner, f"an option of {title}", option, known)
