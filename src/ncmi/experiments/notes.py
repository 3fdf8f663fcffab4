"""What the reader of a comparison's table must know, in sentences that are made from the rows."""

import math
from typing import Any

from ncmi.experiments.cells import Comparison
from ncmi.experiments.losses import loss_notes
from ncmi.experiments.plan import Plan
from ncmi.experiments.rows import Row, distinct, score_by_seed
from ncmi.experiments.statistics import spread


def make_notes(comparison: Comparison, plans: list[Plan], reference: str | None) -> list[str]:
    """The notes below a table, each a paragraph.

    Args:
        comparison: the whole.
        plans: of all its groups.
        reference: the loss that there are differences to, if it is among those compared.
    """
    losses = dict.fromkeys(plan.factors["loss"] for plan in plans if "loss" in plan.factors)
    return [
        setting(comparison, [row for plan in plans for row in plan.runs.values()]),
        _scores(comparison, reference),
        _coverage(comparison, plans, reference),
        "Seconds: training in the fastest run at any rate, without validation and evaluation; other work on the machine slows "
        "runs. Peak memory: the largest of the runs, whole process, data in memory included; on a GPU, its tensors.",
        _rates(comparison, plans),
        *(note for loss in losses for note in loss_notes(loss, comparison.base)),
        *(remark for plan in plans for remark in remarks(plan)),
        *unfinished(plans),
    ]


def setting(comparison: Comparison, rows: list[Row]) -> str:
    """What was run, and on what."""
    base = comparison.base
    parts = [f"`{comparison.recipe}`", *(f"`{override}`" for override in comparison.overrides)]
    parts += [f"scale {base.scale}", f"{base.epochs} epoch{'s' if base.epochs > 1 else ''}"]
    if samples := distinct(rows, "train_samples"):
        count = str(samples[0]) if len(samples) == 1 else f"{min(samples)} to {max(samples)}"
        parts.append(f"{count} training samples")
    parts += [str(name) for name in distinct(rows, "processor")]
    parts += [f"{threads} thread{'s' if threads > 1 else ''} a run" for threads in distinct(rows, "threads")]
    parts += [f"torch {version}" for version in distinct(rows, "torch")]
    commits = list(dict.fromkeys(_short(commit) for row in rows for commit in row.get("commits", [])))
    if commits:
        parts.append(f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}")
    return f"{', '.join(parts)}."


def _scores(comparison: Comparison, reference: str | None) -> str:
    about = f"Test set at the last epoch: {comparison.kind.shown} in %, mean ± standard deviation over n seeds."
    if reference is None:
        return about
    others = [key for key in comparison.factors if key != "loss"]
    same = f" with the same {' and '.join(others)}" if others else ""
    return f"{about} Differences are to {reference}{same}, paired by seed, with 95 % t intervals."


def _coverage(comparison: Comparison, plans: list[Plan], reference: str | None) -> str:
    """What deviations and intervals cover, and what not."""
    sentences = [f"Deviations and intervals are over {comparison.kind.covered}."]
    if len(comparison.rates) > 1:
        count = comparison.rate_seeds
        sentences.append(
            "Seed 0 has chosen the rate, and counts."
            if count == 1
            else f"Seeds 0 to {count - 1} have chosen the rate, and count."
        )
    errors = [error for plan in plans if (error := _sampling_error(comparison, plan)) is not None]
    if errors:
        sentences.append(
            f"Another test set of the same size would move an accuracy by about ±{100 * max(errors):.2f} points (one standard "
            "deviation)."
        )
    if reference is not None:
        sentences.append("Intervals are not corrected for the number of comparisons.")
    return " ".join(sentences)


def _sampling_error(comparison: Comparison, plan: Plan) -> float | None:
    """The standard deviation √(p (1 − p) / N) of a share p of N samples; the largest of the columns that are compared."""
    errors = []
    for column in comparison.kind.columns:
        share = spread(list(score_by_seed(plan.runs, column.decision, column.score).values()))
        sizes = spread(list(score_by_seed(plan.runs, column.decision, "n").values()))
        if column.score == "top1" and column.compared and share is not None and sizes is not None:
            errors.append(math.sqrt(share.mean * (1 - share.mean) / sizes.mean))
    return max(errors, default=None)


def _rates(comparison: Comparison, plans: list[Plan]) -> str:
    def tried(plan: Plan) -> str:
        return ", ".join(
            f"{rate:g}{' (failed)' if any('failed' in row for row in plan.trials[rate].values()) else ''}"
            for rate in plan.rates
        )

    count = comparison.rate_seeds
    where = "at seed 0" if count == 1 else f"in the mean of seeds 0 to {count - 1}"
    how = f", chosen by {comparison.kind.criterion} on validation {where}, last epoch"
    return (
        f"Rates tried{how if len(comparison.rates) > 1 else ''}: "
        f"{'; '.join(f'{plan.title} {tried(plan)}' for plan in plans)}."
    )


def remarks(plan: Plan) -> list[str]:
    """What is not as expected of a group."""
    found = []
    for headline in distinct(plan.runs.values(), "headline"):
        if headline != "own":
            found.append(f"{plan.title} has no decision of its own and is judged by its {headline}, its rate too.")
    if plan.runs and len(plan.rates) > 1 and plan.chosen in (plan.rates[0], plan.rates[-1]):
        found.append(f"{plan.title}: the best rate is still at the end of those tried.")
    if plan.runs:
        found += [f"{plan.title}, seed {seed}, failed: {sentence}" for seed, sentence in plan.failures.items()]
    return found


def unfinished(plans: list[Plan]) -> list[str]:
    """A sentence about groups that have not come to their end."""
    titles = [plan.title for plan in plans if not plan.finished]
    return [f"Not finished: {', '.join(titles)}."] if titles else []


def _short(commit: Any) -> str:
    name, dash, state = str(commit).partition("-")
    return f"{name[:7]}{dash}{state}"
