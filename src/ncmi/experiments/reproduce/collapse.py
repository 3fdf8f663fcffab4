"""``figure-collapse``: NSF or softmax, with or without centring, followed through training (fig:cluster_training).

Shapes: N samples, C classes, D feature width.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ncmi.evaluation import LabelledFeatures
from ncmi.experiments.reproduce.collapse_pictures import draw_centers, draw_clusters, draw_curves
from ncmi.experiments.reproduce.followed_run import Look, follow
from ncmi.experiments.reproduce.item import Item, Piece, Place, Scale
from ncmi.experiments.reproduce.measured import MeasuredRows, Row, machine_sentence, nothing_yet
from ncmi.experiments.reproduce.parts import paragraphs, points
from ncmi.experiments.table import markdown_table
from ncmi.recipes import read_recipe
from ncmi.training.config import Config, make_config
from ncmi.training.monitor import Diverged

_CLASSES, _SAMPLES = 3, 20  # that are drawn
_MOMENTS = (0.3, 0.6, 1.0)  # of training, at which they are drawn: epochs 60, 120 and 200 of 200
_PERPLEXITY = 15.0
_NEARER = 5.0  # degrees by which a centre must be nearer to the constant direction to be called so


class Setting(NamedTuple):
    """One of the four settings, under an objective."""

    objective: str
    simplex: str
    center: str

    @property
    def title(self) -> str:
        """As the paper calls it."""
        centred = "with centring" if self.center == "ema" else "without centring"
        return f"{'NSF' if self.simplex == 'nsf' else 'softmax'}, {centred}"

    def config(self, scale: Scale) -> Config:
        """The run at a scale."""
        recipe, overrides = _SCALES[scale]
        options: dict[str, Any] = {"objective": self.objective, "simplex": self.simplex, "center": self.center}
        if self.objective == "released":  # the published script's centroids and rate
            options |= {"centroids": "fixed", "centroids_start": "axis"}
            overrides = [*overrides, "optimizer.lr=0.1"]
        if scale == "full" and self.center == "ema":
            options["center_momentum"] = 0.999999
        values = {**read_recipe(recipe), "loss": {"name": "ncmi", "options": options}}
        return make_config(values, overrides, owner=f"recipe {recipe}")


_SCALES: dict[Scale, tuple[str, list[str]]] = {
    "smoke": ("digits", ["scale=smoke", "epochs=3"]),
    "small": ("cifar100/small", ["epochs=6", "data.train_size=5000"]),
    "full": ("cifar100/resnet18", ["data.validation=5000"]),
}


def settings(scale: Scale) -> list[Setting]:
    """The four settings under the published script's objective; where runs are short, under ``harmonic`` too."""
    objectives = ["released"] if scale == "full" else ["released", "harmonic"]
    return [
        Setting(objective, simplex, center)
        for objective in objectives
        for simplex in ("nsf", "softmax")
        for center in ("ema", "none")
    ]


def measure(place: Place) -> None:
    """Follow the settings that have no rows yet; the rows of a setting come together."""
    file = MeasuredRows(place.out)
    for setting in settings(place.scale):
        if not file.has(**setting._asdict()):
            file.add(follow_setting(setting, setting.config(place.scale)))
            place.say(f"figure-collapse: {setting.objective}, {setting.title}")


def follow_setting(setting: Setting, config: Config) -> list[Row]:
    """The rows of a setting: one an epoch, and one that says why it ended early if it diverged."""
    rows: list[Row] = []
    drawn = {max(1, round(share * config.epochs)) for share in _MOMENTS}
    about = {**setting._asdict(), "title": setting.title, "epochs": config.epochs, "rate": config.optimizer.lr}
    try:
        for look in follow(config):
            rows.append({**about, "epoch": look.row["epoch"], **describe(look)})
            if look.row["epoch"] in drawn:
                rows[-1] |= embed(look)
    except Diverged as error:
        rows.append({**about, "epoch": len(rows) + 1, "failed": str(error)})
    return rows


