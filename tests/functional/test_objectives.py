import oracle
import pytest
import torch
from batches import SIZES, hard_labels, normal, soft_labels
from hypothesis import given
from torch.autograd import gradcheck

from ncmi.functional import (
    FeaturePoints,
    SimplexPoint,
    centroid,
    class_statistics,
    cmi,
    feature_point,
    gamma,
    harmonic,
    harmonic_logits,
    kl_divergence,
    log_density,
    released,
    simplex_point,
    theorem1,
)

B, C, D = 9, 4, 5
LABELS = {"hard": hard_labels(B, C), "soft": soft_labels(B, C)}
WEIGHTS = {"plain": None, "weighted": torch.linspace(0.2, 3, B).double()}
PRIOR = torch.tensor([0.5, 0.125, 0.125, 0.25]).double()


@pytest.fixture
def points():
    return feature_point(normal(B, D))


@pytest.fixture
def centroids():
    return simplex_point(2 * normal(C, D, seed=1))


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("labels", LABELS)
def test_ratios_equal_the_equations(points, centroids, labels, weight):
    targets, weight = LABELS[labels], WEIGHTS[weight]
    mass, _ = oracle.label_mass(targets, C)
    mass = mass if weight is None else mass * weight[:, None]
    statistics = class_statistics(points, targets, C, weight)
    p, q = points.probs, centroids.probs
    cases = [
        (theorem1(statistics, centroids), oracle.theorem1(p, mass, q)),
        (centroid(statistics, centroids), oracle.centroid(p, mass, q)),
        (centroid(statistics, centroids, prior=PRIOR), oracle.centroid(p, mass, q, PRIOR)),
    ]
    for ratio, expected in cases:
        torch.testing.assert_close(tuple(ratio), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("labels", LABELS)
def test_per_sample_objectives_equal_the_equations(points, centroids, labels):
    targets = LABELS[labels]
    mass, _ = oracle.label_mass(targets, C)
    p, q = points.probs, centroids.probs
    torch.testing.assert_close(released(points, centroids, targets), oracle.released(p, mass, q), rtol=0, atol=1e-10)
    for exponent in (1.0, 2.5, 8.0):
        expected = oracle.harmonic(p, mass, q, exponent)
        torch.testing.assert_close(harmonic(points, centroids, targets, exponent), expected, rtol=0, atol=1e-10)


def test_harmonic_logits_equal_the_equation(points, centroids):
    divergences = [[oracle.kl(p, q) for q in centroids.probs] for p in points.probs]
    for exponent in (1.0, 2.5, 8.0):
        expected = -exponent * torch.tensor(divergences).double().log()
        torch.testing.assert_close(harmonic_logits(points, centroids, exponent), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("maps", [(feature_point, simplex_point), (FeaturePoints, log_density)], ids=["points", "lazy"])
def test_gradients(labels, maps):
    targets, (of_features, of_xi) = LABELS[labels], maps
    inputs = normal(B, D).requires_grad_(), (2 * normal(C, D, seed=1)).requires_grad_()

    def ratio(function, **options):
        def value(features, xi):
            statistics = class_statistics(of_features(features), targets, C)
            return tuple(function(statistics, of_xi(xi), **options))

        return value

    def losses(function):
        return lambda features, xi: function(of_features(features), of_xi(xi), targets)

    assert gradcheck(ratio(theorem1), inputs)
    assert gradcheck(ratio(centroid), inputs)
    assert gradcheck(ratio(centroid, prior=PRIOR), inputs)
    assert gradcheck(losses(released), inputs)
    assert gradcheck(losses(harmonic), inputs)


@given(SIZES)
def test_theorem1_differs_from_ncmi_by_the_divergence_of_q_from_s(sizes):
    batch, num_classes = sizes["batch"], sizes["num_classes"]
    points = feature_point(normal(batch, sizes["num_features"], seed=sizes["seed"]))
    xi = 2 * normal(num_classes, sizes["num_features"], seed=sizes["seed"] + 1)
    for targets in (hard_labels(batch, num_classes, sizes["seed"]), soft_labels(batch, num_classes, sizes["seed"])):
        statistics = class_statistics(points, targets, num_classes)
        ratio = theorem1(statistics, simplex_point(xi))
        present = statistics.counts > 0
        n, total = statistics.counts[present], statistics.counts.sum()
        s = statistics.prob_sum[present] / n[:, None]
        excess = kl_divergence(s.log(), simplex_point(xi).log_probs[present])
        torch.testing.assert_close(ratio.concentration, cmi(statistics) + (n / total) @ excess, rtol=0, atol=1e-13)
        shrink = (n * (total - n) / total**2) @ excess
        torch.testing.assert_close(ratio.separation, gamma(statistics) - shrink, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_harmonic_is_finite_on_a_centroid(dtype):
    xi = (3 * normal(C, D)).to(dtype).requires_grad_()
    logits = xi.detach()[[0, 1, 2]].clone().requires_grad_()
    losses = harmonic(simplex_point(logits), simplex_point(xi), torch.tensor([0, 1, 3]))
    losses.sum().backward()
    assert bool(losses.isfinite().all())
    assert float(losses[:2].detach().max()) < 1e-6  # on the right one
    assert float(losses[2].detach()) > 10  # on a wrong one
    for tensor in (logits, xi):
        assert tensor.grad is not None
        assert bool(tensor.grad.isfinite().all())


def test_equal_centroids_cost_ln_c():
    points = feature_point(normal(B, D))
    same = simplex_point(normal(1, D).expand(C, D))
    losses = harmonic(points, same, LABELS["hard"])
    torch.testing.assert_close(losses, torch.full((B,), float(torch.tensor(4.0).log())).double(), rtol=1e-6, atol=0)


def test_soft_one_hot_labels_equal_hard_labels(points, centroids):
    hard = LABELS["hard"]
    soft = oracle.one_hot(hard, C)
    for function in (released, harmonic):
        torch.testing.assert_close(function(points, centroids, hard), function(points, centroids, soft))
    for function in (theorem1, centroid):
        values = [tuple(function(class_statistics(points, t, C), centroids)) for t in (hard, soft)]
        torch.testing.assert_close(values[0], values[1], rtol=1e-12, atol=1e-14)


def test_an_absent_class_does_not_touch_theorem1(points, centroids):
    targets = LABELS["hard"].clamp(max=2)
    q = SimplexPoint(centroids.probs, centroids.log_density.clone())
    q.log_density[3] = 100.0
    statistics = class_statistics(points, targets, C)
    torch.testing.assert_close(tuple(theorem1(statistics, q)), tuple(theorem1(statistics, centroids)))
