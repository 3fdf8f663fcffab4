"""The three pictures of ``figure-collapse``: curves, clusters of three classes, and paths of centres."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ncmi.report.drawing import COLORS, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

_QUANTITIES = {"cmi": "CMI, nats", "gamma": "Γ, nats", "ncmi": "NCMI = CMI / Γ", "top1": "accuracy, %"}
_SIMPLEX = {"nsf": COLORS[0], "softmax": COLORS[1]}
_LINES: dict[str, Any] = {"ema": "-", "none": "--"}
_MARKERS = ("o", "s", "^")


def draw_curves(rows: Sequence[Row]) -> "Figure":
    """CMI, Γ, NCMI and accuracy over the epochs: a line of panels for each objective, four settings in each panel."""
    objectives = _values(rows, "objective")
    with style():
        figure = _figure(11.5, 2.5 * len(objectives) + 0.5)
        axes = figure.subplots(len(objectives), len(_QUANTITIES), squeeze=False)
        for line, objective in zip(axes, objectives, strict=True):
            for axis, (name, label) in zip(line, _QUANTITIES.items(), strict=True):
                _draw_quantity(axis, [row for row in rows if row["objective"] == objective], name)
                axis.set_title(f"{objective}: {label}", fontsize=10, loc="left")
                axis.set_xlabel("epoch")
        figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_quantity(axis: "Axes", rows: Sequence[Row], name: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    factor = 100 if name == "top1" else 1
    seen: list[float] = []
    for group in _groups(rows):
        known = [(row["epoch"], factor * row[name]) for row in group if row[name] is not None]
        seen += [value for _, value in known]
        settings: dict[str, Any] = {"color": _SIMPLEX[group[0]["simplex"]], "linestyle": _LINES[group[0]["center"]]}
        axis.plot(
            *zip(*known, strict=True), label=group[0]["title"], linewidth=1.8, marker="o", markersize=3, **settings
        )
    if name != "top1" and min(seen) > 0 and max(seen) > 10 * min(seen):
        axis.set_yscale("log")
        axis.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axis.grid(color="0.92")
    axis.set_axisbelow(True)


def draw_clusters(rows: Sequence[Row]) -> "Figure":
    """Three classes by t-SNE, a line of panels for each setting, an epoch a column; constant vectors are black crosses."""
    groups = _groups(rows)
    with style():
        figure = _figure(7.8, 2.2 * len(groups) + 0.5)
        axes = figure.subplots(len(groups), max(map(len, groups)), squeeze=False)
        for line, group in zip(axes, groups, strict=True):
            for axis, row in zip(line, group, strict=False):
                _draw_classes(axis, row)
                axis.set_title(f"{row['title']}, epoch {row['epoch']}", fontsize=9, loc="left")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_classes(axis: "Axes", row: Row) -> None:
    samples, crosses = row["points"][: len(row["labels"])], row["points"][len(row["labels"]) :]
    for number, name in enumerate(row["classes"]):
        own = [point for point, label in zip(samples, row["labels"], strict=True) if label == number]
        marker: dict[str, Any] = {"marker": _MARKERS[number], "markersize": 4, "linestyle": "none", "alpha": 0.8}
        axis.plot(*zip(*own, strict=True), color=COLORS[number], label=f"class {name}", **marker)
    axis.plot(*zip(*crosses, strict=True), color="black", marker="x", markersize=9, markeredgewidth=2, linestyle="none",
              label="constant vectors")  # fmt: skip
    axis.set_xticks([])
    axis.set_yticks([])
    for side in ("top", "right"):
        axis.spines[side].set_visible(True)


def draw_centers(rows: Sequence[Row]) -> "Figure":
    """Paths of the mean feature (filled) and of the loss's centre (open), a panel for each objective; a ring is the end."""
    objectives = _values(rows, "objective")
    with style():
        from matplotlib.lines import Line2D

        figure = _figure(4.8 * len(objectives), 4.1)
        for axis, objective in zip(figure.subplots(1, len(objectives), squeeze=False)[0], objectives, strict=True):
            for group in _groups([row for row in rows if row["objective"] == objective]):
                color, line = _SIMPLEX[group[0]["simplex"]], _LINES[group[0]["center"]]
                _draw_path(axis, [row["feature_center"] for row in group], color, line, filled=True)
                if group[0]["loss_center"] is not None:
                    _draw_path(axis, [row["loss_center"] for row in group], color, ":", filled=False)
            axis.set_title(objective, fontsize=10, loc="left")
            axis.set_xlabel("along the constant direction")
            axis.set_ylabel("length of the rest")
            axis.grid(color="0.92")
            axis.set_axisbelow(True)
        titles = {group[0]["title"]: group[0] for group in _groups(rows)}
        handles = [
            Line2D([], [], color=_SIMPLEX[row["simplex"]], linestyle=_LINES[row["center"]], marker="o", markersize=4)
            for row in titles.values()
        ]
        handles += [
            Line2D([], [], color="0.3", linestyle=":", marker="o", markerfacecolor="white", markersize=4),
            Line2D([], [], color="0.3", linestyle="none", marker="o", markerfacecolor="none", markersize=11),
        ]
        names = [*titles, "the loss's centre (EMA)", "last epoch"]
        figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_path(axis: "Axes", path: Sequence[Sequence[float]], color: str, line: str, filled: bool) -> None:
    xs, ys = zip(*path, strict=True)
    face = color if filled else "white"
    settings: dict[str, Any] = {"linestyle": line, "marker": "o", "markersize": 4, "markerfacecolor": face}
    axis.plot(xs, ys, color=color, linewidth=1.4, **settings)
    axis.plot(xs[-1], ys[-1], color=color, marker="o", markersize=11, markerfacecolor="none", linestyle="none")


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(
        figsize=(width, math.ceil(10 * height) / 10), layout=ConstrainedLayoutEngine(wspace=0.05, hspace=0.06)
    )


def _values(rows: Sequence[Row], name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in rows))


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The epochs of each setting."""
    return [[row for row in rows if row["title"] == title] for title in _values(rows, "title")]
