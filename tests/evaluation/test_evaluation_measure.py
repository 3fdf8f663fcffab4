"""measure against loops, with and without a training set, and with labels of any kind."""

import sys

import oracle
import pytest
import torch
from evaluated import C, D, blobs

from ncmi.evaluation import LabelledFeatures, Measurement, measure

SIMPLEX = {"nsf": oracle.nsf, "softmax": oracle.softmax}


def by_loops(features, targets, train=None, train_targets=None, *, center, temperature, simplex):
    reference = features if train is None else train
    labels = targets if train is None else train_targets
    mean = sum(reference) / len(reference) if center == "mean" else None
    points = oracle.points(features, mean, temperature, SIMPLEX[simplex])
    anchors = oracle.points(reference, mean, temperature, SIMPLEX[simplex])
    mass = oracle.one_hot(targets, C)
    means = oracle.class_means(anchors, oracle.one_hot(labels, C))
    right = 0
    for p, y in zip(points, targets.tolist(), strict=True):
        distances = {v: float(oracle.kl(p, s)) for v, s in enumerate(means) if s is not None}
        right += min(distances, key=lambda v, distances=distances: distances[v]) == y
    cmi, gamma = float(oracle.cmi(points, mass)), float(oracle.gamma(points, mass))
    return Measurement(len(targets), C, D, cmi, gamma, cmi / gamma, right / len(targets))


@pytest.mark.parametrize("simplex", ["nsf", "softmax"])
@pytest.mark.parametrize("center", ["mean", "none"])
@pytest.mark.parametrize("with_train", [False, True])
def test_equals_loops(monkeypatch, simplex, center, with_train):
    monkeypatch.setattr(sys.modules["ncmi.evaluation.measure"], "CHUNK", 7)
    settings = {"simplex": simplex, "center": center, "temperature": 0.3}
    features, targets = blobs(26, spread=2.0, dtype=torch.float64)
    train = blobs(31, spread=2.0, seed=5, dtype=torch.float64) if with_train else ()
    found = measure(LabelledFeatures(features, targets), LabelledFeatures(*train) if train else None, **settings)
    expected = by_loops(features, targets, *train, **settings)
    assert found == pytest.approx(expected, rel=1e-10)
    assert 0.3 < found.centroid_accuracy < 1


def test_labels_may_be_any_integers():
    features, targets = blobs(20)
    plain = measure(LabelledFeatures(features, targets))
    other = measure(LabelledFeatures(features, torch.tensor([-3, 7, 100, 2])[targets]))
    assert other == pytest.approx(plain, rel=1e-12)
    assert plain.num_classes == C


def test_sets_with_names_are_matched_by_name():
    features, targets = blobs(40, spread=0.1)
    train = LabelledFeatures(features, targets, ("ant", "bee", "cat", "dog"))
    # The test file lacks ants, so its own numbers are other ones.
    few = targets > 0
    test = LabelledFeatures(features[few], targets[few] - 1, ("bee", "cat", "dog"))
    found = measure(test, train)
    assert (found.centroid_accuracy, found.num_classes, found.samples) == (1.0, 4, 30)


def test_a_class_that_training_lacks_cannot_be_decided_for():
    features, targets = blobs(40, spread=0.01)
    train = LabelledFeatures(features, targets).rows((targets != 1).nonzero().flatten())
    assert measure(LabelledFeatures(features, targets), train).centroid_accuracy == 0.75


def test_collapsed_features_have_no_ncmi():
    found = measure(LabelledFeatures(torch.ones(6, 4), torch.arange(6) % 2))
    assert found.ncmi is None
    assert found.gamma == pytest.approx(0, abs=1e-12)
    assert found.centroid_accuracy == 0.5


def test_guards():
    features, targets = blobs(8)
    part = LabelledFeatures(features, targets)
    with pytest.raises(ValueError, match="simplex must be one of"):
        measure(part, simplex="nfs")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="center must be one of"):
        measure(part, center="ema")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="temperature must be positive"):
        measure(part, temperature=-1.0)
    with pytest.raises(ValueError, match="there is no sample"):
        measure(part.rows(torch.arange(0)))
    with pytest.raises(ValueError, match="num_classes must be at least 2"):
        measure(part.rows(torch.tensor([0, 4])))
    with pytest.raises(ValueError, match=r"features must have shape \(B, 6\)"):
        measure(part, LabelledFeatures(features[:, :5], targets))
    with pytest.raises(ValueError, match="labels of both sets must be of one kind"):
        measure(part, LabelledFeatures(features, targets, ("a", "b", "c", "d")))
    with pytest.raises(ValueError, match="must be finite"):
        measure(LabelledFeatures(features * torch.inf, targets))
