"""``Part``: the rows of one of an item's comparisons, as scores and sentences for its piece of the page."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ncmi.experiments.cells import Comparison
from ncmi.experiments.losses import loss_notes
from ncmi.experiments.notes import remarks, setting, unfinished
from ncmi.experiments.plan import Plan, make_plans
from ncmi.experiments.reproduce.item import Item, Place
from ncmi.experiments.rows import Row, score_by_seed
from ncmi.experiments.statistics import Spread, spread
from ncmi.experiments.table import percent

FITTED = "fitted centroids"
PROBE = "linear probe"


@dataclass(frozen=True)
class Part:
    """One comparison of an item as far as it has come.

    Args:
        comparison: what is compared.
        plans: of all its groups.
    """

    comparison: Comparison
    plans: list[Plan]

    @property
    def rows(self) -> list[Row]:
        """Of the runs that count."""
        return [row for plan in self.plans for row in plan.runs.values()]

    def by_seed(self, decision: str, score: str, **factors: str) -> dict[int, float]:
        """A score of a group on the test set; none where the loss has no decision of its own, or nothing has run."""
        for plan in self.plans:
            own = [row["headline"] == "own" for row in plan.runs.values()]
            if plan.factors == factors and (decision != "own" or all(own)):
                return score_by_seed(plan.runs, decision, score)
        return {}

    def spread(self, decision: str, score: str, **factors: str) -> Spread | None:
        """The same over the seeds."""
        return spread(list(self.by_seed(decision, score, **factors).values()))

    def cell(self, decision: str, score: str, **factors: str) -> str:
        """The same as a cell of a table, in percent."""
        return percent(self.spread(decision, score, **factors), self.comparison.seeds)

    @property
    def samples(self) -> int:
        """Samples of the test set."""
        return max((parts["test"]["n"] for row in self.rows for parts in row["decisions"].values()), default=0)

    def notes(self) -> list[str]:
        """What was run, and what is not as expected of it."""
        losses = dict.fromkeys(plan.factors["loss"] for plan in self.plans)
        return [
            setting(self.comparison, self.rows),
            *(note for loss in losses for note in loss_notes(loss, self.comparison.base)),
            *(remark for plan in self.plans for remark in remarks(plan)),
            *(
                f"{plan.title}: failed, {sentence}"
                for plan in self.plans
                if not plan.runs
                for sentence in failures(plan)
            ),
            *unfinished(self.plans),
        ]


def failures(plan: Plan) -> list[str]:
    """Why a group has no result, each sentence once."""
    return list(dict.fromkeys(plan.failures.values()))


def read_parts(item: Item, place: Place) -> dict[str, Part]:
    """The parts of an item at the scale of a place, from the rows there."""
    return {
        name: Part(comparison, make_plans(comparison, place.part(name).rows.rows()))
        for name, comparison in item.comparisons(place.scale).items()
    }


def standing(name: str, value: float | None, others: Mapping[str, float | None], samples: int) -> str | None:
    """A sentence about an accuracy among others on the same test set; ``None`` where one side is missing.

    Level means a difference within two standard deviations of that of two accuracies p of N samples, √(2 p (1 − p) / N).

    >>> standing("NCMI-CC", 0.30, {"CE": 0.25, "LS": 0.26}, 10_000)
    'NCMI-CC (30.00) is ahead of LS (26.00), the best of the others, by 4.00 points.'
    >>> standing("NCMI-CC", 0.26, {"CE": 0.262}, 10_000)
    'NCMI-CC (26.00) is level with CE (26.20): −0.20 points, within the 1.24 that chance explains on 10,000 samples.'
    """
    known = {other: share for other, share in others.items() if share is not None}
    if value is None or not known or not samples:
        return None
    best = max(known, key=lambda other: known[other])
    difference, middle = value - known[best], (value + known[best]) / 2
    chance = 2 * math.sqrt(2 * middle * (1 - middle) / samples)
    rival = f"{best} ({100 * known[best]:.2f})"
    if abs(difference) <= chance:
        shown = f"{100 * difference:+.2f}".replace("-", "−")
        return (
            f"{name} ({100 * value:.2f}) is level with {rival}: {shown} points, within the {100 * chance:.2f} that chance "
            f"explains on {samples:,} samples."
        )
    word = "ahead of" if difference > 0 else "behind"
    rest = ", the best of the others," if len(known) > 1 else ""
    return f"{name} ({100 * value:.2f}) is {word} {rival}{rest} by {100 * abs(difference):.2f} points."


def mean(found: Spread | None) -> float | None:
    """The mean of a spread, if there is one."""
    return None if found is None else found.mean


def paragraphs(*groups: Iterable[str | None] | str) -> str:
    """Markdown of paragraphs, each once; strings, and lists of them whose sentences make one list of points."""
    found: list[str] = []
    for group in groups:
        if isinstance(group, str):
            found.append(group)
        elif points := list(dict.fromkeys(f"- {line}" for line in group if line)):
            found.append("\n".join(points))
    return "\n\n".join(found) + "\n"
