"""``draw_curves``: the epochs of one run, or of several over each other, as a picture; ``read_rows``: from its log."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ncmi.report.drawing import COLORS, check_picture, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]

_STYLES = ("-", "--")
_COLUMNS = 3


class Panel(NamedTuple):
    """A picture of one quantity over the epochs."""

    title: str
    series: dict[str, str]  # key of the rows → name in the legend; the first is the main one
    percent: bool = False
    may_be_log: bool = False
    only_above_zero: bool = False


PANELS = (
    Panel("loss", {"validation_loss": "validation", "train_loss": "training"}),
    Panel("accuracy, %", {"validation_top1": "validation, top-1", "train_accuracy": "training batches"}, percent=True),
    Panel("validation NCMI = CMI / Γ", {"validation_ncmi": "NCMI"}, may_be_log=True),
    Panel("validation CMI and Γ, nats", {"validation_cmi": "CMI", "validation_gamma": "Γ"}, may_be_log=True),
    Panel("learning rate", {"lr": "learning rate"}),
    Panel("classes that share another's decision", {"shared_classes": "shared"}, only_above_zero=True),
)


class Curve(NamedTuple):
    """One series of one run; ``key`` is that of the panel."""

    run: str
    key: str
    epochs: list[float]
    values: list[float]


def draw_curves(rows: Rows | Mapping[str, Rows], path: str | Path, title: str = "") -> None:
    """Write a picture of loss, accuracy, CMI, Γ, NCMI and learning rate over the epochs; equal rows give equal bytes.

    A panel whose values no row has is left out. NCMI, and CMI with Γ, are drawn on a logarithmic axis when they span more
    than a decade. Classes that share another's decision, a sign of collapse, have a panel only where there are some.

    Args:
        rows: an epoch each, with any of ``epoch`` (else they are counted from 1), ``lr``, ``train_loss``,
            ``train_accuracy``, ``validation_loss``, ``validation_top1``, ``validation_cmi``, ``validation_gamma``,
            ``validation_ncmi`` and ``shared_classes``; accuracies are fractions. Or the rows of several runs by name.
        path: the file, ``.svg`` or ``.png``; an old one is replaced whole.
        title: a line above the panels.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_curves([{"epoch": 1, "train_loss": 4.6}, {"epoch": 2, "train_loss": 4.1}], f"{folder}/curves.svg", "first")
    ...     Path(folder, "curves.svg").read_text()[:5]
    '<?xml'
    """
    path = check_picture("draw_curves", path)
    with style():
        save_figure(curves_figure(rows, title), path)


def curves_figure(rows: Rows | Mapping[str, Rows], title: str = "", panels: Sequence[Panel] = PANELS) -> "Figure":
    """The picture of :func:`draw_curves` before it is written, with panels of your own if they are named.

    Args:
        rows: an epoch each, or the rows of several runs by name.
        title: a line above the panels.
        panels: from left to right; one whose values no row has is left out.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    runs = dict(rows) if isinstance(rows, Mapping) else {"": rows}
    drawn = [(panel, curves) for panel in panels if (curves := panel_curves(panel, runs))]
    if not drawn:
        raise ValueError("draw_curves: the picture would be empty, because no row holds a value. Train an epoch first.")
    epochs = [epoch for _, curves in drawn for curve in curves for epoch in curve.epochs]
    margin = max(0.03 * (max(epochs) - min(epochs)), 0.3)
    limits = (min(epochs) - margin, max(epochs) + margin)
    with style():
        columns = min(_COLUMNS, len(drawn))
        lines = math.ceil(len(drawn) / columns)
        layout = ConstrainedLayoutEngine(hspace=0.06, wspace=0.04)
        figure = Figure(figsize=(4.2 * columns, 3.1 * lines + 0.4), layout=layout)
        for place, (panel, curves) in enumerate(drawn):
            _draw(figure.add_subplot(lines, columns, place + 1), panel, curves, list(runs), limits)
        if len(runs) > 1:
            _name_runs(figure, list(runs))
        if title:
            figure.suptitle(title, fontsize=12)
    return figure


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines; a last line that a killed writer left torn is dropped.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "log.jsonl").write_text('{"epoch": 1}\\n{"epoch": 2}\\n{"epo')
    ...     read_rows(f"{folder}/log.jsonl")
    [{'epoch': 1}, {'epoch': 2}]
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"read_rows: {path} is not a file. Check the path; a run writes it after its first epoch."
        )
    # By the byte: a torn line may end in the middle of a letter.
    *lines, torn = path.read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        row = _parsed(line)
        if row is None:
            raise ValueError(
                f"read_rows: {path}, line {number} is damaged: it must be a JSON object. Remove or mend it."
            )
        rows.append(row)
    last = _parsed(torn)
    return rows if last is None else [*rows, last]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:  # of JSON, and of its encoding
        return None
    return row if isinstance(row, dict) else None


