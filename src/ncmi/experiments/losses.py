"""What a comparison must know of single losses, so that all of them get the same: views, options, notes."""

import math
from functools import cache
from typing import Any

from ncmi.checks import choose
from ncmi.criteria import create_criterion, list_criteria, list_options
from ncmi.recipes import LOSS_OPTIONS
from ncmi.training.config import Config


@cache
def loss_views(name: str) -> int:
    """Passes through the network for each image and epoch. At equal images seen, the epochs are divided by it.

    >>> loss_views("supcon"), loss_views("ce")
    (2, 1)
    """
    return create_criterion(name, num_classes=2, num_features=4, **LOSS_OPTIONS.get(name, {})).views


def resolved_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a loss with its defaults written out; those of a loss that is gone are left as they are.

    >>> resolved_options("focal", {})["gamma"], resolved_options("focal", {"gamma": 3.0})["gamma"]
    (2.0, 3.0)
    """
    if name not in list_criteria():
        return dict(options)
    parameters = list_options(name).values()
    defaults = {
        parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
    }
    return {**defaults, **options}


def split_variant(loss: str) -> tuple[str, list[str]]:
    """The name and the options of a loss as a comparison has it, with options of its own behind colons.

    >>> split_variant("ncmi:objective=theorem1:temperature=0.1")
    ('ncmi', ['objective=theorem1', 'temperature=0.1'])
    >>> split_variant("ce")
    ('ce', [])
    """
    name, *options = loss.split(":")
    choose("compare", "a loss", name, list_criteria())
    for option in options:
        key, equals, value = option.partition("=")
        if not (equals and value):
            raise ValueError(
                f"compare: options of a loss are written as {name}:option=value, with a colon before each; got {loss!r}."
            )
        choose("compare", f"an option of {name!r}", key, list_options(name))
    return name, options


def loss_overrides(loss: str, base: Config) -> list[str]:
    """The overrides that give ``base`` another loss at the same budget; a loss that it has already keeps its options.

    Epochs are divided by the loss's views and rounded up; what the schedule counts in epochs shrinks with them.

    >>> base = Config(epochs=5)
    >>> loss_overrides("focal", base)
    ['loss=focal']
    >>> loss_overrides("supcon", base)
    ['loss=supcon', 'epochs=3']
    >>> loss_overrides("ncmi:temperature=0.1", base)
    ['loss.options.temperature=0.1']
    """
    name, options = split_variant(loss)
    found = [] if base.loss.name == name else [f"loss={name}"]
    found += [f"loss.options.{option}" for option in options]
    if loss_views(name) == 1:
        return found
    epochs = _epochs(name, base)
    share = epochs / base.epochs
    found.append(f"epochs={epochs}")
    if base.schedule.warmup_epochs:
        found.append(f"schedule.warmup_epochs={share * base.schedule.warmup_epochs}")
    if base.schedule.milestones:
        found.append(f"schedule.milestones={[share * milestone for milestone in base.schedule.milestones]}")
    return found


def loss_notes(loss: str, base: Config) -> list[str]:
    """What a reader of the table must know of a loss.

    >>> loss_notes("supcon", Config(epochs=15))
    ['supcon sees 2 views of each image in an epoch and gets 8 of 15 epochs: 1.07 times the images of the others.']
    """
    notes = []
    name, own = split_variant(loss)
    if name in LOSS_OPTIONS and not own:
        options = ", ".join(f"{option} {value}" for option, value in LOSS_OPTIONS[name].items())
        notes.append(
            f"{name} runs with {options}: a guess; its paper tunes them for each model, and those values were not checked."
        )
    if (views := loss_views(name)) > 1:
        epochs = _epochs(name, base)
        ratio = views * epochs / base.epochs
        images = "equal images seen" if ratio == 1 else f"{ratio:.2f} times the images of the others"
        notes.append(
            f"{name} sees {views} views of each image in an epoch and gets {epochs} of {base.epochs} epochs: {images}."
        )
    return notes


def _epochs(name: str, base: Config) -> int:
    return math.ceil(base.epochs / loss_views(name))
