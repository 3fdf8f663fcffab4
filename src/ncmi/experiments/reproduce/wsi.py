"""``table-wsi``: four slide models with cross-entropy and with NCMI, by linear probe (Tab:WSIresults)."""

from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce.item import HARMONIC, Item, Piece, Place, Scale
from ncmi.experiments.reproduce.paper_numbers import WSI
from ncmi.experiments.reproduce.parts import FITTED, PROBE, STANDS, Part, paragraphs, points, read_parts, what_was_run
from ncmi.experiments.statistics import Interval, paired_difference
from ncmi.experiments.table import markdown_table, percent_difference

_MODELS = ["abmil", "transmil", "aem", "asmil"]
_LOSSES = ["ce", "ncmi"]
_SCORES = {"macro_f1": "macro F1", "macro_auc": "macro AUC"}
# The decisions of the sentences; all of them are in the tables of the parts.
_DECISIONS = {PROBE: "linear probe", "own": "own decision", FITTED: "fitted centroids beside the linear probe of ce"}


def comparisons(scale: Scale) -> dict[str, Comparison]:
    """The trainings, one part for each data set; ASMIL alone is clipped, as published, where the recipe does not."""
    if scale == "full":
        parts = {}
        for data in ("camelyon17", "bracs"):
            recipe, clipped = f"wsi/{data}", ["optimizer.clip_norm=5.0"]
            parts[data] = Comparison(recipe, {"model": _MODELS[:3], "loss": _LOSSES}, 5, [1e-4])
            parts[f"{data}-asmil"] = Comparison(recipe, {"model": ["asmil"], "loss": _LOSSES}, 5, [1e-4], clipped)
        return parts
    if scale == "small":  # those of results/compare, whose rows are taken over
        return {
            data: Comparison(f"wsi/{data}", {"model": _MODELS, "loss": _LOSSES}, 5, overrides=[HARMONIC])
            for data in ("tcga-lung", "tcga-brca")
        }
    overrides = ["scale=smoke", "epochs=1"]
    return {"musk1": Comparison("mil/musk1", {"model": ["abmil"], "loss": _LOSSES}, 2, [1e-3], overrides)}


def needs(scale: Scale) -> list[str]:
    """What lies in the folders of data."""
    return {
        "full": ["It needs features of CAMELYON-17 and BRACS in the data folder, as docs/slides.md describes."],
        "small": ["It needs the TCGA lung and breast bags, unless all rows are there."],
        "smoke": ["It needs mil/musk1.npz in the data folder."],
    }[scale]


def piece(place: Place) -> Piece:
    """The table, what NCMI changes for each model, and what was run."""
    parts = read_parts(ITEM, place)
    header = ["data", "model", "loss", "LP, macro F1", "LP, macro AUC", "own, macro F1", "own, macro AUC"]
    header += ["LP, macro F1 − ce", "LP, macro AUC − ce"]
    header += [f"paper, {data}: F1 / AUC" for data in ("CAMELYON-17", "BRACS")] if place.scale != "full" else ["paper"]
    body = [
        line
        for name, part in parts.items()
        for model in part.comparison.factors["model"]
        for loss in _LOSSES
        for line in [_line(name.removesuffix("-asmil"), part, model, loss, place.scale)]
    ]
    standings = [
        f"{name.removesuffix('-asmil')}, {title}: {sentence}"
        for name, part in parts.items()
        for decision, title in _DECISIONS.items()
        for sentence in [_standing(part, decision)]
        if sentence
    ]
    seeds = max(part.comparison.seeds for part in parts.values())
    return Piece(
        paragraphs(
            markdown_table(header, body, left=3),
            f"Test part at the last epoch in %, mean ± standard deviation over {seeds} splits; differences to ce with the same "
            "model, paired by split, with 95 % t intervals. LP is a linear probe on the bag's vector; own is the head for ce "
            "and the nearest centroid for ncmi.",
            _beside_the_paper(place.scale),
            points(STANDS, standings),
            what_was_run(parts.values()),
        ),
        {},
    )


def _line(data: str, part: Part, model: str, loss: str, scale: Scale) -> list[str]:
    cells = [part.cell(decision, score, model=model, loss=loss) for decision in (PROBE, "own") for score in _SCORES]
    seeds = part.comparison.seeds
    for score in _SCORES:
        cells.append("–" if loss == "ce" else percent_difference(_difference(part, model, PROBE, score), seeds))
    shown = [data] if scale == "full" else ["camelyon17", "bracs"]
    return [data, model, loss, *cells, *("{:.1f} / {:.1f}".format(*WSI[name][model, loss]) for name in shown)]


def _difference(part: Part, model: str, decision: str, score: str) -> Interval | None:
    with_ncmi, with_ce = (part.by_seed(decision, score, model=model, loss=loss) for loss in ("ncmi", "ce"))
    if decision == FITTED:  # after training, as a probe is
        with_ce = part.by_seed(PROBE, score, model=model, loss="ce")
    return paired_difference(with_ncmi, with_ce)


def _standing(part: Part, decision: str) -> str | None:
    """For how many models NCMI is ahead of cross-entropy and behind it, and how many of these intervals leave out zero."""
    found = []
    for score, title in _SCORES.items():
        differences = [_difference(part, model, decision, score) for model in part.comparison.factors["model"]]
        known = [difference for difference in differences if difference is not None]
        if not known:
            return None
        ahead = sum(difference.mean > 0 for difference in known)
        clear = [difference for difference in known if _leaves_out_zero(difference)]
        better = sum(difference.mean > 0 for difference in clear)
        found.append(
            f"{title} is higher with NCMI for {ahead} of {len(known)} models; intervals that leave out zero: {better} higher, "
            f"{len(clear) - better} lower"
        )
    return f"{'. '.join(found)}."


def _leaves_out_zero(difference: Interval) -> bool:
    low, high = difference.low, difference.high
    return low is not None and high is not None and (low > 0 or high < 0)


def _beside_the_paper(scale: Scale) -> str:
    claim = "In the paper NCMI is higher for every model, on both data sets and by both scores."
    if scale == "full":
        return (
            f"{claim} Its features, validation parts and the epoch it evaluates are not those of these recipes: here the last "
            "epoch counts, and no patient is divided. The recipe's objective is `theorem1` with a memory."
        )
    return (
        f"The last columns are the paper's numbers, on CAMELYON-17 and BRACS, whose slides cannot be had here. Data, classes "
        f"and budget are others, so the numbers cannot be compared; only the signs of differences can. {claim}"
    )


ITEM = Item("table-wsi", "Whole slides: four models with cross-entropy and with NCMI", comparisons, piece, needs=needs)
