"""The batch sizes of ``objective-study``: Fashion-MNIST in smaller and larger batches, at equal epochs and at equal steps."""

from collections.abc import Mapping
from typing import NamedTuple

from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce.parts import PROBE, Part
from ncmi.experiments.statistics import Spread
from ncmi.experiments.table import markdown_table

_RECIPE, _SEEDS = "fashion-mnist/small", 3
_REFERENCE = "fashion-mnist"  # the part of the study that has the recipe's own batches


class Batches(NamedTuple):
    """A batch size, and the epochs and rates it gets where they are not the recipe's."""

    size: int
    epochs: int | None = None
    rates: tuple[float, ...] = ()

    @property
    def title(self) -> str:
        """What the list of runs that are left calls it."""
        return f"batches of {self.size}" + (", equal steps" if self.epochs else "")

    @property
    def overrides(self) -> list[str]:
        """Of the recipe."""
        return [f"batch_size={self.size}", *([f"epochs={self.epochs}"] if self.epochs else [])]


BATCHES = {
    # The noise of a step grows as a batch shrinks, and the rate that suits shrinks with it: ten times smaller ones, too.
    "batch-16": Batches(16, rates=(0.003, 0.01, 0.03, 0.1, 0.3)),
    **{f"batch-{size}": Batches(size) for size in (64, 256, 1024)},
    # 9 steps an epoch, in all the 1170 that batches of 128 have in 15 epochs.
    "batch-1024-steps": Batches(1024, epochs=130),
}


def batch_comparisons(factors: dict[str, list[str]]) -> dict[str, Comparison]:
    """The trainings, of the losses in ``factors``."""
    return {
        name: Comparison(_RECIPE, factors, _SEEDS, list(found.rates), found.overrides, rate_seeds=_SEEDS)
        for name, found in BATCHES.items()
    }


def batch_paragraphs(parts: Mapping[str, Part], losses: list[str]) -> list[str]:
    """Each loss beside cross-entropy by batch size, and how far its own decision moves; nothing before it has two sizes."""
    return [text for loss in losses for text in _of_loss(parts, loss)]


def _of_loss(parts: Mapping[str, Part], loss: str) -> list[str]:
    run = [parts[name] for name in (*BATCHES, _REFERENCE)]
    run.sort(key=lambda part: (part.comparison.base.epochs, part.comparison.base.batch_size))
    header = ["batch size", "epochs", "n", "rate", "ce, head", "ce, probe", "own", "probe"]
    body: list[list[str]] = []
    own: dict[int, Spread] = {}
    epochs = parts[_REFERENCE].comparison.base.epochs
    for part in run:
        found = part.spread("own", "top1", loss=loss)
        if found is None:
            continue
        base = part.comparison.base
        plan = next(plan for plan in part.plans if plan.factors["loss"] == loss)
        cells = [part.cell(decision, "top1", loss=name) for name in ("ce", loss) for decision in ("own", PROBE)]
        body.append([str(base.batch_size), str(base.epochs), str(found.n), f"{plan.chosen:g}", *cells])
        if base.epochs == epochs:
            own[base.batch_size] = found
    if len(own) < 2:
        return []
    low, high = (choose(own, key=lambda size: own[size].mean) for choose in (min, max))
    noise = max(found.deviation or 0.0 for found in own.values())
    return [
        f"**Batch sizes, `{loss}`.** Fashion-MNIST, beside cross-entropy, each loss at its own best rate; test set, top-1 "
        "in %. At equal epochs and, where a "
        "line has more of them, with as many steps as batches of 128.",
        markdown_table(header, body, left=2),
        f"At {epochs} epochs its own decision moves by {100 * (own[high].mean - own[low].mean):.2f} points, between "
        f"batches of {low} and {high}; the largest standard deviation over seeds is {100 * noise:.2f}.",
    ]
