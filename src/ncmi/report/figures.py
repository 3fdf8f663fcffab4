"""Numbers behind the charts of a report, as plain lists that JSON can hold.

Shapes: N samples, n of a choice of them, C classes, S classes that are shown.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ncmi.evaluation import Outputs
from ncmi.evaluation.calibration import confidence_error, confidence_reliability
from ncmi.report.curves import PANELS, Curve, Panel, panel_curves, spans_a_decade
from ncmi.report.records import RunRecord

LEVELS = 9  # shades of a matrix
_MOST_CLASSES = 120  # beyond, a matrix shows the classes with most mistakes
_PAIRS = 12
_ITERATIONS = 500


class Pair(NamedTuple):
    """Two classes: how often the first was decided as the second, as a share of the first, and how far they are apart."""

    first: str
    second: str
    count: int
    share: float
    divergence: float


class ClassAccuracy(NamedTuple):
    """A class with its right decisions among all its samples."""

    name: str
    right: int
    count: int


class Inside(NamedTuple):
    """What a run's outputs show: class by class, pair by pair, and the two matrices over the classes in ``names``."""

    names: list[str]
    accuracies: list[ClassAccuracy]
    confused: list[Pair]
    nearest: list[Pair]
    confusion: dict[str, Any]
    distances: dict[str, Any] | None

    def matrices(self) -> dict[str, Any]:
        """Both matrices by name."""
        return {"confusion": self.confusion, "distances": self.distances}


