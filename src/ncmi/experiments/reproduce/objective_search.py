"""The search of ``objective-study``: objectives and settings of ``harmonic``, one changed at a time, ranked by validation."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce.parts import PROBE, Part
from ncmi.experiments.rows import Row, validation_score
from ncmi.experiments.statistics import Spread, mean_ranks, spread
from ncmi.experiments.table import markdown_table, percent

HARMONIC = "ncmi:objective=harmonic"
RATIOS = [f"ncmi:objective={name}" for name in ("theorem1", "centroid", "released")]
_SEARCHED = {
    "loss": [
        "ncmi",
        HARMONIC,
        *(f"{HARMONIC}:exponent={k}" for k in (2, 4, 16)),
        *(f"{HARMONIC}:temperature={t}" for t in (0.1, 0.5)),
        *(f"{HARMONIC}:center={name}" for name in ("batch", "none")),
        *(f"{HARMONIC}:center_momentum={m}" for m in (0.9, 0.9999)),
        *(f"{HARMONIC}:centroids={name}" for name in ("ema", "fixed")),
        f"{HARMONIC}:centroids_start=axis",
        f"{HARMONIC}:simplex=softmax",
        *RATIOS,
        "ce",
    ]
}
# Other decisions would take as long to fit as these networks to train.
_CHEAP = ["data.train_size=5000", "epochs=5", "decisions=[own]"]
# By part: the set's title and its trainings, each at the rate that the default and cross-entropy share or the default's own.
SEARCHES: dict[str, tuple[str, Callable[[], Comparison]]] = {
    "search": ("CIFAR-100", partial(Comparison, "cifar100/small", _SEARCHED, 2, [0.3], _CHEAP)),
    "search-fashion-mnist": ("Fashion-MNIST", partial(Comparison, "fashion-mnist/small", _SEARCHED, 2, [0.1], _CHEAP)),
    "search-digits": ("digits", partial(Comparison, "digits", _SEARCHED, 3, [0.1])),
    "search-tcga-lung": (
        "lung bags",
        partial(Comparison, "wsi/tcga-lung", {"model": ["abmil"], **_SEARCHED}, 3, [0.003]),
    ),
    "search-tcga-brca": (
        "breast bags",
        partial(Comparison, "wsi/tcga-brca", {"model": ["abmil"], **_SEARCHED}, 3, [0.0003]),
    ),
}
_CENTROID_RATES = (0.1, 0.3, 3.0)
_LONG_CENTROID_RATES = (0.1, 3.0)  # at the length of the first part, where a slow ξ has time enough


def search_comparisons() -> dict[str, Comparison]:
    """The trainings of the search, those of ξ's rate among them."""
    parts = {name: make() for name, (_, make) in SEARCHES.items()}
    for rate in _CENTROID_RATES:
        overrides = [*_CHEAP, f"optimizer.centroid_lr={rate:g}"]
        parts[f"search-centroid-rate-{rate:g}"] = Comparison(
            "cifar100/small", {"loss": [HARMONIC]}, 2, [0.3], overrides
        )
    for rate in _LONG_CENTROID_RATES:
        overrides = [f"optimizer.centroid_lr={rate:g}"]
        parts[f"long-centroid-rate-{rate:g}"] = Comparison("cifar100/medium", {"loss": [HARMONIC]}, 1, [0.3], overrides)
    return parts


def search_paragraphs(parts: Mapping[str, Part]) -> list[str]:
    """What the search says, as far as it has come."""
    return [*_ranking(parts), *_centroid_rates(parts), *_long_centroid_rates(parts)]


def _ranking(parts: Mapping[str, Part]) -> list[str]:
    """Every setting's score on the validation part of each set, by its mean rank; nothing before every set has rows."""
    scores = {
        title: {
            plan.factors["loss"]: found
            for plan in parts[name].plans
            if (found := spread([validation_score(row) or 0.0 for row in plan.runs.values()]))
        }
        for name, (title, _) in SEARCHES.items()
    }
    everywhere = [loss for loss in _SEARCHED["loss"] if all(loss in found for found in scores.values())]
    if not everywhere:
        return []
    ranks = mean_ranks({loss: {title: found[loss].mean for title, found in scores.items()} for loss in everywhere})
    body = [
        [loss, f"{ranks[loss]:.1f}", *(percent(found[loss], found[loss].n) for found in scores.values())]
        for loss in sorted(everywhere, key=lambda loss: ranks[loss])
    ]
    return [
        f"**The search.** One setting of `harmonic` changed at a time, and the {len(everywhere)} settings ranked on the "
        "validation part of each set: by accuracy of the own decision in %, on bags by the mean of macro F1 and macro AUC. "
        "All run at one learning rate a set; CIFAR-100 and Fashion-MNIST with 5,000 images and 5 epochs. Equal scores share "
        "a rank.",
        markdown_table(["setting", "mean rank", *scores], body),
    ]


def _centroid_rates(parts: Mapping[str, Part]) -> list[str]:
    (base,) = (plan for plan in parts["search"].plans if plan.factors["loss"] == HARMONIC)
    lines = {"ξ's rate 1, the rule": list(base.runs.values())}
    lines |= {f"ξ's rate {rate:g}": parts[f"search-centroid-rate-{rate:g}"].rows for rate in _CENTROID_RATES}
    return _by_validation("**ξ's rate.** `harmonic`, 5,000 images of CIFAR-100, 5 epochs, rate 0.3", lines)


def _long_centroid_rates(parts: Mapping[str, Part]) -> list[str]:
    """At the rate and seed that all of them have, whichever rate is the default's best."""
    (base,) = (plan for plan in parts["cifar100"].plans if plan.factors["loss"] == HARMONIC)
    lines = {"ξ's rate 1, the rule": [row for row in base.trials.get(0.3, {}).values() if "failed" not in row]}
    lines |= {f"ξ's rate {rate:g}": parts[f"long-centroid-rate-{rate:g}"].rows for rate in _LONG_CENTROID_RATES}
    return _by_validation(
        "**ξ's rate in a longer training.** `harmonic`, 20,000 images, 15 epochs, rate 0.3, seed 0",
        lines,
        ["own", PROBE],
    )


def _by_validation(title: str, lines: Mapping[str, Sequence[Row]], decisions: Sequence[str] = ("own",)) -> list[str]:
    """A table of settings, best first, and what they reach by some decisions; nothing while a setting has no rows."""
    if not all(lines.values()):
        return []
    found = {name: [_accuracy(rows, decision) for decision in decisions] for name, rows in lines.items()}
    body = [
        [name, str(own.n), *(percent(each, own.n) for each in (own, *others))]
        for name, (own, *others) in sorted(found.items(), key=lambda line: line[1][0].mean, reverse=True)
    ]
    return [
        f"{title}; accuracy on the validation part.",
        markdown_table(["setting", "n", *decisions], body),
    ]


def _accuracy(rows: Sequence[Row], decision: str) -> Spread:
    found = spread([row["decisions"][decision]["validation"]["top1"] for row in rows])
    assert found is not None
    return found
