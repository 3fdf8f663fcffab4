"""``Table``: one line for each group of a comparison, as Markdown for people and as CSV for programs."""

import csv
import io
from dataclasses import dataclass
from typing import Any, NamedTuple

from ncmi.experiments.cells import Comparison
from ncmi.experiments.kinds import DataKind
from ncmi.experiments.notes import make_notes
from ncmi.experiments.plan import Plan
from ncmi.experiments.rows import score_by_seed
from ncmi.experiments.statistics import Interval, Spread, paired_difference, spread

REFERENCE = "ce"
Scored = tuple[str, str]  # a decision and one of its scores


class Result(NamedTuple):
    """A score of a group.

    Args:
        spread: over seeds.
        difference: to the reference, paired by seed.
    """

    spread: Spread | None
    difference: Interval | None


@dataclass(frozen=True)
class Line:
    """What the table says of a group.

    Args:
        factors: the group.
        rate: the chosen learning rate.
        n: seeds that came to their end.
        results: on the test set, by decision and score.
        seconds: of an epoch's training in the fastest run at any rate.
        peak_memory_bytes: the largest of the runs.
        failed: the sentence of a group without a result.
    """

    factors: dict[str, str]
    rate: float | None
    n: int
    results: dict[Scored, Result]
    seconds: float | None
    peak_memory_bytes: int | None
    failed: str | None


