"""Tables of a report: one row a run, settings that differ, and settings that all runs share."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ncmi.report.records import RunRecord


class Cell(NamedTuple):
    """A table's cell: what is shown, and the number or text that it is sorted by; ``None`` comes last."""

    text: str
    value: float | str | None = None


class Column(NamedTuple):
    """A column of the summary table: heading, meaning, cells, whether they are numbers, and the best of several."""

    title: str
    meaning: str
    cells: list[Cell]
    numeric: bool
    best: float | None = None


class DecisionTable(NamedTuple):
    """Headings of the numbers, and for each decision the place of its run, what decides, and the numbers."""

    titles: list[str]
    rows: list[tuple[int, list[Cell]]]


class Comparison(NamedTuple):
    """Settings by dotted name: those in which runs differ, with a value for each run, and those that all share."""

    different: list[tuple[str, list[str]]]
    shared: list[tuple[str, str]]


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _digits(value: float) -> str:
    return f"{value:.4g}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


# Heading, meaning, where the number stands in the facts of a run, and how it is shown.
_COLUMNS: tuple[tuple[str, str, str, Callable[[float], str]], ...] = (
    ("test top-1, %", "right decisions on the test part", "headline.test.top1", _percent),
    ("test top-5, %", "right class among the five best", "headline.test.top5", _percent),
    ("macro F1, %", "mean F1 of the classes on the test part", "headline.test.macro_f1", _percent),
    ("macro AUC, %", "mean one-versus-rest AUC on the test part", "headline.test.macro_auc", _percent),
    ("balanced accuracy, %", "mean recall of the test part's classes", "headline.test.balanced_accuracy", _percent),
    ("ECE, %", "expected calibration error on the test part, 15 bins", "headline.test.ece", _percent),
    ("NLL", "mean negative log-likelihood of the test part", "headline.test.nll", _digits),
    ("validation top-1, %", "right decisions on the validation part, last epoch", "last.validation_top1", _percent),
    ("NCMI", "CMI / Γ of the test part: low is tight classes far apart", "information.test.ncmi", _digits),
    ("CMI, nats", "scatter of a class's outputs, test part", "information.test.cmi", _digits),
    ("Γ, nats", "separation between classes, test part", "information.test.gamma", _digits),
    ("epochs", "epochs trained", "last.epoch", _whole),
    ("s / epoch", "seconds an epoch", "last.seconds", lambda value: f"{value:.1f}"),
    ("memory, MB", "peak memory of the process, or of the GPU's tensors", "peak_memory_bytes", _megabytes),
    ("parameters", "numbers that are trained", "parameters", _whole),
)

# Heading of a share in percent, and where it stands among the parts of a decision.
_DECISIONS = (
    ("test top-1, %", "test.top1"),
    ("validation top-1, %", "validation.top1"),
    ("train top-1, %", "train.top1"),
    ("test top-5, %", "test.top5"),
    ("test ECE, %", "test.ece"),
)

_BETTER: dict[str, Callable[[list[float]], float]] = {
    **dict.fromkeys(("test top-1, %", "test top-5, %", "macro F1, %", "macro AUC, %", "balanced accuracy, %"), max),
    **dict.fromkeys(("ECE, %", "NLL"), min),
}


def summary_columns(runs: Sequence[RunRecord]) -> list[Column]:
    """The summary table: its first number, which a phone shows beside the names, then words, then the other numbers."""
    words = [
        Column("loss", "the loss it was trained with", [_word(run, "loss") for run in runs], False),
        Column("decision", "what the numbers of the test part decide by", [_decision(run) for run in runs], False),
    ]
    for section in ("data", "model"):
        cells = [_word(run, section) for run in runs]
        if len(set(cells)) > 1:
            words.append(Column(section, f"the {section}", cells, False))
    comparable = len({_word(run, "data") for run in runs}) == 1  # runs on other data are not better or worse
    seeds = [Cell(str(run.config.get("seed", "–")), run.config.get("seed")) for run in runs]
    words.append(Column("seed", "of everything random", seeds, True))
    facts, numbers = [_facts(run) for run in runs], []
    for title, meaning, path, show in _COLUMNS:
        values = [_number(each, path) for each in facts]
        if _tells(path, values):
            cells = [_cell(each, path, show) for each in facts]
            if any(_interval(each, path) for each in facts):
                meaning += "; in brackets its 95 % bootstrap interval over patients"
            numbers.append(Column(title, meaning, cells, True, _best(title, values) if comparable else None))
    return [*numbers[:1], *words, *numbers[1:]]


