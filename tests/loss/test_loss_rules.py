"""Corners with a stated rule: a denominator that is not positive, one class, one sample, equal rows."""

import warnings

import oracle
import pytest
import torch
from batches import OBJECTIVES, SIZES, hard_labels, normal
from hypothesis import given

from ncmi import NCMILoss
from ncmi.centroids import FixedCentroids, LearnedCentroids
from ncmi.functional import class_statistics, feature_point, gamma, ncmi

B, C, D = 8, 4, 6
FALLBACK = r"denominator was not positive.*fallback_steps counts such steps.*start='uniform'"


def negative_loss(objective="theorem1", **settings):
    """Centroids in the corners of the simplex and soft outputs: Theorem 1's denominator is negative."""
    loss = NCMILoss(C, D, objective, temperature=2.0, center="none", **settings).double()
    with torch.no_grad():
        loss.centroids.xi.copy_(40 * torch.eye(C, D) - 20)
    return loss


def test_negative_denominator_takes_gamma_counts_and_warns_once():
    loss, features, targets = negative_loss(), normal(B, D).requires_grad_(), hard_labels(B, C)
    p = torch.stack(oracle.points(features, temperature=2.0))
    mass, q = oracle.one_hot(targets, C), [oracle.nsf(row) for row in loss.centroids.xi.detach()]
    numerator, denominator = oracle.theorem1(p, mass, q)
    assert denominator < 0
    with pytest.warns(UserWarning, match=FALLBACK) as seen:
        value = loss(features, targets)
    assert len(seen) == 1
    expected = numerator / oracle.gamma(p, mass)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=0)
    (found,) = torch.autograd.grad(value, features)
    torch.testing.assert_close(found, torch.autograd.grad(expected, features)[0], rtol=1e-8, atol=1e-8)
    loss(features, targets)  # warnings are errors here: a second one would fail
    assert int(loss.fallback_steps) == 2


def test_steps_with_a_positive_denominator_are_not_counted():
    loss = NCMILoss(C, D, "theorem1").double()
    for seed in range(5):
        loss(normal(B, D, seed=seed), hard_labels(B, C, seed))
    assert int(loss.fallback_steps) == 0


def test_evaluation_neither_counts_nor_warns():
    loss = negative_loss().eval()
    assert float(loss(normal(B, D), hard_labels(B, C)).detach()) > 0
    assert int(loss.fallback_steps) == 0


def test_fallback_also_for_soft_labels_and_few_samples():
    for num_classes, targets in ((C, oracle.one_hot(hard_labels(B, C), C)), (D, hard_labels(4, C))):
        loss = NCMILoss(num_classes, D, "theorem1", temperature=2.0, center="none").double()
        with torch.no_grad():
            loss.centroids.xi.copy_(40 * torch.eye(num_classes, D) - 20)
        with pytest.warns(UserWarning, match=FALLBACK):
            assert float(loss(normal(len(targets), D), targets).detach()) > 0


@given(SIZES)
def test_theorem1_is_never_negative(sizes):
    batch, num_classes, width = sizes["batch"], sizes["num_classes"], sizes["num_features"]
    features, targets = normal(batch, width, seed=sizes["seed"]), hard_labels(batch, num_classes, sizes["seed"])
    for size in (0.1, 2.0, 30.0):
        loss = NCMILoss(num_classes, width, "theorem1").double()
        with torch.no_grad():
            loss.centroids.xi.copy_(size * normal(num_classes, width, seed=sizes["seed"] + 1))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="NCMILoss: the objective's denominator")
            value = loss(features, targets)
        assert float(value.detach()) >= 0
        assert bool(value.isfinite())


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("num_features", [16, 512])
def test_float32_loss_of_perfect_clusters_is_zero_to_rounding(objective, num_features):
    # Every sample sits on its centroid: the true loss is 0. What rounding leaves is far below any gradient's reach.
    targets = torch.arange(64) % C
    features = normal(C, num_features, dtype=torch.float32)[targets]
    for seed in range(5):
        loss = NCMILoss(C, num_features, objective, centroids="fixed")
        shuffled = features[:, torch.randperm(num_features, generator=torch.Generator().manual_seed(seed))]
        loss.start_from_class_means(shuffled, targets)
        assert abs(float(loss(shuffled, targets))) < 1e-5


