"""What a comparison must know of single losses, so that all of them get the same: one small table."""

import math
from typing import NamedTuple

from ncmi.recipes import LOSS_OPTIONS
from ncmi.training.config import Config


class LossSettings(NamedTuple):
    """How a loss departs from the recipe.

    Args:
        views: passes through the network for each image and epoch. At equal images seen, the epochs are divided by it.
        note: what a reader of the table must know.
    """

    views: int = 1
    note: str = ""


LOSSES: dict[str, LossSettings] = {
    "supcon": LossSettings(
        views=2, note="supcon sees two views of each image and so gets half the epochs: equal images seen."
    ),
}


def loss_settings(name: str) -> LossSettings:
    """The settings of a loss; most have none of their own.

    >>> loss_settings("supcon").views, loss_settings("ce").views
    (2, 1)
    """
    settings = LOSSES.get(name, LossSettings())
    if name in LOSS_OPTIONS:
        options = ", ".join(f"{option} {value}" for option, value in LOSS_OPTIONS[name].items())
        note = f"{name} runs with {options}: a guess, as its paper prints no values."
        return settings._replace(note=f"{note} {settings.note}".strip())
    return settings


def loss_overrides(name: str, base: Config) -> list[str]:
    """The overrides that give ``base`` another loss at the same budget; a loss that it has already keeps its options.

    Epochs are divided by the loss's views and rounded up; what the schedule counts in epochs shrinks with them.

    >>> base = Config(epochs=5)
    >>> loss_overrides("focal", base)
    ['loss=focal']
    >>> loss_overrides("supcon", base)
    ['loss=supcon', 'epochs=3']
    """
    found = [] if base.loss.name == name else [f"loss={name}"]
    views = loss_settings(name).views
    if views == 1:
        return found
    epochs = math.ceil(base.epochs / views)
    share = epochs / base.epochs
    found.append(f"epochs={epochs}")
    if base.schedule.warmup_epochs:
        found.append(f"schedule.warmup_epochs={share * base.schedule.warmup_epochs}")
    if base.schedule.milestones:
        found.append(f"schedule.milestones={[share * milestone for milestone in base.schedule.milestones]}")
    return found
