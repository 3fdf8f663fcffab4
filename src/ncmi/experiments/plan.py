"""``Plan``: where one group of a comparison stands. It follows from the rows alone, so an interrupted one goes on."""

from collections.abc import Mapping
from dataclasses import dataclass

from ncmi.experiments.cells import Cell, Comparison
from ncmi.experiments.rates import search_rates
from ncmi.experiments.rows import Row, validation_score


@dataclass(frozen=True)
class Plan:
    """What is known of a group, and what it needs next.

    Args:
        factors: the group.
        rates: the learning rates that are tried.
        trials: rows of those that have run at seed 0.
        chosen: the best of them on validation; ``None`` as long as some have not run.
        missing: the cells to run now; those at a rate that is not chosen yet come later.
        later: how many of those there will be at least.
        rows: of the seeds at the chosen rate.
    """

    factors: dict[str, str]
    rates: list[float]
    trials: dict[float, Row]
    chosen: float | None
    missing: list[Cell]
    later: int
    rows: dict[int, Row]

    @property
    def title(self) -> str:
        """What the group is called in sentences."""
        return " · ".join(self.factors.values())

    @property
    def finished(self) -> bool:
        """Whether nothing is left to run."""
        return not self.missing

    @property
    def runs(self) -> dict[int, Row]:
        """The rows of seeds that came to their end."""
        return {seed: row for seed, row in self.rows.items() if "failed" not in row}

    @property
    def all_runs(self) -> list[Row]:
        """The rows of all cells that came to their end, at other rates too."""
        trials = [row for rate, row in self.trials.items() if rate != self.chosen and "failed" not in row]
        return [*trials, *self.runs.values()]

    @property
    def failures(self) -> dict[int, str]:
        """The sentences of seeds that failed."""
        return {seed: row["failed"] for seed, row in self.rows.items() if "failed" in row}


def make_plan(comparison: Comparison, factors: dict[str, str], rows: Mapping[str, Row]) -> Plan:
    """The plan of a group: first every rate at seed 0, then every seed at the best one.

    Args:
        comparison: the whole.
        factors: the group.
        rows: finished cells by fingerprint.
    """

    def row(rate: float, seed: int) -> Row | None:
        return rows.get(comparison.fingerprint(Cell(factors, rate, seed)))

    # One rate needs no choice, and so no validation part.
    choose = len(comparison.rates) > 1
    scores: dict[float, float | None] = {}
    while True:
        rates, chosen = search_rates(comparison.rates, scores)
        new = {rate: found for rate in rates if rate not in scores and (found := row(rate, 0)) is not None}
        if not new:
            break
        scores |= {rate: validation_score(found) if choose else 0.0 for rate, found in new.items()}
    trials = {rate: found for rate in rates if (found := row(rate, 0)) is not None}
    if chosen is None:
        missing = [Cell(factors, rate, 0) for rate in rates if rate not in scores]
        return Plan(factors, rates, trials, None, missing, comparison.seeds - 1, {})
    done = {seed: found for seed in range(comparison.seeds) if (found := row(chosen, seed)) is not None}
    if "failed" in done[0] and choose:  # every rate failed; more seeds would not help
        return Plan(factors, rates, trials, chosen, [], 0, done)
    missing = [Cell(factors, chosen, seed) for seed in range(comparison.seeds) if seed not in done]
    return Plan(factors, rates, trials, chosen, missing, 0, done)


def make_plans(comparison: Comparison, rows: Mapping[str, Row]) -> list[Plan]:
    """The plans of all groups."""
    return [make_plan(comparison, factors, rows) for factors in comparison.groups]
