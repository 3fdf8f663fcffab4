"""``Plan``: where one group of a comparison stands. It follows from the rows alone, so an interrupted one goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from ncmi.experiments.cells import Cell, Comparison
from ncmi.experiments.rates import search_rates
from ncmi.experiments.rows import Row, validation_score


@dataclass(frozen=True)
class Plan:
    """What is known of a group, and what it needs next.

    Args:
        factors: the group.
        rates: the learning rates that are tried.
        trials: rows of the seeds that choose, by rate and seed, as far as they have run.
        chosen: the best of them on validation; ``None`` as long as some have not run.
        missing: the cells to run now; those at a rate that is not chosen yet come later.
        later: how many of those there will be at least.
        rows: of the seeds at the chosen rate.
    """

    factors: dict[str, str]
    rates: list[float]
    trials: dict[float, dict[int, Row]]
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
        others = (row for rate, rows in self.trials.items() if rate != self.chosen for row in rows.values())
        return [*(row for row in others if "failed" not in row), *self.runs.values()]

    @property
    def failures(self) -> dict[int, str]:
        """The sentences of seeds that failed."""
        return {seed: row["failed"] for seed, row in self.rows.items() if "failed" in row}


def make_plan(comparison: Comparison, factors: dict[str, str], rows: Mapping[str, Row]) -> Plan:
    """The plan of a group: first every rate with the seeds that choose, then every seed at the best rate.

    Args:
        comparison: the whole.
        factors: the group.
        rows: finished cells by fingerprint.
    """
    choose = len(comparison.rates) > 1  # one rate needs no choice, and so no validation part
    choosing = comparison.choosing_seeds

    def found(rate: float, seeds: range) -> dict[int, Row]:
        cells = {seed: rows.get(comparison.fingerprint(Cell(factors, rate, seed))) for seed in seeds}
        return {seed: row for seed, row in cells.items() if row is not None}

    trials: dict[float, dict[int, Row]] = {}
    scores: dict[float, float | None] = {}
    while True:
        rates, chosen = search_rates(comparison.rates, scores)
        trials |= {rate: found(rate, choosing) for rate in rates if rate not in trials}
        new = {
            rate: _score(trials[rate], choose) for rate in rates if rate not in scores and _done(trials[rate], choosing)
        }
        if not new:
            break
        scores |= new
    if chosen is None:
        open_rates = [rate for rate in rates if rate not in scores]
        missing = [Cell(factors, rate, seed) for rate in open_rates for seed in choosing if seed not in trials[rate]]
        return Plan(factors, rates, trials, None, missing, comparison.seeds - len(choosing), {})
    done = found(chosen, range(comparison.seeds))
    if scores[chosen] is None:  # every rate failed; more seeds would not help
        return Plan(factors, rates, trials, chosen, [], 0, done)
    missing = [Cell(factors, chosen, seed) for seed in range(comparison.seeds) if seed not in done]
    return Plan(factors, rates, trials, chosen, missing, 0, done)


def _done(runs: Mapping[int, Row], choosing: range) -> bool:
    """Whether a rate's score is known: a failure is enough."""
    return len(runs) == len(choosing) or any("failed" in row for row in runs.values())


def _score(runs: Mapping[int, Row], choose: bool) -> float | None:
    """What a rate is chosen by; ``None`` if it failed."""
    values = [validation_score(row) if choose else 0.0 for row in runs.values()]
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def make_plans(comparison: Comparison, rows: Mapping[str, Row]) -> list[Plan]:
    """The plans of all groups."""
    return [make_plan(comparison, factors, rows) for factors in comparison.groups]


def plan_cells(comparison: Comparison, plan: Plan) -> list[Cell]:
    """The cells that a plan calls for so far, done or not."""
    pairs = [(rate, seed) for rate in plan.rates for seed in comparison.choosing_seeds]
    chosen = comparison.rates[0] if len(comparison.rates) == 1 else plan.chosen
    pairs += [(chosen, seed) for seed in range(comparison.seeds) if chosen is not None]
    return [Cell(plan.factors, rate, seed) for rate, seed in dict.fromkeys(pairs)]
