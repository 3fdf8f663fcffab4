"""``figure-accuracy-vs-ncmi``: NCMI of penultimate features against accuracy, for families of trained networks."""

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ncmi.experiments.cells import Cell, Comparison
from ncmi.experiments.reproduce.item import Item, Piece, Place, Scale
from ncmi.experiments.reproduce.measured import MeasuredRows, Row, machine_sentence, nothing_yet
from ncmi.experiments.reproduce.parts import paragraphs, points
from ncmi.experiments.reproduce.penultimate import Family, family_features, run_features, separation
from ncmi.experiments.table import markdown_table
from ncmi.report.drawing import COLORS, style
from ncmi.training.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = -0.997
_SHOWS = -0.9  # a correlation above it is no near-linear relation

CIFAR10 = Family(
    "published CIFAR-10 ResNets",
    "cifar10",
    "cifar10_resnets",
    {name: f"{name}.pt" for name in ("resnet20", "resnet32", "resnet44", "resnet56")},
)
IMAGENET = Family(
    "published ImageNet ResNets",
    "folder:imagenet",
    "imagenet_resnets",
    {name: f"{name}.pth" for name in ("resnet18", "resnet34", "resnet50", "resnet101")},
)
FAMILIES: dict[Scale, tuple[Family, ...]] = {"smoke": (), "small": (CIFAR10,), "full": (CIFAR10, IMAGENET)}

_MAPS = {"softmax": "softmax of raw features (paper)", "method": "NSF of centred unit features"}
_MARKERS = ("o", "s", "^", "D")


def comparisons(scale: Scale) -> dict[str, Comparison]:
    """Trainings with cross-entropy at several budgets, a part each; none where published networks do."""
    if scale == "full":
        return {}
    recipe, models, rate, epochs, overrides = (
        ("digits", ["mlp"], 0.1, (1, 2, 4), ["scale=smoke"])
        if scale == "smoke"
        else ("cifar100/small", ["resnet8_slim", "resnet10_slim"], 0.3, (1, 2, 4, 8), ["data.train_size=5000"])
    )
    own = [*overrides, "data.validation=0", "decisions=[own]"]
    return {
        f"epochs-{count}": Comparison(recipe, {"model": models, "loss": ["ce"]}, 1, [rate], [*own, f"epochs={count}"])
        for count in epochs
    }


def measure(place: Place) -> None:
    """Features of every network that no row has yet."""
    file = MeasuredRows(place.out)
    for family in FAMILIES[place.scale]:
        for model in family.files:
            if file.has(family=family.name, network=model):
                continue
            if family.weights(model) is None:
                place.say(f"figure-accuracy-vs-ncmi: {family.name}, {model}: there are no weights, it is left out.")
                continue
            row = {"family": family.name, "network": model, "data": family.data, "label": model}
            file.add([{**row, **separation(family_features(family, model))}])
            place.say(f"figure-accuracy-vs-ncmi: {family.name}, {model}")
    for name, comparison in comparisons(place.scale).items():
        for cell in (Cell(factors, comparison.rates[0], 0) for factors in comparison.groups):
            folder = RunFolder(place.runs / name / comparison.cell_name(cell))
            epochs, model = comparison.base.epochs, cell.factors["model"]
            about = {"family": _own_family(comparison), "network": model, "epochs": epochs}
            if file.has(**about):
                continue
            if not folder.finished:
                place.say(f"figure-accuracy-vs-ncmi: {folder.path} holds no finished run, it is left out.")
                continue
            label = f"{epochs} epoch{'s' * (epochs > 1)}"
            found = separation(run_features(folder.path))
            file.add([{**about, "data": comparison.base.data.name, "label": label, **found}])
            place.say(f"figure-accuracy-vs-ncmi: {model}, {label}")


def _own_family(comparison: Comparison) -> str:
    return f"own runs on {comparison.base.data.name}, cross-entropy"


def correlation(rows: Sequence[Row], map_name: str) -> float | None:
    """Pearson's r of NCMI and accuracy; ``None`` for fewer than three networks, or if one of the two does not vary."""
    pairs = [(row[map_name]["ncmi"], row[map_name]["accuracy"]) for row in rows]
    try:
        return statistics.correlation(*zip(*pairs, strict=True)) if len(pairs) > 2 else None
    except statistics.StatisticsError:
        return None


def piece(place: Place) -> Piece:
    """The picture, its numbers, the correlations beside the paper's, and what was measured."""
    rows = MeasuredRows(place.out).rows()
    if not rows:
        return Piece(nothing_yet("figure-accuracy-vs-ncmi"), {})
    families = {
        name: [row for row in rows if row["family"] == name] for name in dict.fromkeys(row["family"] for row in rows)
    }
    header = ["networks", "network", *(f"{what}, {name}" for name in _MAPS for what in ("NCMI", "accuracy, %"))]
    body = [
        [family, _name(row), *(cell for name in _MAPS for cell in _cells(row[name]))]
        for family, group in families.items()
        for row in group
    ]
    text = [
        "![Accuracy against NCMI](accuracy-vs-ncmi.svg)",
        _correlations(families),
        points("What the rows say:", [line for name, group in families.items() for line in _findings(name, group)]),
        "The paper measures published ResNets on ImageNet's validation images, whose class means seem to come from the same "
        "images; neither its networks' numbers nor how many there were is in its source, so that only r can be compared. Here "
        "NCMI and accuracy are those of one half of the test images, by class means of the other half: "
        + _sizes(families),
        markdown_table(header, body, left=2),
        "`softmax`: softmax of the penultimate features as they are, as in the paper. `method`: the loss's own map, NSF of "
        "centred, L2-normalised features at temperature 0.2. Accuracy is by the nearest class mean in the same space.",
        machine_sentence(rows),
    ]
    return Piece(paragraphs(*text), {"accuracy-vs-ncmi": _draw(families)})