def _best(title: str, values: Sequence[float | None]) -> float | None:
    """The best of two or more numbers that differ, in a column where one is better than another."""
    known = [value for value in values if value is not None]
    if len(set(known)) < 2 or title not in _BETTER:
        return None
    return _BETTER[title](known)


def decision_table(runs: Sequence[RunRecord]) -> DecisionTable:
    """Every decision of every run; a column that no run has a number for, as without a test part, is left out."""
    found = [row["parts"] for run in runs for row in run.decisions]
    columns = [(title, path) for title, path in _DECISIONS if _tells(path, [_number(parts, path) for parts in found])]
    rows = []
    for place, run in enumerate(runs):
        for row in run.decisions:
            cells = [_cell(row["parts"], path, _percent) for _, path in columns]
            rows.append((place, [Cell(row["source"], row["source"]), *cells]))
    return DecisionTable([title for title, _ in columns], rows)


def compare_settings(settings: Sequence[Mapping[str, Any]]) -> Comparison:
    """Nested settings of several runs side by side.

    >>> compare_settings([{"seed": 0, "loss": {"name": "ce"}}, {"seed": 0, "loss": {"name": "ncmi"}}])
    Comparison(different=[('loss.name', ['ce', 'ncmi'])], shared=[('seed', '0')])
    """
    flat = [dict(_flattened(each)) for each in settings]
    different, shared = [], []
    for key in dict.fromkeys(key for each in flat for key in each):
        values = [each.get(key, "–") for each in flat]
        if len(set(values)) > 1:
            different.append((key, values))
        else:
            shared.append((key, values[0]))
    return Comparison(different, shared)


def _flattened(settings: Mapping[str, Any], path: str = "") -> list[tuple[str, str]]:
    found = []
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            found += _flattened(value, f"{path}{key}.")
        else:
            found.append((f"{path}{key}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
    return found


def _facts(run: RunRecord) -> dict[str, Any]:
    summary = run.summary or {}
    return {
        **summary,
        "headline": run.decisions[0]["parts"] if run.decisions else {},
        "information": summary.get("evaluation", {}).get("information", {}),
        "last": run.rows[-1] if run.rows else summary.get("last", {}),
    }


def _at(facts: Any, *keys: str) -> Any:
    for key in keys:
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return facts


def _number(facts: Any, path: str) -> float | None:
    found = _at(facts, *path.split("."))
    return float(found) if isinstance(found, int | float) else None


def _tells(path: str, values: Sequence[float | None]) -> bool:
    """Whether there are such numbers, and not only fives that always hold the right class, as with five classes or fewer."""
    known = [value for value in values if value is not None]
    return bool(known) and not (path.endswith(".top5") and all(value == 1 for value in known))


def _cell(facts: Any, path: str, show: Callable[[float], str]) -> Cell:
    value = _number(facts, path)
    if value is None:
        return Cell("–")
    ends = _interval(facts, path)
    return Cell(show(value) + (f" [{', '.join(map(show, ends))}]" if ends else ""), value)


def _interval(facts: Any, path: str) -> Sequence[float] | None:
    """Both ends, where the samples come from patients."""
    *place, name = path.split(".")
    return _at(facts, *place, "intervals", name)


def _word(run: RunRecord, section: str) -> Cell:
    name = str(run.config.get(section, {}).get("name", "–"))
    return Cell(name, name)


def _decision(run: RunRecord) -> Cell:
    return Cell(run.decisions[0]["source"], run.decisions[0]["source"]) if run.decisions else Cell("not finished")
