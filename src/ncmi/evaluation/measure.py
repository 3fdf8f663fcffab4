"""``measure``: CMI, Γ, NCMI and centroid accuracy of any labelled features, whatever network made them.

Shapes: N samples, B of a piece, C classes, D feature width.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ncmi.checks import check_features, check_sizes, check_temperature, choose
from ncmi.evaluation.features import LabelledFeatures
from ncmi.evaluation.information import CHUNK, ClassSums, class_mean_log_density, terms
from ncmi.functional import ClassStatistics, SimplexPoint, feature_point, kl_to_centroids
from ncmi.functional.simplex import Simplex


class Measurement(NamedTuple):
    """What labelled features are worth by themselves.

    ``samples``, ``num_classes`` (those that occur) and ``num_features``: N, C and D.
    ``cmi``, ``gamma``, ``ncmi``: Eqs. 5–8; ``ncmi`` is ``None`` where Γ is zero.
    ``centroid_accuracy``: share of the samples whose nearest class mean is that of their own class, in [0, 1].
    """

    samples: int
    num_classes: int
    num_features: int
    cmi: float
    gamma: float
    ncmi: float | None
    centroid_accuracy: float


class _Map(NamedTuple):
    """Features to points of the simplex, in float64."""

    center: Tensor | None
    temperature: float
    simplex: Simplex

    def __call__(self, features: Tensor) -> SimplexPoint:
        return feature_point(features.double(), self.center, self.temperature, self.simplex)


@torch.no_grad()
def measure(
    part: LabelledFeatures,
    train: LabelledFeatures | None = None,
    *,
    simplex: Simplex = "nsf",
    temperature: float = 0.2,
    center: Literal["mean", "none"] = "mean",
) -> Measurement:
    """CMI, Γ, NCMI (Eqs. 5–8) and nearest-class-mean accuracy of labelled features, in float64.

    Centre and class means are those of ``train``; without it they are those of ``part`` itself, and the accuracy is that of
    samples that took part in the means. Labels may be any integers. Sets that came with class names are matched by name; a
    class that ``train`` lacks cannot be decided for.

    Args:
        part: the features to measure.
        train: features of the training set, by the same network.
        simplex: ``"nsf"``, or ``"softmax"`` for the ablation.
        temperature: τ; 0.2 is the loss's default.
        center: ``"mean"`` subtracts the mean feature, ``"none"`` nothing.

    >>> features = torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.9, 0.1]])
    >>> measurement = measure(LabelledFeatures(features, torch.tensor([0, 0, 1, 1])))
    >>> measurement.centroid_accuracy, round(measurement.ncmi, 4)
    (1.0, 0.0019)
    """
    choose("measure", "simplex", simplex, ("nsf", "softmax"))
    choose("measure", "center", center, ("mean", "none"))
    temperature = check_temperature("measure", temperature)
    for given in (part,) if train is None else (part, train):
        check_features("measure", given.features, part.num_features)
        if not len(given):
            raise ValueError("measure: there is no sample. Pass features of two or more classes.")
    part, train, num_classes = _matched(part, train)
    check_sizes("measure", num_classes, part.num_features)
    reference = part if train is None else train
    mean = reference.features.double().mean(dim=0) if center == "mean" else None
    mapping = _Map(mean, temperature, simplex)
    statistics = _statistics(part, mapping, num_classes)
    means = statistics if train is None else _statistics(train, mapping, num_classes)
    cmi, gamma, ratio = terms(statistics)
    return Measurement(
        len(part),
        num_classes,
        part.num_features,
        cmi,
        gamma,
        ratio if math.isfinite(ratio) else None,
        _accuracy(part, mapping, means),
    )


def _statistics(part: LabelledFeatures, mapping: _Map, num_classes: int) -> ClassStatistics:
    sums = ClassSums(num_classes, part.num_features, part.features.device)
    for features, targets in part.chunks(CHUNK):
        sums.add(mapping(features), targets)
    return sums.statistics


def _accuracy(part: LabelledFeatures, mapping: _Map, reference: ClassStatistics) -> float:
    centroids, known, right = class_mean_log_density(reference), reference.counts > 0, 0
    for features, targets in part.chunks(CHUNK):
        divergence = torch.where(known, kl_to_centroids(mapping(features), centroids), torch.inf)
        right += int((divergence.argmin(dim=1) == targets).sum())
    return right / len(part)


def _matched(
    part: LabelledFeatures, train: LabelledFeatures | None
) -> tuple[LabelledFeatures, LabelledFeatures | None, int]:
    """Both sets with the classes that occur numbered from 0, the same number for the same class, and how many there are."""
    if train is None:
        classes, rows = part.targets.unique(return_inverse=True)
        return LabelledFeatures(part.features, rows), None, len(classes)
    if bool(train.class_names) != bool(part.class_names):
        raise ValueError(
            "measure: labels of both sets must be of one kind; those of one are names and those of the other numbers. Use "
            "the same labels in both."
        )
    targets = train.targets
    if train.class_names:
        position = {name: index for index, name in enumerate(dict.fromkeys(part.class_names + train.class_names))}
        targets = torch.tensor([position[name] for name in train.class_names], device=targets.device)[targets]
    classes, rows = torch.cat([part.targets, targets]).unique(return_inverse=True)
    own, other = rows.split([len(part), len(train)])
    return LabelledFeatures(part.features, own), LabelledFeatures(train.features, other), len(classes)