@dataclass(frozen=True)
class Table:
    """The lines of a comparison, and what their reader must know.

    Args:
        kind: of the data.
        lines: one for each group.
        notes: one for each paragraph.
        compared: whether there are differences, which need the reference.
    """

    kind: DataKind
    lines: list[Line]
    notes: list[str]
    compared: bool

    def markdown(self) -> str:
        """A Markdown table that reads well as plain text, in percent, and its notes."""
        factors = list(self.lines[0].factors)
        compared = [column for column in self.kind.columns if self.compared and column.compared]
        header = [*factors, "rate", "n", *(column.title for column in self.kind.columns)]
        header += [f"{column.title} − {REFERENCE}" for column in compared]
        header += ["seconds an epoch", "peak memory"]
        body = [self._cells(line, [(column.decision, column.score) for column in compared]) for line in self.lines]
        paragraphs = [line for note in self.notes for line in (note, "")]
        return "\n".join([markdown_table(header, body, left=len(factors)), "", *paragraphs])

    def csv(self) -> str:
        """Every score of every decision, unrounded: shares of 1, bytes and seconds."""
        file = io.StringIO()
        records = [_record(line, self.compared) for line in self.lines]
        writer = csv.DictWriter(file, records[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return file.getvalue()

    def _cells(self, line: Line, compared: list[Scored]) -> list[str]:
        cells = [*line.factors.values(), "–" if line.rate is None else f"{line.rate:g}", str(line.n)]
        scores = [percent(line.results[column.decision, column.score].spread, line.n) for column in self.kind.columns]
        if line.failed is not None:
            scores[0] = f"failed: {line.failed}".replace("|", "\\|")
        cells += scores + [percent_difference(line.results[scored].difference, line.n) for scored in compared]
        cells.append("–" if line.seconds is None else f"{line.seconds:.2f}")
        cells.append("–" if line.peak_memory_bytes is None else f"{line.peak_memory_bytes / 1e6:.0f} MB")
        return cells


def make_table(comparison: Comparison, plans: list[Plan]) -> Table:
    """The table of a comparison as far as it has come.

    Args:
        comparison: the whole.
        plans: of all its groups.
    """
    compared = any(plan.factors.get("loss") == REFERENCE for plan in plans)
    scored = _all_scored(comparison.kind, plans)
    lines = [_line(plan, _reference(plan, plans), scored) for plan in plans]
    return Table(comparison.kind, lines, make_notes(comparison, plans, REFERENCE if compared else None), compared)


def _reference(plan: Plan, plans: list[Plan]) -> Plan | None:
    """The group that differs from this one in its loss alone, and has the reference's."""
    if plan.factors.get("loss") in (None, REFERENCE):
        return None
    wanted = {**plan.factors, "loss": REFERENCE}
    return next((other for other in plans if other.factors == wanted), None)


def _all_scored(kind: DataKind, plans: list[Plan]) -> list[Scored]:
    """The columns of the table, then every other score that a run has on the test set."""
    found = [(column.decision, column.score) for column in kind.columns]
    for row in (row for plan in plans for row in plan.runs.values()):
        for decision, parts in row["decisions"].items():
            scores = parts.get("test", {}).items()
            found += [(decision, score) for score, value in scores if score != "n" and isinstance(value, int | float)]
    return list(dict.fromkeys(found))


def _line(plan: Plan, reference: Plan | None, scored: list[Scored]) -> Line:
    runs = plan.runs
    return Line(
        factors=plan.factors,
        rate=plan.chosen,
        n=len(runs),
        results={pair: _result(plan, reference, pair) for pair in scored},
        seconds=min((row["seconds"] / row["epochs"] for row in plan.all_runs), default=None),
        peak_memory_bytes=max((row["peak_memory_bytes"] or 0 for row in runs.values()), default=0) or None,
        failed=next(iter(plan.failures.values()), None) if not runs else None,
    )


def _result(plan: Plan, reference: Plan | None, scored: Scored) -> Result:
    if scored[0] == "own" and any(row["headline"] != "own" for row in plan.runs.values()):
        return Result(None, None)  # what such a loss tracks to be watched by is not a decision
    values = score_by_seed(plan.runs, *scored)
    others = {} if reference is None else score_by_seed(reference.runs, *scored)
    return Result(spread(list(values.values())), paired_difference(values, others))


def _record(line: Line, compared: bool) -> dict[str, Any]:
    record: dict[str, Any] = {**line.factors, "rate": line.rate, "n": line.n}
    for scored, (found, difference) in line.results.items():
        name = "_".join(scored).replace(" ", "_")
        record[f"{name}_mean"] = None if found is None else found.mean
        record[f"{name}_deviation"] = None if found is None else found.deviation
        if compared:
            record[f"{name}_difference"] = None if difference is None else difference.mean
            record[f"{name}_difference_low"] = None if difference is None else difference.low
            record[f"{name}_difference_high"] = None if difference is None else difference.high
            record[f"{name}_difference_n"] = None if difference is None else difference.n
    record |= {"seconds_an_epoch": line.seconds, "peak_memory_bytes": line.peak_memory_bytes, "failed": line.failed}
    return record


def markdown_table(header: list[str], body: list[list[str]], left: int = 1) -> str:
    """A Markdown table that reads well as plain text.

    Args:
        header: a cell for each column.
        body: the same for each line.
        left: how many columns are aligned to the left; numbers are to the right.

    >>> print(markdown_table(["loss", "top-1"], [["ce", "7.5"]]))
    | loss | top-1 |
    |------|------:|
    | ce   |   7.5 |
    """
    widths = [max(len(cells[column]) for cells in (header, *body)) for column in range(len(header))]
    rule = ["-" * (width + 2) if place < left else "-" * (width + 1) + ":" for place, width in enumerate(widths)]
    lines = [
        "| "
        + " | ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        + " |"
        for cells in (header, *body)
    ]
    return "\n".join([lines[0], f"|{'|'.join(rule)}|", *lines[1:]])


def percent(found: Spread | None, n: int) -> str:
    """Mean ± standard deviation in percent, with the number of seeds where it is not ``n``."""
    if found is None:
        return "–"
    deviation = "" if found.deviation is None else f" ± {100 * found.deviation:.2f}"
    return f"{100 * found.mean:.2f}{deviation}{_count(found.n, n)}"


def percent_difference(found: Interval | None, n: int) -> str:
    """A mean difference in percent and its interval, with the number of seeds where it is not ``n``."""
    if found is None:
        return "–"
    ends = "" if found.low is None or found.high is None else f" [{signed(found.low)}, {signed(found.high)}]"
    return f"{signed(found.mean)}{ends}{_count(found.n, n)}"


def _count(own: int, n: int) -> str:
    """The number of seeds, where it is not the line's."""
    return "" if own == n else f" (n = {own})"


def signed(share: float) -> str:
    """A share of 1 in percent, with its sign."""
    text = f"{100 * share:+.2f}"
    return text.replace("-", "−") if float(text) else "0.00"  # zero has no sign, however it was rounded
