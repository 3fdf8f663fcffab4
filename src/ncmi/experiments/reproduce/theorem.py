"""Theorem 1 in numbers: the minimum over q as printed (q^{c_z}) and as its proof needs it (q^{c_x}), on random problems."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ncmi.experiments.reproduce.item import Item, Piece, Place, Scale
from ncmi.experiments.reproduce.measured import MeasuredRows, Row, machine_sentence, nothing_yet
from ncmi.experiments.reproduce.parts import paragraphs, points
from ncmi.experiments.reproduce.theorem_numbers import FORMS, Form, Problem, line, solve
from ncmi.experiments.table import markdown_table
from ncmi.report.drawing import COLORS, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES: dict[Form, str] = {"corrected": "corrected, q of c_x", "printed": "as printed, q of c_z"}
_AGREES = 1e-9  # relative: of two float64 computations, one of them by descent
_SHAPES = ((4, 6, 10), (3, 8, 20), (10, 16, 6), (5, 64, 12))
_LINES = ("printed minimum", "corners")


def problems(scale: Scale) -> list[Problem]:
    """The problems of a scale: several shapes, tight and loose classes, several seeds; a few of them for ``smoke``."""
    seeds = range(1 if scale == "smoke" else 4)
    found = [
        Problem(*shape, scatter=scatter, seed=seed) for shape in _SHAPES for scatter in (0.3, 1.0) for seed in seeds
    ]
    return found[:2] if scale == "smoke" else found


def measure(place: Place) -> None:
    """Solve the problems that no row has yet, and follow two lines of the first one."""
    file = MeasuredRows(place.out)
    for problem in problems(place.scale):
        if not file.has(kind="problem", **problem._asdict()):
            file.add([solve(problem)])
            place.say(f"theorem: {', '.join(f'{name} {value:g}' for name, value in problem._asdict().items())}")
    first = problems(place.scale)[1]
    for name in _LINES:
        if not file.has(kind="line", line=name, **first._asdict()):
            file.add([line(first, name)])


def piece(place: Place) -> Piece:
    """A table of the problems by shape, what it says of both forms, and the two lines."""
    rows = MeasuredRows(place.out).rows()
    solved = [row for row in rows if row["kind"] == "problem"]
    if not solved:
        return Piece(nothing_yet("theorem"), {})
    shapes = list(dict.fromkeys((row["classes"], row["features"]) for row in solved))
    body = []
    for shape in shapes:
        group = [row for row in solved if (row["classes"], row["features"]) == shape]
        body.append(
            [
                *map(str, shape),
                str(group[0]["samples"]),
                str(len(group)),
                f"{max(_identity_error(row) for row in group):.0e}",
                f"{max(_error(row, row['corrected']['at_means']) for row in group):.0e}",
                f"{max(_error(row, row['corrected']['lowest']) for row in group):.0e}",
                _range([row["printed"]["at_means"] / row["ncmi"] for row in group]),
                _range([row["printed"]["minimum"] / row["ncmi"] for row in group]),
                _range([row["printed"]["distance"] for row in group]),
            ]
        )
    header = [
        "C", "D", "N", "problems", "identities, largest error", "corrected: F(s) − NCMI, relative",
        "corrected: min F − NCMI, relative", "printed: F(s) / NCMI", "printed: min F / NCMI",
        "printed: distance of its minimum from s",
    ]  # fmt: skip
    lines = {row["line"]: row for row in rows if row["kind"] == "line"}
    figures = {"lines": _draw(lines)} if len(lines) == len(_LINES) else {}
    text = [
        "The paper claims that the minimum of F over q is NCMI, reached where every q is its class's mean s. It prints q of "
        "c_z in the denominator; its proof needs q of c_x. The paper has no numbers for it.",
        markdown_table(header, body, left=0),
        "Ranges are over problems; distance is the largest total variation of a class. Everything is float64, pair by pair "
        "from the equations; minima are the lowest of several L-BFGS descents from s and from random q at which the "
        "denominator is positive.",
        points("What the rows say:", _findings(solved, lines)),
        *("![F along two lines](lines.svg)" for _ in figures),
        machine_sentence(rows),
    ]
    return Piece(paragraphs(*text), figures)


def _findings(solved: Sequence[Row], lines: Mapping[str, Row]) -> list[str]:
    """What the rows say, by rule."""
    total = len(solved)
    equal = sum(_error(row, row["corrected"]["lowest"]) < _AGREES for row in solved)
    fast = sum(
        max(_error(row, row["linear_time"]), _error(row, row["linear_time_at_means"])) < _AGREES for row in solved
    )
    other = sum(abs(row["printed"]["minimum"] / row["ncmi"] - 1) > 1e-3 for row in solved)
    known = sum(abs(row["printed"]["lowest"] / row["printed"]["minimum"] - 1) < _AGREES for row in solved)
    found = [
        f"Corrected: the lowest F that was found equals NCMI in {equal} of {total} problems (to {_AGREES:.0e}), and the "
        f"package's linear-time NCMI and F(s) agree with the pairs in {fast} of {total}.",
        f"Printed: the minimum is another number than NCMI in {other} of {total} problems, at centroids that are mixtures of "
        f"a class with all the others. L-BFGS ends at that closed-form minimum in {known} of {total}.",
    ]
    if "corners" in lines:
        below = [pair[1] for pair in lines["corners"]["corrected"]]
        ratios = [above / low for above, low in lines["corners"]["corrected"]]
        negative = [t for t, low in zip(lines["corners"]["t"], below, strict=True) if low < 0]
        found.append(
            f"The corrected statement holds where the denominator is positive only: on the way from s to the corners of the "
            f"simplex it is negative from t = {negative[0]:.3g} on. F is negative there, down to {min(ratios):.0f} at the "
            "points drawn, and has no lower bound where the denominator nears zero."
            if negative
            else "On the line to the corners of the simplex the corrected denominator stays positive."
        )
    return found


def _identity_error(row: Row) -> float:
    return max(row["identity_above"], row["identity_below"])


def _error(row: Row, value: float) -> float:
    return abs(value / row["ncmi"] - 1)


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def _draw(lines: Mapping[str, Row]) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    with style():
        figure = Figure(figsize=(10, 3.8), layout=ConstrainedLayoutEngine(wspace=0.06))
        left, right = figure.subplots(1, 2)
        _draw_line(left, lines["printed minimum"], "t: class means at 0, the printed form's minimum at 1")
        _draw_line(right, lines["corners"], "t: class means at 0, corners of the simplex at 1")
        left.set_title("where the two forms are lowest", fontsize=10, loc="left")
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        left.yaxis.set_minor_formatter(NullFormatter())
        right.set_title("where their denominators change sign", fontsize=10, loc="left")
        right.set_ylim(-15, 15)
        right.axhline(0, color="0.6", linewidth=0.8)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_line(axis: "Axes", row: Row, label: str) -> None:
    places = row["t"]
    for form, color in zip(FORMS, COLORS, strict=False):
        ratios = [above / below for above, below in row[form]]
        # A pole is no line: the two sides of a denominator's change of sign are drawn apart.
        signs = [below > 0 for _, below in row[form]]
        cut = [index for index in range(1, len(signs)) if signs[index] != signs[index - 1]]
        for number, (start, stop) in enumerate(zip([0, *cut], [*cut, len(signs)], strict=True)):
            name = _NAMES[form] if number == 0 else None
            axis.plot(places[start:stop], ratios[start:stop], color=color, linewidth=1.8, label=name)
    nearest = min(range(len(places)), key=lambda index: abs(places[index]))
    above, below = row["corrected"][nearest]
    axis.axhline(above / below, color=COLORS[6], linestyle=":", linewidth=1, label="NCMI")
    axis.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    axis.set_xlabel(label)
    axis.set_ylabel("F")


ITEM = Item(
    name="theorem",
    title="Theorem 1: the minimum over q, as printed and corrected",
    comparisons=lambda scale: {},
    piece=piece,
    measure=measure,
)
