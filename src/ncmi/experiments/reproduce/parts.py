"""``Part``: the rows of one of an item's comparisons, as scores and sentences for its piece of the page."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

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
STANDS = "Where NCMI stands:"


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


class Verdict(NamedTuple):
    """An accuracy beside the best of others.

    Args:
        word: ``ahead``, ``level`` or ``behind``.
        best: the best of the others.
        share: its accuracy.
        chance: a difference up to this is level: two standard deviations of that of two accuracies p of N samples,
            √(2 p (1 − p) / N).
    """

    word: Literal["ahead", "level", "behind"]
    best: str
    share: float
    chance: float


def judge(value: float | None, others: Mapping[str, float | None], samples: int) -> Verdict | None:
    """Where an accuracy stands among others on the same test set; ``None`` where one side is missing.

    >>> judge(0.30, {"CE": 0.25, "LS": 0.26}, 10_000).word, judge(0.26, {"CE": 0.262}, 10_000).word
    ('ahead', 'level')
    """
    known = {other: share for other, share in others.items() if share is not None}
    if value is None or not known or not samples:
        return None
    best = max(known, key=lambda other: known[other])
    difference, middle = value - known[best], (value + known[best]) / 2
    chance = 2 * math.sqrt(2 * middle * (1 - middle) / samples)
    word = "level" if abs(difference) <= chance else "ahead" if difference > 0 else "behind"
    return Verdict(word, best, known[best], chance)


def standing(name: str, value: float | None, others: Mapping[str, float | None], samples: int) -> str | None:
    """The same as a sentence.

    >>> standing("NCMI-CC", 0.30, {"CE": 0.25, "LS": 0.26}, 10_000)
    'NCMI-CC (30.00) is ahead of LS (26.00), the best of the others, by 4.00 points.'
    >>> standing("NCMI-CC", 0.26, {"CE": 0.262, "LS": 0.2}, 10_000)
    'NCMI-CC (26.00) is level with CE (26.20), the best of the others: −0.20 points, within the 1.24 that chance explains.'
    """
    verdict = judge(value, others, samples)
    if value is None or verdict is None:
        return None
    own, rival = f"{name} ({100 * value:.2f})", f"{verdict.best} ({100 * verdict.share:.2f}), the best of the others"
    difference = value - verdict.share
    if verdict.word == "level":
        shown = f"{100 * difference:+.2f}".replace("-", "−")
        return (
            f"{own} is level with {rival}: {shown} points, within the {100 * verdict.chance:.2f} that chance explains."
        )
    word = "ahead of" if verdict.word == "ahead" else "behind"
    return f"{own} is {word} {rival}, by {100 * abs(difference):.2f} points."


def mean(found: Spread | None) -> float | None:
    """The mean of a spread, if there is one."""
    return None if found is None else found.mean


def points(title: str, lines: Iterable[str]) -> str:
    """A list in Markdown below its title, each line once; nothing of no lines.

    >>> print(points("What was run:", ["digits", "digits"]))
    What was run:
    <BLANKLINE>
    - digits
    """
    found = [f"- {line}" for line in dict.fromkeys(lines)]
    return "\n".join([title, "", *found]) if found else ""


def what_was_run(parts: Iterable[Part]) -> str:
    """The notes of all parts."""
    return points("What was run:", [note for part in parts for note in part.notes()])


def paragraphs(*texts: str) -> str:
    """Markdown of paragraphs; empty ones are left out."""
    return "\n\n".join(filter(None, texts)) + "\n"
