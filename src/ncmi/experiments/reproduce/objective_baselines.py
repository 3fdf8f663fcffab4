"""The baselines of ``objective-study``: the default beside every other loss, each at its own best rate."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ncmi.criteria import list_criteria
from ncmi.experiments.cells import Comparison
from ncmi.experiments.losses import loss_views
from ncmi.experiments.reproduce.parts import PROBE, Part, points
from ncmi.experiments.statistics import Spread, mean_ranks, paired_difference
from ncmi.experiments.table import markdown_table, percent, percent_difference

DEFAULT = "ncmi"
_DECISIONS = {"own": "own decision", PROBE: "linear probe"}


class BaselineSet(NamedTuple):
    """A set that every loss is trained on.

    Args:
        title: what the table calls it.
        comparison: its trainings.
        score: what the table shows of them.
    """

    title: str
    comparison: Callable[[], Comparison]
    score: str = "top1"


def _losses() -> dict[str, list[str]]:
    return {"loss": list_criteria()}


def _bag_losses() -> dict[str, list[str]]:
    """Those that do with one view: a bag has no other."""
    return {"model": ["abmil"], "loss": [name for name in list_criteria() if loss_views(name) == 1]}


def _bags(recipe: str) -> Comparison:
    # Exact fits of class means and neighbours would take as long as the training.
    return Comparison(recipe, _bag_losses(), 3, overrides=[f"decisions=[own, {PROBE}]"], rate_seeds=3)


BASELINES = {
    "baselines-cifar100": BaselineSet("CIFAR-100", lambda: Comparison("cifar100/small", _losses(), 3)),
    "baselines-fashion-mnist": BaselineSet(
        "Fashion-MNIST", lambda: Comparison("fashion-mnist/small", _losses(), 3, rate_seeds=3)
    ),
    "baselines-digits": BaselineSet("digits", lambda: Comparison("digits", _losses(), 5, rate_seeds=5)),
    "baselines-tcga-lung": BaselineSet("lung bags, F1", partial(_bags, "wsi/tcga-lung"), "macro_f1"),
    "baselines-tcga-brca": BaselineSet("breast bags, F1", partial(_bags, "wsi/tcga-brca"), "macro_f1"),
}


def baseline_comparisons() -> dict[str, Comparison]:
    """The trainings."""
    return {name: found.comparison() for name, found in BASELINES.items()}


def baseline_paragraphs(parts: Mapping[str, Part]) -> list[str]:
    """All losses on all sets, and which of them the default is behind; nothing before every set has the default."""
    sets = {name: parts[name] for name in BASELINES}
    if not all(_spread(part, name, DEFAULT, "own") for name, part in sets.items()):
        return []
    return [
        "**Every baseline.** Test set in %, each loss at its own best rate: 10,000 images and 8 epochs of CIFAR-100, else the "
        "sets of the first table; three splits of the bags.",
        *(text for decision in _DECISIONS for text in _table(sets, decision)),
        points("Paired by seed, the default's interval against a baseline lies", _verdicts(sets)),
    ]


def _table(sets: Mapping[str, Part], decision: str) -> list[str]:
    """Losses by the mean of their ranks on the sets that they have."""
    scores = {
        loss: {name: found for name, part in sets.items() if (found := _spread(part, name, loss, decision))}
        for loss in list_criteria()
    }
    ranks = mean_ranks({loss: {name: found.mean for name, found in by_set.items()} for loss, by_set in scores.items()})
    body = [
        [
            loss,
            f"{ranks[loss]:.1f}",
            *(percent(scores[loss].get(name), part.comparison.seeds) for name, part in sets.items()),
        ]
        for loss in sorted(ranks, key=lambda loss: ranks[loss])
    ]
    header = [f"loss, {_DECISIONS[decision]}", "mean rank", *(BASELINES[name].title for name in sets)]
    return [markdown_table(header, body)]


def _verdicts(sets: Mapping[str, Part]) -> list[str]:
    """Which intervals of the default minus a baseline lie beside zero."""
    lines: dict[str, list[str]] = {"above": [], "below": []}
    for name, part in sets.items():
        for loss in list_criteria():
            for decision, title in _DECISIONS.items():
                ours, theirs = (_by_seed(part, name, which, decision) for which in (DEFAULT, loss))
                found = paired_difference(ours, theirs) if loss != DEFAULT else None
                if found is None or found.low is None or found.high is None or found.low <= 0 <= found.high:
                    continue
                side = "above" if found.low > 0 else "below"
                shown = percent_difference(found, part.comparison.seeds)
                lines[side].append(f"{BASELINES[name].title}, {title}, {loss} {shown}")
    above = len(lines["above"])
    return [
        f"wholly above zero {above} times;",
        f"wholly below zero {len(lines['below'])} times{': ' if lines['below'] else ''}{'; '.join(lines['below'])}.",
    ]


def _by_seed(part: Part, name: str, loss: str, decision: str) -> dict[int, float]:
    fixed = {key: values[0] for key, values in part.comparison.factors.items()}
    return part.by_seed(decision, BASELINES[name].score, **{**fixed, "loss": loss})


def _spread(part: Part, name: str, loss: str, decision: str) -> Spread | None:
    fixed = {key: values[0] for key, values in part.comparison.factors.items()}
    return part.spread(decision, BASELINES[name].score, **{**fixed, "loss": loss})
