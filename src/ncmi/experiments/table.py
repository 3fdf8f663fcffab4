"""``Table``: one line for each group of a comparison, as Markdown for people and as CSV for programs."""

import csv
import io
from dataclasses import dataclass
from typing import Any

from ncmi.experiments.cells import Comparison
from ncmi.experiments.losses import loss_settings
from ncmi.experiments.plan import Plan
from ncmi.experiments.rows import Row, accuracy_by_seed, distinct
from ncmi.experiments.statistics import Interval, Spread, paired_difference, spread

REFERENCE = "ce"
# Decisions with a column of their own, and those with a difference to the reference's.
_DECISIONS = {"own": "own decision", "linear probe": "linear probe", "class means": "class means"}
_COMPARED = ("own", "linear probe")


@dataclass(frozen=True)
class Line:
    """What the table says of a group.

    Args:
        factors: the group.
        rate: the chosen learning rate.
        n: seeds that came to their end.
        accuracies: on the test set, by decision.
        differences: to the reference, paired by seed, by decision.
        seconds: of training, the mean of the runs.
        peak_memory_bytes: the largest of the runs.
        failed: the sentence of a group without a result.
    """

    factors: dict[str, str]
    rate: float | None
    n: int
    accuracies: dict[str, Spread | None]
    differences: dict[str, Interval | None]
    seconds: float | None
    peak_memory_bytes: int | None
    failed: str | None