def panel_curves(panel: Panel, runs: Mapping[str, Rows]) -> list[Curve]:
    """The curves of a panel; none if there is nothing to see."""
    curves = []
    for run, rows in runs.items():
        for key in panel.series:
            points = [
                (float(row.get("epoch", place)), float(row[key]))
                for place, row in enumerate(rows, start=1)
                if row.get(key) is not None
            ]
            if panel.percent and any(value > 1 for _, value in points):
                raise ValueError(
                    f"draw_curves: {key} must be a fraction, because it is shown in percent; "
                    f"got {max(value for _, value in points)}. Divide by 100."
                )
            if any(math.isfinite(value) for _, value in points):
                curves.append(Curve(run, key, [epoch for epoch, _ in points], [value for _, value in points]))
    if panel.only_above_zero and not any(value > 0 for curve in curves for value in curve.values):
        return []
    return curves


def _draw(axis: "Axes", panel: Panel, curves: list[Curve], runs: list[str], limits: tuple[float, float]) -> None:
    """One run has a colour for each series, several have a colour each and a dashed second series."""
    from matplotlib.ticker import MaxNLocator

    series = list(panel.series)
    for curve in curves:
        which = series.index(curve.key)
        several = len(runs) > 1
        axis.plot(
            curve.epochs,
            [100 * value for value in curve.values] if panel.percent else curve.values,
            color=_color(runs.index(curve.run) if several else which),
            linestyle=_STYLES[which if several else 0],
            linewidth=1.8,
            # A line needs two neighbours: alone, between gaps or in the first epoch, a value is a point.
            marker="o" if len(curve.values) < 3 or not all(map(math.isfinite, curve.values)) else None,
            markersize=4,
        )
    axis.set_title(panel.title, fontsize=10, loc="left")
    axis.set_xlabel("epoch")
    if panel.may_be_log and spans_a_decade(curves):
        axis.set_yscale("log")
    axis.grid(color="0.92", zorder=0)
    axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    axis.set_xlim(*limits)
    _name_series(axis, panel, curves, len(runs) > 1)


def _name_series(axis: "Axes", panel: Panel, curves: list[Curve], several: bool) -> None:
    """A legend, where a panel has more than one series."""
    from matplotlib.lines import Line2D

    if len(panel.series) < 2:
        return
    shown = [key for key in panel.series if any(curve.key == key for curve in curves)]
    places = [list(panel.series).index(key) for key in shown]
    handles = [
        Line2D([], [], color="0.3" if several else _color(place), linestyle=_STYLES[place if several else 0])
        for place in places
    ]
    axis.legend(handles, [panel.series[key] for key in shown], frameon=False, fontsize=9)


def _name_runs(figure: "Figure", runs: list[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=_color(place), linewidth=3) for place in range(len(runs))]
    figure.legend(handles, runs, loc="outside lower center", ncols=min(len(runs), 6), frameon=False)


def _color(place: int) -> str:
    return COLORS[place % len(COLORS)]


def spans_a_decade(curves: list[Curve]) -> bool:
    """Whether the values are positive and the largest is more than ten times the smallest: the case for a logarithmic axis."""
    values = [value for curve in curves for value in curve.values if math.isfinite(value)]
    return min(values) > 0 and max(values) > 10 * min(values)
