"""``objective-study``: ours: which objective and settings the default has, and how far it is ahead of cross-entropy where."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from statistics import fmean

from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce.item import Item, Piece, Place, Scale
from ncmi.experiments.reproduce.objective_baselines import BASELINES, baseline_comparisons, baseline_paragraphs
from ncmi.experiments.reproduce.objective_batches import BATCHES, batch_comparisons, batch_paragraphs
from ncmi.experiments.reproduce.objective_search import (
    HARMONIC,
    RATIOS,
    SEARCHES,
    search_comparisons,
    search_paragraphs,
)
from ncmi.experiments.reproduce.parts import FITTED, PROBE, Part, paragraphs, points, read_parts, what_was_run
from ncmi.experiments.rows import validation_score
from ncmi.experiments.statistics import Interval, paired_difference, spread
from ncmi.experiments.table import markdown_table, percent, percent_difference

_PAIR = {"loss": ["ce", "ncmi"]}
_FINALISTS = ["ncmi", HARMONIC]
_FINAL = {"loss": ["ce", *_FINALISTS]}
_DECISIONS = ("own", FITTED, PROBE)
_FASTER = ["engine.channels_last=true"]  # by half and more on a CPU


# Where a run takes a minute or less, all seeds choose the rate: one run finds the best by chance, most of all on bags, whose
# validation parts have about ninety slides.
def _short(recipe: str, seeds: int, *, model: str = "", overrides: Sequence[str] = ()) -> Comparison:
    factors = {"model": [model], **_FINAL} if model else _FINAL
    return Comparison(recipe, factors, seeds, overrides=list(overrides), rate_seeds=seeds)


# Where the default stands against cross-entropy: a title for each part, and its trainings.
_SETS: dict[str, tuple[str, Callable[[], Comparison]]] = {
    "cifar100": (
        "CIFAR-100, 20,000 images, 15 epochs, D = 128",
        partial(Comparison, "cifar100/medium", _FINAL, 5),
    ),
    "cifar100-short": ("CIFAR-100, 10,000 images, 8 epochs, D = 128", partial(Comparison, "cifar100/small", _FINAL, 3)),
    "cifar100-long": (
        "CIFAR-100, 20,000 images, 60 epochs, D = 128",
        # The rate that all three losses have chosen for a quarter of the epochs.
        partial(Comparison, "cifar100/medium", _PAIR, 1, [0.3], ["epochs=60"]),
    ),
    "narrow": (
        "CIFAR-100, 10,000 images, 8 epochs, D = 64 < C",
        partial(_short, "cifar100/small", 3, overrides=["model=resnet8_slim", *_FASTER]),
    ),
    "wide": (
        "CIFAR-100, 10,000 images, 8 epochs, twice as wide, D = 256",
        # The rate that cross-entropy and harmonic have chosen at half the width.
        partial(Comparison, "cifar100/small", _FINAL, 3, [0.3], ["model.options.width=32", *_FASTER]),
    ),
    "fashion-mnist": ("Fashion-MNIST, 10,000 images, MLP", partial(_short, "fashion-mnist/small", 3)),
    "digits": ("digits, MLP", partial(_short, "digits", 5)),
    "tcga-lung": ("TCGA lung bags, ten splits", partial(_short, "wsi/tcga-lung", 10, model="abmil")),
    "tcga-brca": ("TCGA breast bags, ten splits", partial(_short, "wsi/tcga-brca", 10, model="abmil")),
}


@cache
def comparisons(scale: Scale) -> Mapping[str, Comparison]:
    """The trainings; the study has one scale beside the trial. Made once: they hold hundreds of configs."""
    if scale == "smoke":
        return {"digits": Comparison("digits", _PAIR, 2, [0.1], ["scale=smoke", "epochs=1", "data.train_size=256"])}
    # Ratios are so far behind that one seed and the rate of the others say it.
    ratios = {"ratios": Comparison("cifar100/medium", {"loss": RATIOS}, 1, [0.3])}
    sets = {name: make() for name, (_, make) in _SETS.items()}
    return {
        **sets,
        **ratios,
        **baseline_comparisons(),
        **batch_comparisons(_FINAL),
        **search_comparisons(),
    }


def needs(scale: Scale) -> list[str]:
    """Data, and what the scale means."""
    if scale == "smoke":
        return []
    return [
        "It needs CIFAR-100, Fashion-MNIST and the TCGA bags, for what has no rows yet. Scale full is scale small: the study "
        "has one protocol."
    ]


def piece(place: Place) -> Piece:
    """The margins over cross-entropy, the search, and what was run."""
    parts = read_parts(ITEM, place)
    compared = {name: part for name, part in parts.items() if name in _SETS and _has(part, "ncmi")}
    left = [_title(name) for name, part in parts.items() if not (_has(part, "ncmi") if name in _SETS else part.rows)]
    return Piece(
        paragraphs(
            "**The default against cross-entropy.** Scores on the test set in %, differences in points and paired by seed, "
            "with 95 % t intervals. They are to the better of cross-entropy's head and probe, by their means on the test set; "
            "those of fitted centroids to the best of cross-entropy's three decisions.",
            _margins(compared) if compared else "",
            points("What the intervals say:", _verdicts(compared)),
            points("Not run yet, or not at every rate that the best one is chosen from:", left),
            *_objectives(parts["cifar100"], parts["ratios"]),
            *_finalists(parts),
            *baseline_paragraphs(parts),
            *batch_paragraphs(parts, _FINALISTS),
            *search_paragraphs(parts),
            what_was_run(part for part in parts.values() if part.rows),
        ),
        {},
    )


def _margins(parts: Mapping[str, Part]) -> str:
    header = ["set", "score", "n", "ce, head", "ce, fitted", "ce, probe", "ncmi, own", "ncmi, fitted", "ncmi, probe"]
    header += ["own − ce", "fitted − ce", "probe − ce"]
    body = []
    for name, part in parts.items():
        for score, title in _scores(part).items():
            cells = [
                part.cell(decision, score, **_factors(part, loss)) for loss in ("ce", "ncmi") for decision in _DECISIONS
            ]
            n = len(part.by_seed("own", score, **_factors(part, "ncmi")))
            differences = [percent_difference(found, n) for found in _differences(part, score).values()]
            body.append([_title(name), title, str(n), *cells, *differences])
    return markdown_table(header, body, left=2)


def _objectives(main: Part, ratios: Part) -> list[str]:
    """What the objectives reach in the longest trainings, as far as they have run; nothing of the default alone.

    Args:
        main: has the finalists and cross-entropy.
        ratios: has the others.
    """
    shown = [
        (part, plan) for part in (main, ratios) for plan in part.plans if plan.runs and plan.factors["loss"] != "ce"
    ]
    if all(plan.factors["loss"] == "ncmi" for _, plan in shown):
        return []
    body = []
    for part, plan in shown:
        count = len(plan.runs)
        cells = [percent(part.spread(decision, "top1", **plan.factors), count) for decision in _DECISIONS]
        found = _differences_to(
            main, "top1", {decision: part.by_seed(decision, "top1", **plan.factors) for decision in _DECISIONS}
        )
        differences = [percent_difference(difference, count) for difference in found.values()]
        body.append([plan.factors["loss"], f"{plan.chosen:g}", str(count), *cells, *differences])
    header = ["objective", "rate", "n", "own", "fitted", "probe", "own − ce", "fitted − ce", "probe − ce"]
    return [f"**The objectives.** {_title('cifar100')}; scores and differences as above.", markdown_table(header, body)]


def _finalists(parts: Mapping[str, Part]) -> list[str]:
    """The two best objectives of the search in whole trainings, by validation; nothing before a set has both."""
    body, ahead = [], dict.fromkeys(_FINALISTS, 0)
    for name, part in parts.items():
        plans = {plan.factors["loss"]: plan for plan in part.plans if plan.runs}
        if name not in _SETS or not all(loss in plans for loss in _FINALISTS):
            continue
        scores = {
            loss: {seed: validation_score(row) or 0.0 for seed, row in plans[loss].runs.items()} for loss in _FINALISTS
        }
        n = part.comparison.seeds
        cells = [percent(spread(list(found.values())), n) for found in scores.values()]
        first, second = scores.values()
        ahead[max(scores, key=lambda loss: fmean(scores[loss].values()))] += 1
        body.append([_title(name), str(n), *cells, percent_difference(paired_difference(second, first), n)])
    if not body:
        return []
    return [
        "**The finalists.** The default and `harmonic` in whole trainings, each at its own best rate. Own decision "
        "on the validation part: top-1 in %, on bags the mean of macro F1 and macro AUC.",
        markdown_table(["set", "n", *_FINALISTS, "harmonic − ncmi"], body),
        f"Ahead: {', '.join(f'{loss} on {count}' for loss, count in ahead.items())} of {len(body)}.",
    ]


def _differences(part: Part, score: str) -> dict[str, Interval | None]:
    """By decision of the default: its score minus cross-entropy's, see :func:`_differences_to`."""
    own = {decision: part.by_seed(decision, score, **_factors(part, "ncmi")) for decision in _DECISIONS}
    return _differences_to(part, score, own)


