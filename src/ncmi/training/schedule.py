"""The learning rate as a function of the step: nothing to save, nothing to restore."""

import math
from bisect import bisect_right
from collections.abc import Callable

from ncmi.training.config import ScheduleConfig

# One-cycle starts at 1/25 of its peak and ends at a ten-thousandth of that (Smith and Topin 2019, as in torch's OneCycleLR).
_START, _END = 1 / 25, 1 / 25e4


def make_schedule(config: ScheduleConfig, epochs: int, steps_per_epoch: int) -> Callable[[int], float]:
    """The factor on every learning rate at step 0, 1, …, ``epochs * steps_per_epoch - 1``.

    >>> factor = make_schedule(ScheduleConfig("step", milestones=[2, 3], decay=0.1), epochs=4, steps_per_epoch=5)
    >>> [round(factor(step), 3) for step in (0, 9, 10, 15)]
    [1.0, 1.0, 0.1, 0.01]
    """
    total = epochs * steps_per_epoch
    if config.name == "one-cycle" and config.warmup_epochs:
        raise ValueError("schedule: one-cycle has a rise of its own; set schedule.rise, and warmup_epochs to 0.")
    if config.name == "one-cycle":
        return lambda step: _one_cycle(step, total, config.rise)
    if config.name == "step" and not all(0 < milestone < epochs for milestone in config.milestones or [0]):
        raise ValueError(
            f"schedule: step needs milestones between 0 and the run's epochs, {epochs}, or the rate would never fall; got "
            f"{config.milestones}. Set schedule.milestones."
        )
    warmup = config.warmup_epochs * steps_per_epoch
    if warmup >= total:
        raise ValueError(
            f"schedule: warmup_epochs={config.warmup_epochs} must be less than the run's epochs, {epochs}. Shorten it."
        )

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        if config.name == "step":
            return config.decay ** bisect_right(sorted(config.milestones), step / steps_per_epoch)
        if config.name == "cosine":
            return _cosine(1.0, 0.0, (step - warmup) / (total - warmup))
        return 1.0

    return factor


def _one_cycle(step: int, total: int, rise: float) -> float:
    """Up along half a cosine, then down along another, at the places where torch's ``OneCycleLR`` has them."""
    peak = max(rise * total - 1, 0.0)
    if step < peak:
        return _cosine(_START, 1.0, step / peak)
    return _cosine(1.0, _END, (step - peak) / max(total - 1 - peak, 1))


def _cosine(first: float, last: float, progress: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * progress)) / 2