def curve_charts(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """The panels of :func:`ncmi.report.curves.draw_curves` with a series for each run; empty if no run has an epoch."""
    places = {run.name: place for place, run in enumerate(runs)}
    charts = []
    for panel in PANELS:
        curves = panel_curves(panel, {run.name: run.rows for run in runs})
        factor = 100 if panel.percent else 1
        series = [
            {
                "run": places[curve.run],
                "name": panel.series[curve.key] if len(panel.series) > 1 else "",
                "dashed": curve.key != next(iter(panel.series)),
                "points": [
                    [epoch, rounded(factor * value)]
                    for epoch, value in zip(curve.epochs, curve.values, strict=True)
                    if math.isfinite(value)
                ],
            }
            for curve in curves
        ]
        if series:
            log = panel.may_be_log and spans_a_decade(curves)
            charts.append(
                {"title": panel.title, "x": "epoch", "log": log, "keys": _keys(panel, curves), "series": series}
            )
    return charts


def calibration_chart(runs: Sequence[RunRecord]) -> dict[str, Any] | None:
    """Accuracy over confidence for each run with outputs, 15 bins, with the number of samples in each."""
    series = []
    for place, run in enumerate(runs):
        if run.outputs is None:
            continue
        right = run.outputs.decisions == run.outputs.targets
        bins = zip(*(values.tolist() for values in confidence_reliability(run.outputs.confidences, right)), strict=True)
        series.append(
            {
                "run": place,
                "name": "",
                "dashed": False,
                "points": [[rounded(100 * x), rounded(100 * y), n] for x, y, n in bins if n],
                "confidence": run.outputs.confidences.double().mean().item(),
                "accuracy": right.double().mean().item(),
                "error": confidence_error(run.outputs.confidences, right),
            }
        )
    title = "Accuracy over confidence, %"
    return {"title": title, "x": "confidence, %", "square": True, "series": series} if series else None


def look_inside(outputs: Outputs) -> Inside:
    """Confusions, accuracies and distances of classes; classes that are alike stand side by side."""
    num_classes = len(outputs.class_names)
    counts = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    counts.index_put_((outputs.targets.long(), outputs.decisions.long()), torch.tensor(1), accumulate=True)
    distances = _symmetric(outputs.divergences, num_classes)
    shown = _shown(counts, distances)
    names = [outputs.class_names[place] for place in shown]
    sizes = counts.sum(dim=1)[shown]
    counts, distances = counts[shown][:, shown], distances[shown][:, shown]
    shares = counts / sizes.unsqueeze(1).clamp_min(1)
    known = len(names) > 1 and bool(distances.isfinite().any())
    each_class = zip(names, counts.diagonal().tolist(), sizes.tolist(), strict=True)
    accuracies = [ClassAccuracy(name, right, size) for name, right, size in each_class if size]
    return Inside(
        names=names,
        accuracies=sorted(accuracies, key=lambda each: (each.right / each.count, each.name)),
        confused=_pairs(names, counts, shares, distances, counts, both=False),
        nearest=_pairs(names, counts, shares, distances, -distances, both=True) if known else [],
        confusion={"levels": _levels((LEVELS - 1) * shares.sqrt()), "values": counts.flatten().tolist()},
        distances=_distance_matrix(distances) if known else None,
    )


def embed(outputs: Outputs, names: Sequence[str], seed: int = 0) -> list[list[float]] | None:
    """t-SNE (van der Maaten and Hinton 2008) of the kept features: x and y in [0, 1], class and decision of each sample.

    A class is its place in ``names``; samples of other classes are left out, and a decision for one is −1.
    ``None`` where there is nothing to spread: fewer than five samples, or features that are all equal.
    """
    from sklearn.manifold import TSNE

    places = {name: place for place, name in enumerate(names)}
    number = [places.get(name, -1) for name in outputs.class_names]
    sample = [place for place in outputs.sample.tolist() if number[outputs.targets[place]] >= 0]
    chosen = torch.isin(outputs.sample, torch.tensor(sample, dtype=outputs.sample.dtype))
    features = outputs.features[chosen].float().numpy()
    if len(features) < 5 or not (features != features[0]).any():
        return None
    perplexity = min(30.0, (len(features) - 1) / 3)
    start = "pca" if min(features.shape) > 1 and np.linalg.matrix_rank(features - features.mean(0)) > 1 else "random"
    spread = TSNE(perplexity=perplexity, init=start, max_iter=_ITERATIONS, random_state=seed).fit_transform(features)
    low, high = spread.min(axis=0), spread.max(axis=0)
    spread = (spread - low) / np.maximum(high - low, np.finfo(np.float32).tiny)
    return [
        [round(float(x), 4), round(float(y), 4), number[outputs.targets[place]], number[outputs.decisions[place]]]
        for (x, y), place in zip(spread, sample, strict=True)
    ]


def rounded(value: float) -> float:
    """Five digits: as many as a hover shows, so that a page stays small.

    >>> rounded(0.123456789)
    0.12346
    """
    return float(f"{value:.5g}")


def _keys(panel: Panel, curves: Sequence[Curve]) -> list[str]:
    """What solid and dashed lines are, where a panel has both."""
    found = [name for key, name in panel.series.items() if any(curve.key == key for curve in curves)]
    return found if len(found) > 1 else []


def _symmetric(divergences: Tensor, num_classes: int) -> Tensor:
    """Half the sum of both divergences (C, C); NaN where they are not known."""
    if len(divergences) != num_classes:
        return torch.full((num_classes, num_classes), math.nan)
    return (divergences + divergences.T) / 2


def _shown(counts: Tensor, distances: Tensor) -> list[int]:
    """Which classes, so ordered that neighbours are alike: by distance, or by confusion where distances are not known."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    mistakes = counts.sum(dim=1) - counts.diagonal()
    chosen = mistakes.argsort(descending=True, stable=True)[:_MOST_CLASSES].sort().values
    if len(chosen) < 3:
        return chosen.tolist()
    apart = distances[chosen][:, chosen].double()
    if not bool(apart.isfinite().all()):
        mixed = (counts + counts.T)[chosen][:, chosen].double()
        apart = 1 / (1 + mixed)
    apart = apart.sqrt().fill_diagonal_(0)
    tree = linkage(squareform(apart.numpy(), checks=False), "average", optimal_ordering=True)
    return chosen[torch.from_numpy(leaves_list(tree).astype(np.int64))].tolist()


def _distance_matrix(distances: Tensor) -> dict[str, Any]:
    """Shades by rank, so that close pairs can be told apart whatever the scale: the closest are the darkest."""
    size = len(distances)
    off = ~torch.eye(size, dtype=torch.bool) & distances.isfinite()
    ranks = torch.zeros(size, size)
    values, place = distances[off].unique(return_inverse=True)  # equal distances have equal shades
    ranks[off] = place / max(1, len(values) - 1)
    levels = torch.where(off, (LEVELS - 1) * (1 - ranks) ** 2, 0.0)
    values = [rounded(value) if math.isfinite(value) else None for value in distances.flatten().tolist()]
    return {"levels": _levels(levels), "values": values}


def _levels(shades: Tensor) -> str:
    """Shades in [0, 8] as a digit a cell, row by row; what is not zero gets at least 1."""
    return "".join(map(str, shades.ceil().clamp(0, LEVELS - 1).int().flatten().tolist()))


def _pairs(names: list[str], counts: Tensor, shares: Tensor, distances: Tensor, by: Tensor, both: bool) -> list[Pair]:
    """The pairs of different classes that are first ``by`` (S, S); ``both`` takes a pair and its mirror as one."""
    size = len(names)
    allowed = torch.ones(size, size, dtype=torch.bool).triu(1) if both else ~torch.eye(size, dtype=torch.bool)
    allowed &= by.isfinite() if both else counts > 0
    rows, columns = allowed.nonzero(as_tuple=True)
    order = by[rows, columns].argsort(descending=True, stable=True)[:_PAIRS].tolist()
    pairs = []
    for i, j in ((int(rows[place]), int(columns[place])) for place in order):
        count = int(counts[i, j] + counts[j, i]) if both else int(counts[i, j])
        pairs.append(Pair(names[i], names[j], count, float(shares[i, j]), float(distances[i, j])))
    return pairs
