import pickle

import pytest
import torch
from batches import OBJECTIVES, hard_labels, normal

from ncmi import NCMILoss, PerSample, RatioOfMeans, WithRivals, functional, harmonic, rivals
from ncmi.functional import Ratio, kl_to_centroids
from ncmi.objective import make_objective

C, D = 4, 6


def squared_own(points, centroids, targets):
    divergence = kl_to_centroids(points, centroids.log_density)
    return divergence.gather(1, targets[:, None])[:, 0].square()


def only_concentration(statistics, centroids):
    ratio = functional.theorem1(statistics, centroids)
    return Ratio(ratio.concentration, torch.ones_like(ratio.separation))


@pytest.mark.parametrize("num_classes", [2, 100])
def test_exponent_is_eight_for_any_number_of_classes(num_classes):
    features = normal(6, D, dtype=torch.float32)
    for name, objective in {"harmonic": harmonic, "rivals": rivals}.items():
        by_name, given = (NCMILoss(num_classes, D, chosen).eval() for chosen in (name, objective(8.0)))
        given.load_state_dict(by_name.state_dict())
        assert torch.equal(by_name(features, hard_labels(6, 2)), given(features, hard_labels(6, 2)))


def test_exponent_must_be_positive():
    for exponent in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"exponent must be positive and finite; got"):
            harmonic(exponent)
        with pytest.raises(ValueError, match=r"rivals: exponent must be positive and finite; got"):
            rivals(exponent)


def test_a_bare_function_is_told_to_be_wrapped():
    with pytest.raises(TypeError, match=r"or a function wrapped in PerSample\(\.\.\.\)"):
        NCMILoss(3, 4, objective=functional.harmonic)


def test_print_names_the_objective():
    assert "rivals(exponent=8.0)" in repr(NCMILoss(100, 4))
    assert "harmonic(exponent=8.0)" in repr(NCMILoss(100, 4, "harmonic"))
    assert "theorem1" in repr(NCMILoss(3, 4, "theorem1"))


def test_each_objective_starts_where_it_can_start():
    for name in OBJECTIVES:
        xi = NCMILoss(C, D, name).centroids.xi
        assert bool((xi == 0).all()) == (name == "theorem1"), name


def test_new_logits_against_rivals_are_one_function():
    def products(points, centroids):
        return points.probs @ centroids.log_density.T

    loss = NCMILoss(C, D, WithRivals(products), center="none").double()
    assert "products" in repr(loss)
    features, targets = normal(6, D).requires_grad_(), hard_labels(6, C)
    value = loss(features, targets)
    value.backward()
    logits = products(loss.points(features), loss.centroids())
    assert float(value.detach()) > float(torch.nn.functional.cross_entropy(logits, targets).detach()) / 3
    assert features.grad is not None


def test_new_per_sample_objective_is_one_function():
    loss = NCMILoss(C, D, PerSample(squared_own), center="none").double()
    features, targets = normal(6, D), hard_labels(6, C)
    divergence = kl_to_centroids(functional.feature_point(features), loss.centroids().log_density)
    expected = torch.stack([divergence[x, y] ** 2 for x, y in enumerate(targets.tolist())]).mean()
    torch.testing.assert_close(loss(features, targets), expected)


def test_new_ratio_is_one_function():
    loss = NCMILoss(C, D, RatioOfMeans(only_concentration, start="uniform"), center="none").double()
    assert bool((loss.centroids.xi == 0).all())
    features, targets = normal(6, D), hard_labels(6, C)
    divergence = kl_to_centroids(functional.feature_point(features), loss.centroids().log_density)
    torch.testing.assert_close(loss(features, targets), divergence[:, 0].mean())


def test_objectives_can_be_pickled():
    for name in OBJECTIVES:
        objective = make_objective(name)
        assert type(pickle.loads(pickle.dumps(objective))) is type(objective)


def test_unknown_name_lists_its_neighbour():
    with pytest.raises(ValueError, match=r"objective must be one of .*; got 'harmonics'\. Did you mean 'harmonic'"):
        NCMILoss(C, D, "harmonics")
    with pytest.raises(ValueError, match=r"Did you mean 'theorem1'"):
        NCMILoss(C, D, "theorem_1")
