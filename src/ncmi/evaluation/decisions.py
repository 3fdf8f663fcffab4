"""Ways to decide on features: the criterion's own, nearest class mean or fitted centroid, linear probe, nearest neighbours.

Shapes: N training samples, B samples, C classes, D feature width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ncmi.data.splits import stratified_subset
from ncmi.evaluation.features import LabelledFeatures
from ncmi.evaluation.information import CHUNK, class_mean_log_density
from ncmi.evaluation.knn import KNNClassifier
from ncmi.evaluation.protocol import Criterion, device_of
from ncmi.functional import ClassStatistics, kl_to_centroids
from ncmi.heads.nearest import LabelledPoints, choose_centroids
from ncmi.heads.probe import LinearProbe

_FITTED_NUMBERS = 2**28  # an exact fit holds its features several times in float64: 2 GB each at this size
_NEIGHBOURS = 20
_LEAVE_ONE_OUT = 2**14  # training samples whose neighbours are looked for; all would cost N²·D


@dataclass(frozen=True)
class Decision:
    """A fitted way to decide.

    Args:
        source: what decides, in words.
        scores: features (B, D) to scores (B, C) whose softmax are probabilities, after a temperature if one is needed.
        needs_temperature: whether the scores are divergences, whose scale must be fitted.
        note: what a reader of its numbers must know.
        training_scores: scores and classes of the training set, piece by piece, where its samples must not see themselves.
    """

    source: str
    scores: Callable[[Tensor], Tensor]
    needs_temperature: bool = False
    note: str = ""
    training_scores: Callable[[], Iterator[tuple[Tensor, Tensor]]] | None = None


@dataclass(frozen=True)
class Fitting:
    """What a way to decide can be fitted with: training features, their class statistics under the map, validation features."""

    criterion: Criterion
    train: LabelledFeatures
    statistics: ClassStatistics
    seed: int
    validation: LabelledFeatures | None = None


def own(fitting: Fitting) -> Decision:
    """The criterion's own decision, as it was trained."""
    criterion = fitting.criterion
    return Decision(criterion.decision, criterion.scores, criterion.probabilities_need_temperature)


def class_means(fitting: Fitting) -> Decision:
    r"""The nearest class mean :math:`s^y` of the training set (Eq. 6) in :math:`D(p_x\|s^y)`, under the criterion's map."""
    centroids = _class_means(fitting, "class means")
    return Decision("class means", partial(_centroid_scores, fitting.criterion, centroids), needs_temperature=True)


def fitted_centroids(fitting: Fitting) -> Decision:
    """The nearest of the centroids that decide best on the training features, as :meth:`ncmi.CentroidClassifier.fit` has them.

    They start from the criterion's centroids; where it has none, from the class means under its map. How far they may go is
    chosen on the validation part; without one, on a part of the training features that is held out for the choice.
    """
    start = fitting.criterion.centroids
    start = _class_means(fitting, "fitted centroids") if start is None else start.double()
    train, note = _fitted_part(fitting)
    data = _labelled_points(fitting.criterion, train)
    validation = None if fitting.validation is None else _labelled_points(fitting.criterion, fitting.validation)
    centroids, strength = choose_centroids(start, data, validation, seed=fitting.seed)
    note = "; ".join(filter(None, [note, f"strength {strength:.2g}"]))
    scores = partial(_centroid_scores, fitting.criterion, centroids)
    return Decision("fitted centroids", scores, needs_temperature=True, note=note)


def linear_probe(fitting: Fitting) -> Decision:
    """The exact :class:`ncmi.LinearProbe` of the training features, or of a stratified part of a very large set."""
    train, note = _fitted_part(fitting)
    probe = LinearProbe(fitting.criterion.num_classes, train.num_features).to(device_of(fitting.criterion))
    return Decision("linear probe", probe.fit(train.features, train.targets, seed=fitting.seed), note=note)


def knn(fitting: Fitting) -> Decision:
    """The vote of the 20 nearest training samples; on the training set each sample is decided on without itself."""
    train, notes = fitting.train, []
    if len(train) < 2:
        raise ValueError("evaluate: neighbours need two or more training samples. Leave 'knn' out.")
    k = min(_NEIGHBOURS, len(train) - 1)
    if k < _NEIGHBOURS:
        notes.append(f"k = {k}, all that {len(train)} training samples have")
    device = device_of(fitting.criterion)
    classifier = KNNClassifier(fitting.criterion.num_classes, train.num_features, k)
    classifier.fit(train.features.to(device), train.targets.to(device))
    indices = None
    if len(train) > _LEAVE_ONE_OUT:
        indices = stratified_subset(train.targets, _LEAVE_ONE_OUT, fitting.seed)
        notes.append(f"train on a stratified part, {_LEAVE_ONE_OUT} of {len(train)} samples")
    notes.append("train by leave-one-out")

    def training_scores() -> Iterator[tuple[Tensor, Tensor]]:
        for votes, targets in classifier.leave_one_out(indices):
            yield votes.log(), targets

    # The softmax of ln(votes) is the share of votes.
    return Decision(
        f"{k} nearest neighbours",
        lambda features: classifier.scores(features).log(),
        note="; ".join(notes),
        training_scores=training_scores,
    )


DECISIONS: dict[str, Callable[[Fitting], Decision]] = {
    "own": own,
    "class means": class_means,
    "fitted centroids": fitted_centroids,
    "linear probe": linear_probe,
    "knn": knn,
}


def _class_means(fitting: Fitting, decision: str) -> Tensor:
    """The class means (C, D) of the training features as log-densities; a sentence if a class has none."""
    missing = (fitting.statistics.counts == 0).nonzero().flatten().tolist()
    if missing:
        raise ValueError(
            f"evaluate: {decision} need training samples of every class; there is none of {missing[:10]}"
            f"{' and others' if len(missing) > 10 else ''}. Pass the whole training set, or leave {decision!r} out."
        )
    return class_mean_log_density(fitting.statistics)


def _fitted_part(fitting: Fitting) -> tuple[LabelledFeatures, str]:
    """The training features that an exact fit can hold, and what is to be said of it."""
    train, most = fitting.train, max(1, _FITTED_NUMBERS // fitting.train.num_features)
    if len(train) <= most:
        return train, ""
    part = train.rows(stratified_subset(train.targets, most, fitting.seed))
    return part, f"fitted on a stratified part, {most} of {len(train)} training samples"


def _labelled_points(criterion: Criterion, part: LabelledFeatures) -> LabelledPoints:
    device = device_of(criterion)
    pieces = [criterion.points(features.to(device).double()).probs for features, _ in part.chunks(CHUNK)]
    return LabelledPoints(torch.cat(pieces), part.targets.to(device))


def _centroid_scores(criterion: Criterion, log_density: Tensor, features: Tensor) -> Tensor:
    """Scores (B, C): minus the divergence from each centroid."""
    points = criterion.points(features)
    return -kl_to_centroids(points, log_density.to(points.probs))