def describe(look: Look) -> Row:
    """The numbers of an epoch: information, accuracy, where the centres are, and how many entries outputs use.

    ``feature_center`` and ``loss_center``: the part of the mean feature, and of what the loss subtracts, along the constant
    direction (1, …, 1)/√D, and the length of the rest. ``entries``: exp of the mean entropy of outputs, over D; 1 if all
    entries are equal, 1/D if one holds everything.
    """
    features = look.features.features.double()
    with torch.no_grad():
        points = look.criterion.points(features.to(next(look.criterion.buffers()).device)).probs.cpu()
    entropy = -torch.special.xlogy(points, points).sum(dim=1).mean()
    names = ("cmi", "gamma", "ncmi", "top1")
    return {
        **{name: look.row[f"validation_{name}"] for name in names},
        "feature_center": _place(features.mean(dim=0)),
        "loss_center": None if look.center is None else _place(look.center.double()),
        "entries": round(math.exp(float(entropy)) / points.shape[1], 6),
    }


def _place(center: Tensor) -> list[float]:
    along = center.sum() / math.sqrt(len(center))
    return [round(float(along), 4), round(float((center.square().sum() - along.square()).clamp_min(0).sqrt()), 4)]


def embed(look: Look) -> Row:
    """t-SNE coordinates of some samples of three classes, and of the constant vectors of both signs, which come last.

    They are what the map sees: features minus the loss's centre, divided by their length.
    """
    from sklearn.manifold import TSNE

    part, classes = choose_samples(look.features)
    centred = part.features.double() - (0 if look.center is None else look.center.double())
    unit = centred / centred.norm(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    constant = torch.full((1, unit.shape[1]), 1 / math.sqrt(unit.shape[1]), dtype=torch.float64)
    everything = torch.cat([unit, constant, -constant]).numpy()
    perplexity = min(_PERPLEXITY, (len(everything) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(everything)
    return {
        "classes": [look.class_names[label] for label in classes],
        "labels": [classes.index(label) for label in part.targets.tolist()],
        "points": [[round(float(x), 1), round(float(y), 1)] for x, y in found],
    }


def choose_samples(features: LabelledFeatures) -> tuple[LabelledFeatures, list[int]]:
    """The first samples of three classes that a fixed seed draws, and these classes."""
    count = int(features.targets.max()) + 1
    classes = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:_CLASSES].tolist()
    chosen = [(features.targets == label).nonzero().flatten()[:_SAMPLES] for label in classes]
    return features.rows(torch.cat(chosen)), classes


def piece(place: Place) -> Piece:
    """The three pictures, the last epoch in numbers, and whether the paper's claims show in them."""
    rows = MeasuredRows(place.out).rows()
    epochs = [row for row in rows if "failed" not in row]
    if not epochs:
        return Piece(nothing_yet("figure-collapse"), {})
    objectives = list(dict.fromkeys(row["objective"] for row in epochs))
    last = [row for row in epochs if row["epoch"] == row["epochs"]]
    header = [
        "objective", "setting", "rate", "CMI", "Γ", "NCMI", "top-1, %", "entries used, %",
        "angle of the feature centre to (1, …, 1)", "angle of the loss's centre",
    ]  # fmt: skip
    text = [
        "![CMI, Γ, NCMI and accuracy over training](curves.svg)",
        "![t-SNE of three classes](clusters.svg)",
        "![Paths of the centres](centers.svg)",
        markdown_table(header, [_line(row) for row in last], left=2),
        _about(place.scale, epochs[0]["epochs"]),
        points("What the rows say:", [line for objective in objectives for line in _findings(objective, last)]),
        points(
            "What failed:", [f"{row['objective']}, {row['title']}: {row['failed']}" for row in rows if "failed" in row]
        ),
        machine_sentence(rows),
    ]
    figures = {
        "curves": draw_curves(epochs),
        "clusters": draw_clusters([row for row in epochs if row["objective"] == objectives[0] and "points" in row]),
        "centers": draw_centers(epochs),
    }
    return Piece(paragraphs(*text), figures)


def angle(place: Sequence[float]) -> float:
    """Degrees between a centre, given by its parts along and off the constant direction, and that direction.

    >>> angle([1.0, 1.0]), angle([-1.0, 0.0])
    (45.0, 180.0)
    """
    return math.degrees(math.atan2(place[1], place[0]))


def _line(row: Row) -> list[str]:
    ratio = "–" if row["ncmi"] is None else f"{row['ncmi']:.3g}"
    own = "–" if row["loss_center"] is None else f"{angle(row['loss_center']):.0f}°"
    return [
        row["objective"], row["title"], f"{row['rate']:g}", f"{row['cmi']:.3g}", f"{row['gamma']:.3g}", ratio,
        f"{100 * row['top1']:.2f}", f"{100 * row['entries']:.1f}", f"{angle(row['feature_center']):.0f}°", own,
    ]  # fmt: skip


def _findings(objective: str, last: Sequence[Row]) -> list[str]:
    """Whether the paper's claims show at the last epoch, by rule; nothing while a setting is missing."""
    found = {(row["simplex"], row["center"]): row for row in last if row["objective"] == objective}
    if len(found) < 4:
        return [f"{objective}: {len(found)} of 4 settings came to their last epoch, so the claims are not judged."]
    best = max(found.values(), key=lambda row: row["top1"])
    both = found["nsf", "ema"]
    first = (
        f"{objective}: NSF with centring is the most accurate of the four, as the paper claims "
        f"({100 * both['top1']:.2f} %)."
        if best is both
        else f"{objective}: that NSF with centring is the most accurate does not show here: {best['title']} is, with "
        f"{100 * best['top1']:.2f} % against {100 * both['top1']:.2f} %."
    )
    angles = {key: angle(row["feature_center"]) for key, row in found.items()}
    names = {"nsf": "NSF", "softmax": "softmax"}
    nearer = [simplex for simplex in names if angles[simplex, "none"] - angles[simplex, "ema"] >= _NEARER]
    verdict = "shows" if len(nearer) == 2 else f"shows for {names[nearer[0]]} alone" if nearer else "does not show"
    pairs = ", ".join(
        f"{names[simplex]} {angles[simplex, 'ema']:.0f}° with and {angles[simplex, 'none']:.0f}° without"
        for simplex in names
    )
    second = f"{objective}: that centring keeps feature centres near the constant direction {verdict} ({pairs})."
    fewer = all(found["softmax", center]["entries"] < found["nsf", center]["entries"] for center in ("ema", "none"))
    used = {key: f"{100 * row['entries']:.1f} %" for key, row in found.items()}
    third = (
        f"{objective}: that outputs of softmax are dominated by fewer entries than those of NSF "
        f"{'shows' if fewer else 'does not show'}: {used['softmax', 'ema']} of the entries against {used['nsf', 'ema']} with "
        f"centring, {used['softmax', 'none']} against {used['nsf', 'none']} without."
    )
    return [first, second, third]


def _about(scale: Scale, epochs: int) -> str:
    recipe, overrides = _SCALES[scale]
    own = "" if scale == "full" else ", so that numbers cannot be compared, only the order of the settings"
    return (
        f"`{recipe}` with {', '.join(f'`{override}`' for override in overrides)}, one seed, measured on the validation part "
        f"after each of {epochs} epochs. `released` has the published script's objective, fixed centroids and rate; "
        "`harmonic` is a third of this package's default. The paper's figure is ResNet-18 on all of CIFAR-100 for 200 epochs, "
        "and its "
        f"source has no numbers{own}. It shows paths of centres by t-SNE; here they are drawn by their part along the constant "
        "direction (1, …, 1)/√D and the length of the rest, which no embedding bends. A centre counts as nearer from "
        f"{_NEARER:g}° on. t-SNE is of features of `released` minus the loss's "
        "centre at unit length, what the map sees; distances between groups in it mean little. Entries used: exp of the mean "
        "entropy of outputs, as a share of D."
    )


def _needs(scale: Scale) -> list[str]:
    chosen = settings(scale)
    epochs = chosen[0].config(scale).epochs
    found = [f"Its {len(chosen)} runs of {epochs} epochs are trained by the measurements, one after the other."]
    return found if scale == "smoke" else [*found, "It needs CIFAR-100 (`ncmi doctor` says where it is looked for)."]


ITEM = Item(
    "figure-collapse",
    "NSF and centring through training",
    comparisons=lambda scale: {},
    piece=piece,
    measure=measure,
    needs=_needs,
)