def _name(row: Row) -> str:
    return row["network"] if row["network"] == row["label"] else f"{row['network']}, {row['label']}"


def _cells(values: Row) -> list[str]:
    return [f"{values['ncmi']:.4g}", f"{100 * values['accuracy']:.2f}"]


def _shown(r: float | None) -> str:
    return "–" if r is None else f"{r:.3f}".replace("-", "−")


def _correlations(families: Mapping[str, Sequence[Row]]) -> str:
    body = [[name, str(len(group)), *(_shown(correlation(group, map_name)) for map_name in _MAPS)]
            for name, group in families.items()]  # fmt: skip
    body.append(["paper: ResNets on ImageNet", "not said", f"beyond {_shown(PAPER)}", "–"])
    return markdown_table(["networks", "n", "r, softmax", "r, method"], body)


def _findings(family: str, group: Sequence[Row]) -> list[str]:
    """Whether the paper's near-linear inverse relation shows in a family."""
    found = []
    for name in _MAPS:
        r = correlation(group, name)
        if r is None:
            found.append(f"{family}, {name}: {len(group)} networks, too few or too equal for a correlation.")
            continue
        few = f" {len(group)} points decide little." if len(group) < 5 else ""
        accuracies = [100 * row[name]["accuracy"] for row in group]
        word = "shows" if r <= _SHOWS else "does not show"
        found.append(
            f"{family}, {name}: the paper's inverse linear relation {word} (r = {_shown(r)}, {len(group)} networks, accuracies "
            f"{min(accuracies):.1f} to {max(accuracies):.1f} %).{few}"
        )
    return found


def _sizes(families: Mapping[str, Sequence[Row]]) -> str:
    return "; ".join(f"{group[0]['samples']:,} images of {group[0]['data']}" for group in families.values()) + "."


def _draw(families: Mapping[str, Sequence[Row]]) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with style():
        columns = len(families)
        figure = Figure(figsize=(5.2 * columns, 7.2), layout=ConstrainedLayoutEngine(wspace=0.06, hspace=0.08))
        axes = figure.subplots(2, columns, squeeze=False)
        for line, map_name in zip(axes, _MAPS, strict=True):
            for axis, (family, group) in zip(line, families.items(), strict=True):
                _draw_family(axis, group, map_name)
                r = _shown(correlation(group, map_name))
                axis.set_title(f"{family}\n{_MAPS[map_name]}: r = {r}", fontsize=10, loc="left")
    return figure


def _draw_family(axis: "Axes", group: Sequence[Row], map_name: str) -> None:
    networks = list(dict.fromkeys(row["network"] for row in group))
    several = len(networks) < len(group)  # then colours are networks and labels are budgets
    for row in group:
        x, y = row[map_name]["ncmi"], 100 * row[map_name]["accuracy"]
        place = networks.index(row["network"]) if several else 0
        axis.plot(x, y, marker=_MARKERS[place % 4], color=COLORS[place % len(COLORS)], markersize=7, linestyle="none")
        label = str(row["epochs"]) if several else row["label"]
        offset, side = (
            ((-7, -12), "right") if place % 2 else ((7, 4), "left")
        )  # neighbours keep out of each other's way
        axis.annotate(label, (x, y), xytext=offset, textcoords="offset points", ha=side, fontsize=9)
    if several:
        for place, name in enumerate(networks):
            axis.plot([], [], marker=_MARKERS[place % 4], color=COLORS[place], linestyle="none", label=name)
        axis.legend(frameon=False, title="number: epochs", title_fontsize=9)
    if correlation(group, map_name) is not None:
        xs, ys = zip(*((row[map_name]["ncmi"], 100 * row[map_name]["accuracy"]) for row in group), strict=True)
        slope, intercept = statistics.linear_regression(xs, ys)
        ends = [min(xs), max(xs)]
        axis.plot(ends, [intercept + slope * x for x in ends], color="0.6", linewidth=1, zorder=1)
    axis.margins(x=0.18, y=0.12)
    axis.set_xlabel("NCMI")
    axis.set_ylabel("nearest class mean, %")
    axis.grid(color="0.92")
    axis.set_axisbelow(True)


def _needs(scale: Scale) -> list[str]:
    if scale == "smoke":
        return []
    found = [
        "It needs CIFAR-10's test images, and beside them the folder `cifar10_resnets` with resnet20.pt to resnet56.pt, the "
        "published weights of Y. Idelbayev; without those the family is left out."
    ]
    if scale == "full":
        found.append(
            "It needs ImageNet in the folder `imagenet`, with `val`, and the folder `imagenet_resnets` with torchvision's "
            "weights as resnet18.pth to resnet101.pth in one of the places where data are looked for (`ncmi doctor`). Any "
            "other network: `ncmi measure --model NAME --weights FILE --data folder:imagenet`."
        )
    return found


ITEM = Item("figure-accuracy-vs-ncmi", "Accuracy against NCMI", comparisons, piece, measure, needs=_needs)