def _differences_to(part: Part, score: str, ours: Mapping[str, dict[int, float]]) -> dict[str, Interval | None]:
    """By decision: scores by seed minus those of cross-entropy's head or probe in ``part``, the better one by its mean.

    Fitted centroids have a counterpart that few would use. It is a third one for them.
    """
    ce = {decision: part.by_seed(decision, score, **_factors(part, "ce")) for decision in _DECISIONS}
    means = {
        decision: found.mean
        for decision, values in ce.items()
        if len(values) == len(ce["own"]) and (found := spread(list(values.values())))
    }

    def best(among: Sequence[str]) -> dict[int, float]:
        return ce[max(among, key=lambda decision: means.get(decision, float("-inf")))]

    return {
        decision: paired_difference(values, best(_DECISIONS if decision == FITTED else ("own", PROBE)))
        for decision, values in ours.items()
    }


def _verdicts(parts: Mapping[str, Part]) -> list[str]:
    """Which intervals lie beside zero."""
    lines = {"above": [], "below": []}
    for name, part in parts.items():
        for score, title in _scores(part).items():
            for decision, found in _differences(part, score).items():
                if found is not None and found.low is not None and found.high is not None:
                    what = f"{_title(name)} ({decision}, {title})"
                    lines["above"] += [what] if found.low > 0 else []
                    lines["below"] += [what] if found.high < 0 else []
    return [f"wholly {side} zero: {'; '.join(found) or 'none'}." for side, found in lines.items()]


def _has(part: Part, loss: str) -> bool:
    """Whether a loss has run at every rate that its own is chosen from."""
    return any(plan.runs for plan in part.plans if plan.factors["loss"] == loss)


def _title(name: str) -> str:
    if name in BATCHES:
        return BATCHES[name].title
    if name in BASELINES:
        return f"every baseline, {BASELINES[name].title}"
    if name in SEARCHES:
        return f"the search, {SEARCHES[name][0]}"
    if name == "ratios":
        return "ratios of means, and the published objective"
    return _SETS[name][0] if name in _SETS else name.replace("-", " ")


def _factors(part: Part, loss: str) -> dict[str, str]:
    """The group of a loss; a part has one network."""
    return {**{key: values[0] for key, values in part.comparison.factors.items()}, "loss": loss}


def _scores(part: Part) -> dict[str, str]:
    return {"macro_f1": "macro F1", "macro_auc": "macro AUC"} if part.comparison.kind.folds else {"top1": "top-1"}


ITEM = Item("objective-study", "The default and cross-entropy", comparisons, piece, needs=needs)