@pytest.mark.parametrize("objective", ["theorem1", "centroid"])
@pytest.mark.parametrize("training", [True, False])
def test_one_class_gets_a_sentence_from_ratios(objective, training):
    loss = NCMILoss(C, D, objective).double().train(training)
    for batch in (1, 5):
        with pytest.raises(
            ValueError, match=r"samples of one class only\. Use larger or class-balanced batches, or.*'harmonic'"
        ):
            loss(normal(batch, D), torch.full((batch,), 2))


@pytest.mark.parametrize("objective", ["theorem1"])
def test_equal_outputs_get_a_sentence_from_ratios(objective):
    loss = NCMILoss(C, D, objective, center="none").double()
    with pytest.raises(ValueError, match=r"all its outputs are the same distribution"):
        loss(normal(1, D).expand(B, D), hard_labels(B, C))


@pytest.mark.parametrize("settings", [{}, {"prior": "uniform"}])
@pytest.mark.parametrize("objective", ["released", "harmonic", "rivals"])
@pytest.mark.parametrize("batch", [1, 5])
def test_one_class_is_fine_for_per_sample_objectives(objective, batch, settings):
    loss = NCMILoss(C, D, objective, **settings).double()
    features = normal(batch, D).requires_grad_()
    loss(features, torch.full((batch,), 2)).backward()
    assert features.grad is not None
    assert bool(features.grad.isfinite().all())


def test_one_class_is_fine_for_centroid_with_a_prior():
    # The prior puts all C centroids below the line, so a second class in the batch is not needed.
    loss, features, targets = NCMILoss(C, D, "centroid", prior="uniform").double(), normal(5, D), torch.full((5,), 2)
    prior = torch.full((C,), 1 / C, dtype=torch.float64)
    center, xi = features.mean(dim=0), loss.centroids.xi.detach()
    expected = oracle.loss("centroid", features, targets, xi, center=center, prior=prior)
    torch.testing.assert_close(loss(features, targets).detach(), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equal_rows_give_finite_gradients(objective):
    features = normal(2, D)[[0, 0, 0, 1, 1, 1]].requires_grad_()
    loss = NCMILoss(C, D, objective).double()
    loss(features, torch.tensor([0, 0, 0, 1, 1, 1])).backward()
    assert features.grad is not None
    assert bool(features.grad.isfinite().all())
    assert bool(loss.centroids.xi.grad.isfinite().all())


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_size_of_the_features_does_not_matter(objective, scale):
    torch.manual_seed(0)
    loss = NCMILoss(C, D, objective)
    torch.manual_seed(0)
    reference = NCMILoss(C, D, objective)
    features = (scale * normal(B, D)).float().requires_grad_()
    value = loss(features, hard_labels(B, C))
    expected = reference(normal(B, D).float(), hard_labels(B, C))
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-6)
    value.backward()
    assert features.grad is not None
    assert bool(features.grad.isfinite().all())


def test_a_row_equal_to_the_centre_gets_no_gradient():
    loss, features = NCMILoss(C, D).double(), normal(B, D)
    loss.center.set_mean(features[3])
    features.requires_grad_()
    loss(features, hard_labels(B, C)).backward()
    assert features.grad is not None
    assert bool((features.grad[3] == 0).all())
    assert bool((features.grad[[0, 1, 2]] != 0).any(dim=1).all())


def test_class_means_are_the_minimum_that_theorem1_reaches():
    features, targets = normal(24, D), torch.arange(24) % C
    loss = NCMILoss(C, D, "theorem1", centroids=FixedCentroids(C, D, start="class_means")).double()
    loss.start_from_class_means(features, targets)
    points = feature_point(features, features.mean(dim=0))
    terms = ncmi(class_statistics(points, targets, C))
    torch.testing.assert_close(loss(features, targets), terms.ncmi, rtol=0, atol=1e-12)
    assert float(gamma(class_statistics(points, targets, C))) > 0


def test_learned_uniform_start_has_a_positive_denominator():
    # Untrained ReLU features, 512 wide, 100 classes: what `theorem1` meets at its first step.
    features = (normal(128, 512, seed=1) @ normal(512, 512, seed=2)).relu().float()
    for temperature in (0.07, 0.2, 1.0):
        centroids = LearnedCentroids(100, 512, start="uniform", temperature=temperature)
        loss = NCMILoss(100, 512, "theorem1", temperature=temperature, centroids=centroids)
        loss(features, torch.arange(128) % 100)
        assert int(loss.fallback_steps) == 0
