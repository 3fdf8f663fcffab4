import oracle
import pytest
import torch
from batches import SIZES, normal, relative_error
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from ncmi.functional import (
    FeaturePoints,
    feature_point,
    log_density,
    log_nsf,
    log_softmax,
    nsf,
    scale_features,
    simplex_point,
    softmax,
    to_log_probs,
    to_logits,
)

MAPS = {"nsf": oracle.nsf, "softmax": oracle.softmax}
BOUNDS = {"bounded": 50.0, "unbounded": 1e6, "unknown": None}


def rows(function, logits):
    return torch.stack([function(row) for row in logits])


def test_nsf_and_softmax_equal_the_equations():
    logits = 5 * normal(4, 7)
    for package, log_package, equation in ((nsf, log_nsf, oracle.nsf), (softmax, log_softmax, oracle.softmax)):
        expected = rows(equation, logits)
        torch.testing.assert_close(package(logits), expected, rtol=0, atol=1e-14)
        torch.testing.assert_close(log_package(logits), expected.log(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "logits", [[-1000.0, 1000.0], [-1000.0, -999.0, -1001.0], [1000.0, 999.0], [-1000.0, 0.0, 30.0, 1000.0]]
)
def test_log_nsf_is_exact_for_extreme_logits(logits):
    exact = torch.tensor(oracle.log_nsf_decimal(logits), dtype=torch.float64)
    torch.testing.assert_close(log_nsf(torch.tensor(logits, dtype=torch.float64)), exact, rtol=1e-15, atol=1e-15)
    single = log_nsf(torch.tensor(logits)).double()
    torch.testing.assert_close(single, exact, rtol=3e-7, atol=3e-7)
    point = simplex_point(torch.tensor(logits, dtype=torch.float64))
    torch.testing.assert_close(point.log_probs, exact, rtol=1e-14, atol=1e-14)


def test_log_nsf_keeps_a_finite_gradient_for_extreme_logits():
    logits = torch.tensor([-1000.0, 0.0, 1000.0], requires_grad=True)
    log_nsf(logits)[0].backward()
    assert logits.grad is not None
    # d ln p_0 / d a_0 = (1 − σ(a_0))(1 − p_0) = 1, and the saturated entry has none.
    torch.testing.assert_close(logits.grad, torch.tensor([1.0, -1 / 6, 0.0]))


@pytest.mark.parametrize("simplex", MAPS)
@pytest.mark.parametrize("bound", BOUNDS)
def test_simplex_point_equals_the_equations(simplex, bound):
    logits = 8 * normal(5, 6)
    point = simplex_point(logits, simplex, bound=BOUNDS[bound])
    expected = rows(MAPS[simplex], logits)
    torch.testing.assert_close(point.probs, expected, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(point.log_probs, expected.log(), rtol=0, atol=1e-12)
    torch.testing.assert_close(point.log_density, (6 * expected).log(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("simplex", MAPS)
@pytest.mark.parametrize("bound", BOUNDS)
def test_simplex_point_gradient(simplex, bound):
    logits = (3 * normal(4, 5)).requires_grad_()

    def both(a):
        return tuple(simplex_point(a, simplex, bound=BOUNDS[bound]))

    assert gradcheck(both, logits)
    assert gradcheck(lambda a: both(a)[0], logits)
    assert gradcheck(lambda a: both(a)[1], logits)


@pytest.mark.parametrize("simplex", MAPS)
@pytest.mark.parametrize("scale", [3.0, 200.0])
def test_log_density_is_that_of_the_point(simplex, scale):
    logits = (scale * normal(4, 5)).requires_grad_()
    lazy, point = log_density(logits, simplex), simplex_point(logits, simplex)
    torch.testing.assert_close(lazy.log_density, point.log_density)
    torch.testing.assert_close(lazy.probs, point.probs)
    assert gradcheck(lambda a: log_density(a, simplex).log_density, logits)


def test_feature_points_are_those_of_the_map():
    features, center = normal(4, 5).requires_grad_(), normal(5, seed=1)
    lazy, point = FeaturePoints(features, center, 0.3), feature_point(features, center, 0.3)
    torch.testing.assert_close((lazy.probs, lazy.log_density), tuple(point))
    assert lazy.features is features


def test_branches_of_simplex_point_agree_where_both_are_safe():
    logits = (20 * normal(6, 9)).requires_grad_()
    results = []
    for bound in BOUNDS.values():
        point = simplex_point(logits, bound=bound)
        (gradient,) = torch.autograd.grad((point.probs.square() + point.log_density).sum(), logits)
        results.append((*point, gradient))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("center", [None, 0.3 * normal(6, seed=5)])
def test_scale_features_equals_the_equation(center):
    features = normal(4, 6)
    z = features if center is None else features - center
    expected = z / (z.square().sum(dim=1, keepdim=True).sqrt() * 0.07)
    torch.testing.assert_close(scale_features(features, center, 0.07), expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(scale_features(features, center, 0.07).norm(dim=1), torch.full((4,), 1 / 0.07).double())


@pytest.mark.parametrize("center", [None, 0.3 * normal(6, seed=5)])
def test_gradients_of_the_map(center):
    features = normal(3, 6).requires_grad_()
    assert gradcheck(lambda f: scale_features(f, center, 0.5), features)
    assert gradcheck(lambda f: to_log_probs(f, center, 0.5), features)
    for simplex in MAPS:
        assert gradcheck(lambda f, simplex=simplex: tuple(feature_point(f, center, 0.5, simplex)), features)


@pytest.mark.parametrize("temperature", [0.005, 0.07, 0.2, 1.0])
@pytest.mark.parametrize("simplex", MAPS)
def test_feature_point_equals_the_equations(temperature, simplex):
    features, center = normal(5, 6), normal(6, seed=1)
    expected = torch.stack(oracle.points(features, center, temperature, MAPS[simplex]))
    point = feature_point(features, center, temperature, simplex)
    torch.testing.assert_close(point.probs, expected, rtol=1e-10, atol=0)
    log_probs = to_log_probs(features, center, temperature, simplex)
    torch.testing.assert_close(log_probs, expected.log(), rtol=1e-10, atol=1e-14)


@given(SIZES, st.floats(0.02, 5), st.sampled_from(sorted(MAPS)))
def test_points_are_distributions(sizes, temperature, simplex):
    features = normal(sizes["batch"], sizes["num_features"], seed=sizes["seed"])
    point = feature_point(features, None, temperature, simplex)
    torch.testing.assert_close(point.probs.sum(dim=1), torch.ones(sizes["batch"]).double(), rtol=0, atol=1e-13)
    torch.testing.assert_close(point.log_probs.exp(), point.probs, rtol=1e-12, atol=1e-15)
    assert bool((point.probs > 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_size_of_the_features_does_not_matter(scale, dtype):
    features = normal(4, 6, dtype=dtype)
    expected = feature_point(features)
    scaled = (features * scale).requires_grad_()
    point = feature_point(scaled)
    torch.testing.assert_close(tuple(point), tuple(expected))
    (gradient,) = torch.autograd.grad(point.log_density[:, 0].sum(), scaled)
    assert bool(gradient.isfinite().all())
    assert bool((gradient != 0).any())


def test_row_equal_to_the_center_is_uniform_without_gradient():
    center = normal(6, seed=1)
    features = torch.stack([center, center + 1e-3 * normal(6), center]).requires_grad_()
    point = feature_point(features, center)
    torch.testing.assert_close(point.probs[[0, 2]], torch.full((2, 6), 1 / 6).double())
    (gradient,) = torch.autograd.grad(point.log_density[:, 0].sum(), features)
    assert bool((gradient[[0, 2]] == 0).all())
    assert bool((gradient[1] != 0).all())


def test_center_gets_no_gradient():
    center = normal(6, seed=1).requires_grad_()
    features = normal(3, 6).requires_grad_()
    feature_point(features, center).log_density.square().sum().backward()
    assert center.grad is None


@pytest.mark.parametrize("simplex", MAPS)
@pytest.mark.parametrize("spread", [0.1, 3.0, 12.0])
def test_to_logits_is_an_inverse(simplex, spread):
    probs = torch.softmax(spread * normal(5, 8), dim=1)
    back = MAPS[simplex]
    logits = to_logits(probs, simplex)
    assert bool(logits.isfinite().all())
    torch.testing.assert_close(rows(back, logits), probs, rtol=1e-10, atol=0)


def test_to_logits_of_the_uniform_distribution_is_zero():
    torch.testing.assert_close(to_logits(torch.full((2, 8), 1 / 8)), torch.zeros(2, 8))


@pytest.mark.parametrize("num_features", [512, 2048])
def test_float32_map_is_as_good_as_its_input(num_features):
    features = normal(16, num_features, dtype=torch.float32)
    single, double = feature_point(features), feature_point(features.double())
    assert relative_error(single.probs, double.probs) < 3e-6
    assert float((single.log_density - double.log_density).abs().max()) < 3e-6


def test_an_l1_norm_leaves_next_to_uniform_points():
    # The published script's class means take this norm; those of the loss's own map are hundreds of times further out.
    features, width, temperature = normal(64, 512), 512, 0.2
    uniform = torch.full((width,), 1 / width).double()

    def distance(scaled):
        log_probs = simplex_point(scaled).log_probs
        return (log_probs.exp() * (log_probs - uniform.log())).sum(dim=-1).mean()

    by_l1 = features / features.abs().sum(dim=-1, keepdim=True) / temperature
    assert distance(by_l1) < distance(scale_features(features, None, temperature)) / 100
