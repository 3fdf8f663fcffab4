"""Criteria: what turns features into a loss, and into a decision. Every loss is trained and evaluated through one.

A network returns features (B, D). What comes after them belongs to the loss: NCMI's centroids, or the linear head that
cross-entropy and its relatives need. So any loss can be exchanged for any other without touching the network.
"""

import inspect
from collections.abc import Iterator
from typing import Any

from ncmi.baselines import BASELINES, SupCon, make_baseline
from ncmi.checks import choose
from ncmi.criteria.base import Criterion
from ncmi.criteria.contrastive import ContrastiveCriterion
from ncmi.criteria.head import HeadCriterion
from ncmi.criteria.memory import FeatureMemory
from ncmi.criteria.ncmi import NCMICriterion, make_ncmi

__all__ = [
    "ContrastiveCriterion",
    "Criterion",
    "FeatureMemory",
    "HeadCriterion",
    "NCMICriterion",
    "create_criterion",
    "list_criteria",
    "list_options",
    "make_ncmi",
]


def list_criteria() -> list[str]:
    """Names that :func:`create_criterion` knows."""
    return ["ncmi", *BASELINES]


def create_criterion(name: str, num_classes: int, num_features: int, **options: Any) -> Criterion:
    """The criterion of a loss by name.

    Args:
        name: one of :func:`list_criteria`.
        num_classes: C.
        num_features: D.
        options: of the loss; those of ``ncmi`` are the arguments of :func:`make_ncmi` and the ``memory`` of
            :class:`NCMICriterion`, which goes with a preset too.

    >>> create_criterion("ncmi", 10, 64, objective="theorem1").decision
    'learned q'
    >>> create_criterion("ce", 10, 64).decision
    'head'
    """
    choose("loss", "name", name, list_criteria())
    _check_options(name, options)
    if name == "ncmi":
        memory = options.pop("memory", 0)
        if options.get("preset") is not None and len(options) > 1:
            others = ", ".join(option for option in options if option != "preset")
            raise ValueError(f"loss: preset stands for all other options of 'ncmi'; leave out {others}, or the preset.")
        return NCMICriterion(make_ncmi(num_classes, num_features, **options), memory=memory)
    loss = make_baseline(name, num_classes, num_features, **options)
    if isinstance(loss, SupCon):
        return ContrastiveCriterion(loss, num_classes, num_features)
    return HeadCriterion(loss, num_classes, num_features)


def list_options(name: str) -> dict[str, inspect.Parameter]:
    """The options that a recipe can give a loss, by name.

    >>> list_options("focal")["gamma"].default
    2.0
    """
    choose("loss", "name", name, list_criteria())
    builders = (make_ncmi, NCMICriterion) if name == "ncmi" else (BASELINES[name],)
    parameters = {parameter.name: parameter for build in builders for parameter in _parameters(build)}
    parameters.pop("reduction", None)
    return parameters


def _check_options(name: str, options: dict[str, Any]) -> None:
    if "reduction" in options:
        raise ValueError(
            f"loss: training needs one number a batch, so {name!r} takes the mean; leave out loss.options.reduction."
        )
    known = list_options(name)
    for option in options:
        choose("loss", f"an option of {name!r}", option, known)
    for option, parameter in known.items():
        if parameter.default is parameter.empty and option not in options:
            raise ValueError(f"loss: {name!r} needs the option {option}; set loss.options.{option}.")


def _parameters(build: Any) -> Iterator[inspect.Parameter]:
    """What can be passed by name alone: to a function, or to a class and to the parents it passes settings on to."""
    for owner in build.__mro__ if isinstance(build, type) else (build,):
        parameters = inspect.signature(owner).parameters.values()
        yield from (parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            return
