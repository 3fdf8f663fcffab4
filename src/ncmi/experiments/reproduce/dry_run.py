"""``describe_item``: the runs of an item, which of them are done, and how long the rest takes as far as that can be said."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from ncmi.experiments.cells import Comparison
from ncmi.experiments.losses import loss_views
from ncmi.experiments.plan import make_plans, plan_cells
from ncmi.experiments.reproduce.item import Item, Place
from ncmi.experiments.rows import Row
from ncmi.experiments.take_over import read_others, row_files
from ncmi.models import create_model
from ncmi.training.config import Config

# What the paper's Table tab:efficiency comes to: ResNet-50 at 224 pixels, forward and backward, 1.28 million images in 6 min
# 39 s on eight A5000, is 9.9 TFLOP/s for one of them.
TFLOPS = 10.0
_BACKWARD = 3  # forward and backward cost about three times the forward pass
_IMAGES = {"cifar100": (50_000, 32), "folder:imagenet": (1_281_167, None)}  # images for training, and pixels of a side


@dataclass(frozen=True)
class _Run:
    """A run of a part, and its row if it is done."""

    part: str
    config: Config
    row: Row | None

    @property
    def line(self) -> str:
        """The run in a line."""
        config = self.config
        loss = ":".join([config.loss.name, *(f"{key}={value}" for key, value in config.loss.options.items())])
        if self.row is None:
            state = "to run"
        elif "failed" in self.row:
            state = f"failed: {self.row['failed']}"
        else:
            state = f"done in {self.row['seconds']:.0f} s"
        return (
            f"{self.part} · {config.model.name} · {loss} · batch {config.batch_size} · rate {config.optimizer.lr:g} · "
            f"seed {config.seed} · {config.epochs} epoch{'s' if config.epochs > 1 else ''}: {state}"
        )


def describe_item(item: Item, place: Place, tflops: float = TFLOPS, results: Path = Path("results")) -> str:
    """The runs of an item, one line each, what the scale needs, and an estimate of the time that is left.

    Args:
        item: the table or figure.
        place: where its work goes.
        tflops: of a GPU, in 10¹² operations a second, for the estimate of ``full``.
        results: the folder below which rows of other work are looked for.
    """
    comparisons = item.comparisons(place.scale)
    others = read_others(row_files(results))
    runs = [
        run
        for name, comparison in comparisons.items()
        for run in _runs(name, comparison, {**others, **place.part(name).rows.rows()})
    ]
    lines = [
        f"{item.name} at scale {place.scale}: {item.title}.",
        *(run.line for run in runs),
        *item.needs(place.scale),
    ]
    if item.measure is not None:
        lines.append(f"{'Then m' if runs else 'M'}easurements, which skip what is there.")
    left = [run for run in runs if run.row is None]
    if not runs:
        return "\n".join(lines)
    searched = any(len(comparison.rates) > 1 for comparison in comparisons.values())
    more = ", and more for seeds at the best rate" if searched and left else ""
    lines.append(f"Runs: {len(runs)}, left: {len(left)}{more}.")
    if left:
        lines.append(_hours(left, tflops) if place.scale == "full" else _seconds(runs, left))
    return "\n".join(lines)


def _runs(name: str, comparison: Comparison, rows: Mapping[str, Row]) -> Iterator[_Run]:
    """The cells that the rows call for so far."""
    for plan in make_plans(comparison, rows):
        for cell in plan_cells(comparison, plan):
            yield _Run(name, comparison.config(cell), rows.get(comparison.fingerprint(cell)))


def _seconds(runs: list[_Run], left: list[_Run]) -> str:
    """What finished runs of the same part say of those that are left."""
    total = 0.0
    for run in left:
        known = [
            other.row["seconds"] for other in runs if other.part == run.part and other.row and "seconds" in other.row
        ]
        if not known:
            return f"How long that takes is not known yet: no run of {run.part} has finished."
        total += sum(known) / len(known)
    return f"About {total / 60:.0f} minutes on one core for what is left, by the runs that have finished."


def _hours(left: list[_Run], tflops: float) -> str:
    """What arithmetic alone says."""
    if any(run.config.data.name.startswith("bags:") for run in left):
        return "How long that takes depends on the patches of your slides, and is not known before."
    unknown = list(dict.fromkeys(run.config.data.name for run in left if run.config.data.name not in _IMAGES))
    if unknown:
        return (
            f"How long that takes is not known: operations are counted for {' and '.join(_IMAGES)}, not {unknown[0]}."
        )
    total = sum(_flops(run.config) for run in left)
    return (
        f"About {total / (tflops * 1e12) / 3600:,.0f} hours of training on one GPU that sustains {tflops:g} TFLOP/s "
        f"({total:.1e} operations, forward and backward, evaluation apart; --tflops names another rate)."
    )


def _flops(config: Config) -> float:
    """Operations of a run: of one image, forward and backward, times images, views and epochs."""
    images, side = _IMAGES[config.data.name]
    forward = _forward_flops(
        config.model.name, config.model.options.get("stem", ""), side or config.data.train_resolution
    )
    return _BACKWARD * forward * (config.data.train_size or images) * loss_views(config.loss.name) * config.epochs


@cache
def _forward_flops(name: str, stem: str, side: int) -> int:
    with torch.device("meta"):
        network = create_model(name, stem=stem) if stem else create_model(name)
        image = torch.zeros(1, 3, side, side)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.eval()(image)
    return counter.get_total_flops()