@dataclass(frozen=True)
class Table:
    """The lines of a comparison, and what their reader must know."""

    lines: list[Line]
    notes: list[str]

    def markdown(self) -> str:
        """A Markdown table that reads well as plain text, in percent, and its notes."""
        compared = self._compared()
        header = [*self._factors(), "rate", "n", *_DECISIONS.values()]
        header += [f"{_DECISIONS[name]} − {REFERENCE}" for name in compared]
        header += ["seconds", "peak memory"]
        body = [self._cells(line, compared) for line in self.lines]
        widths = [max(len(cells[column]) for cells in (header, *body)) for column in range(len(header))]
        left = len(self._factors())
        rule = ["-" * (width + 2) if place < left else "-" * (width + 1) + ":" for place, width in enumerate(widths)]
        rows = [
            "| "
            + " | ".join(
                _padded(cell, width, place < left)
                for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            + " |"
            for cells in (header, *body)
        ]
        return "\n".join([rows[0], f"|{'|'.join(rule)}|", *rows[1:], "", *_paragraphs(self.notes)])

    def csv(self) -> str:
        """The same numbers unrounded, accuracies and differences as shares of 1, bytes and seconds."""
        file = io.StringIO()
        records = [_record(line, self._compared()) for line in self.lines]
        writer = csv.DictWriter(file, records[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return file.getvalue()

    def _factors(self) -> list[str]:
        return list(self.lines[0].factors)

    def _compared(self) -> tuple[str, ...]:
        """Decisions with a column of differences: none without the reference."""
        return _COMPARED if _has_reference([line.factors for line in self.lines]) else ()

    def _cells(self, line: Line, compared: tuple[str, ...]) -> list[str]:
        cells = [*line.factors.values(), "–" if line.rate is None else f"{line.rate:g}", str(line.n)]
        accuracies = [_percent(line.accuracies[name]) for name in _DECISIONS]
        if line.failed is not None:
            accuracies[0] = f"failed: {line.failed}".replace("|", "\\|")
        cells += accuracies + [_difference(line.differences.get(name)) for name in compared]
        cells.append("–" if line.seconds is None else f"{line.seconds:.1f}")
        cells.append("–" if line.peak_memory_bytes is None else f"{line.peak_memory_bytes / 1e6:.0f} MB")
        return cells


def make_table(comparison: Comparison, plans: list[Plan]) -> Table:
    """The table of a comparison as far as it has come.

    Args:
        comparison: the whole.
        plans: of all its groups.
    """
    return Table([_line(plan, _reference(plan, plans)) for plan in plans], _notes(comparison, plans))


def _reference(plan: Plan, plans: list[Plan]) -> Plan | None:
    """The group that differs from this one in its loss alone, and has the reference's."""
    if plan.factors.get("loss") in (None, REFERENCE):
        return None
    wanted = {**plan.factors, "loss": REFERENCE}
    return next((other for other in plans if other.factors == wanted), None)


def _has_reference(groups: list[dict[str, str]]) -> bool:
    return any(factors.get("loss") == REFERENCE for factors in groups)


def _line(plan: Plan, reference: Plan | None) -> Line:
    runs = plan.runs
    accuracies = {name: accuracy_by_seed(runs, name) for name in _DECISIONS}
    if any(row["headline"] != "own" for row in runs.values()):  # what it tracks to be watched by is not a decision
        accuracies["own"] = {}
    differences = {
        name: None if reference is None else paired_difference(accuracies[name], accuracy_by_seed(reference.runs, name))
        for name in _COMPARED
    }
    seconds = spread([row["seconds"] for row in runs.values()])
    return Line(
        factors=plan.factors,
        rate=plan.chosen,
        n=len(runs),
        accuracies={name: spread(list(values.values())) for name, values in accuracies.items()},
        differences=differences,
        seconds=None if seconds is None else seconds.mean,
        peak_memory_bytes=max((row["peak_memory_bytes"] for row in runs.values()), default=None),
        failed=next(iter(plan.failures.values()), None) if not runs else None,
    )


def _notes(comparison: Comparison, plans: list[Plan]) -> list[str]:
    rows = [row for plan in plans for row in plan.runs.values()]
    about = "Test set at the last epoch: top-1 in %, mean ± standard deviation over n seeds."
    if _has_reference([plan.factors for plan in plans]):
        about += f" Differences to {REFERENCE} are paired by seed, with 95 % t intervals."
    notes = [_setting(comparison, rows), about]
    tried = "; ".join(f"{_title(plan)} {', '.join(f'{rate:g}' for rate in plan.rates)}" for plan in plans)
    how = "" if len(comparison.rates) == 1 else ", chosen on validation at seed 0, last epoch"
    notes.append(f"Rates tried{how}: {tried}.")
    losses = dict.fromkeys(plan.factors["loss"] for plan in plans if "loss" in plan.factors)
    notes += [note for loss in losses if (note := loss_settings(loss).note)]
    for plan in plans:
        notes += _remarks(plan)
    return notes


def _remarks(plan: Plan) -> list[str]:
    """What is not as expected of a group."""
    title, found = _title(plan), []
    for headline in distinct(plan.runs.values(), "headline"):
        if headline != "own":
            found.append(f"{title} has no decision of its own and is judged by its {headline}, its rate too.")
    if plan.runs and len(plan.rates) > 1 and plan.chosen in (plan.rates[0], plan.rates[-1]):
        found.append(f"{title}: the best rate is still at the end of those tried.")
    if plan.runs:
        found += [f"{title}, seed {seed}, failed: {sentence}" for seed, sentence in plan.failures.items()]
    if not plan.finished:
        found.append(f"{title} is not finished.")
    return found


def _setting(comparison: Comparison, rows: list[Row]) -> str:
    """What was run, and on what."""
    base = comparison.base
    parts = [f"`{comparison.recipe}`", *(f"`{override}`" for override in comparison.overrides)]
    parts += [f"scale {base.scale}", f"{base.epochs} epoch{'s' if base.epochs > 1 else ''}"]
    parts += [f"{samples} training samples" for samples in distinct(rows, "train_samples")]
    parts += [str(name) for name in distinct(rows, "processor")]
    parts += [f"{threads} thread{'s' if threads > 1 else ''} a run" for threads in distinct(rows, "threads")]
    parts += [f"torch {version}" for version in distinct(rows, "torch")]
    return f"{', '.join(parts)}."


def _record(line: Line, compared: tuple[str, ...]) -> dict[str, Any]:
    record: dict[str, Any] = {**line.factors, "rate": line.rate, "n": line.n}
    for name in _DECISIONS:
        found, key = line.accuracies[name], name.replace(" ", "_")
        record[f"{key}_mean"] = None if found is None else found.mean
        record[f"{key}_deviation"] = None if found is None else found.deviation
    for name in compared:
        difference, key = line.differences.get(name), f"{name.replace(' ', '_')}_difference"
        record[key] = None if difference is None else difference.mean
        record[f"{key}_low"] = None if difference is None else difference.low
        record[f"{key}_high"] = None if difference is None else difference.high
    return {**record, "seconds": line.seconds, "peak_memory_bytes": line.peak_memory_bytes, "failed": line.failed}


def _title(plan: Plan) -> str:
    return " · ".join(plan.factors.values())


def _percent(found: Spread | None) -> str:
    if found is None:
        return "–"
    return f"{100 * found.mean:.2f}" + ("" if found.deviation is None else f" ± {100 * found.deviation:.2f}")


def _difference(found: Interval | None) -> str:
    if found is None:
        return "–"
    if found.low is None or found.high is None:
        return _signed(found.mean)
    return f"{_signed(found.mean)} [{_signed(found.low)}, {_signed(found.high)}]"


def _signed(share: float) -> str:
    text = f"{100 * share:+.2f}"
    return text.replace("-", "−") if float(text) else "0.00"  # zero has no sign, however it was rounded


def _padded(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)


def _paragraphs(notes: list[str]) -> list[str]:
    """Notes as paragraphs of their own, with the line that ends the file."""
    return [line for note in notes for line in (note, "")]
