"""``figure-batch-size``: accuracy over the batch size for cross-entropy, SupCon and NCMI (fig:acc_bs)."""

from typing import TYPE_CHECKING

from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce.item import HARMONIC, Item, Piece, Place, Scale
from ncmi.experiments.reproduce.parts import (
    FITTED,
    PROBE,
    STANDS,
    Part,
    judge,
    mean,
    paragraphs,
    points,
    read_parts,
)
from ncmi.experiments.table import markdown_table
from ncmi.report.drawing import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (16, 32, 64, 128, 256, 1024)
_LOSSES = ["ce", "supcon", "ncmi"]
_LARGEST_RATE = 1.0
# A line of the picture: title, loss, decision.
_LINES = (
    ("CE", "ce", "own"),
    ("CE, LP", "ce", PROBE),
    ("SupCon, LP", "supcon", PROBE),
    ("NCMI-CC", "ncmi", "own"),
    ("NCMI-CC (fitted)", "ncmi", FITTED),
    ("NCMI-LP", "ncmi", PROBE),
)
_MARKERS = ("o", "s", "^", "v", "D", "P")
_DASHES = {"own": "-", FITTED: ":", PROBE: "--"}


def rate_at(batch_size: int, rate: float, at: int) -> float:
    """The learning rate of a batch size: in proportion to it, at most 1.

    >>> [round(rate_at(size, 0.3, at=128), 6) for size in SIZES]
    [0.0375, 0.075, 0.15, 0.3, 0.6, 1.0]
    """
    return min(rate * batch_size / at, _LARGEST_RATE)


def comparisons(scale: Scale) -> dict[str, Comparison]:
    """The trainings: a part for each batch size."""
    if scale == "full":
        recipe, rate, at, seeds, overrides, sizes = "cifar100/resnet50", 0.1, 64, 3, [], SIZES
    elif scale == "small":
        recipe, rate, at, seeds, sizes = "cifar100/small", 0.3, 128, 1, SIZES
        overrides = ["epochs=5", "data.train_size=5000", "data.validation=1000", HARMONIC]
    else:
        recipe, rate, at, seeds, sizes = "digits", 0.1, 64, 1, (32, 128)
        overrides = ["scale=smoke", "epochs=1", "data.train_size=256"]
    return {
        f"batch-{size}": Comparison(
            recipe, {"loss": _LOSSES}, seeds, [rate_at(size, rate, at)], [*overrides, f"batch_size={size}"]
        )
        for size in sizes
    }


def piece(place: Place) -> Piece:
    """The picture, its numbers, where NCMI stands at each batch size, and what was run."""
    parts = read_parts(ITEM, place)
    sizes = [part.comparison.base.batch_size for part in parts.values()]
    shown = [line for line in _LINES if line[2] != FITTED or any(_share(part, line) for part in parts.values())]
    header = ["method", *(f"{size}" for size in sizes)]
    body = [[line[0], *(part.cell(line[2], "top1", loss=line[1]) for part in parts.values())] for line in shown]
    rates = ", ".join(f"{part.comparison.rates[0]:g}" for part in parts.values())
    return Piece(
        paragraphs(
            "![Accuracy over the batch size](batch-size.svg)",
            markdown_table(header, body),
            "Top-1 in % on the test set at the last epoch, by batch size. The rate is in proportion to the batch size, at "
            f"most {_LARGEST_RATE:g}: {rates}. No rate was chosen on validation.",
            _beside_the_paper(place.scale),
            points(STANDS, _standings(list(parts.values()))),
            points("What small batches cost:", _losses_over_sizes(list(parts.values()), shown)),
            points("What was run:", [note for part in parts.values() for note in _notes(part)]),
        ),
        {"batch-size": _draw(sizes, list(parts.values()), shown)},
    )


def _share(part: Part, line: tuple[str, str, str]) -> float | None:
    return mean(part.spread(line[2], "top1", loss=line[1]))


def _standings(parts: list[Part]) -> list[str]:
    """At which batch sizes NCMI is ahead of the others, level with them and behind them."""
    found = []
    for line in (line for line in _LINES if line[1] == "ncmi"):
        rivals = [other for other in _LINES if other[1] != "ncmi" and (other[2] == "own") == (line[2] == "own")]
        places: dict[str, list[str]] = {"ahead": [], "level": [], "behind": []}
        for part in parts:
            verdict = judge(_share(part, line), {other[0]: _share(part, other) for other in rivals}, part.samples)
            if verdict is not None:
                places[verdict.word].append(str(part.comparison.base.batch_size))
        where = [f"{word} at {', '.join(sizes)}" for word, sizes in places.items() if sizes]
        if where:
            found.append(f"{line[0]} beside {' and '.join(other[0] for other in rivals)}: {'; '.join(where)}.")
    return found


def _notes(part: Part) -> list[str]:
    """What was run, in the same words for every batch size."""
    return [note.replace(f", `batch_size={part.comparison.base.batch_size}`", "") for note in part.notes()]


def _losses_over_sizes(parts: list[Part], shown: list[tuple[str, str, str]]) -> list[str]:
    """How much each method loses from its best batch size to its smallest."""
    found = []
    for line in shown:
        values = {part.comparison.base.batch_size: _share(part, line) for part in parts}
        known = {size: value for size, value in values.items() if value is not None}
        if len(known) > 1:
            best, smallest = max(known, key=lambda size: known[size]), min(known)
            drop = 100 * (known[best] - known[smallest])
            cost = f"; at {smallest} it is {drop:.2f} points lower" if best != smallest else ", the smallest"
            found.append(f"{line[0]} is best at {best}{cost}.")
    return found


def _draw(sizes: list[int], parts: list[Part], shown: list[tuple[str, str, str]]) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(7.2, 4.0), layout=ConstrainedLayoutEngine())
    axis = figure.add_subplot()
    for line, marker in zip(shown, _MARKERS, strict=False):
        points = [
            (size, value) for size, part in zip(sizes, parts, strict=True) if (value := _share(part, line)) is not None
        ]
        if points:
            xs, ys = zip(*points, strict=True)
            color, dashes = COLORS[_LOSSES.index(line[1])], _DASHES[line[2]]
            axis.plot(xs, [100 * y for y in ys], color=color, linestyle=dashes, marker=marker, label=line[0])
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.minorticks_off()
    axis.set_xlabel("batch size")
    axis.set_ylabel("top-1 on the test set, %")
    axis.grid(axis="y", alpha=0.3)
    if axis.has_data():
        figure.legend(loc="outside right upper", frameon=False)
    return figure


def _beside_the_paper(scale: Scale) -> str:
    claim = (
        "The paper's figure has no numbers in its source. Its text says of ResNet-50 on CIFAR-100 that NCMI is above CE and "
        "SupCon at every batch size, and that SupCon falls with small batches."
    )
    if scale == "full":
        return f"{claim} How its rate followed the batch size is not said."
    return (
        f"{claim} Network, images and epochs are others here, as named below: numbers cannot be compared, only the order at a "
        "batch size."
    )


ITEM = Item("figure-batch-size", "Accuracy over the batch size", comparisons, piece)
