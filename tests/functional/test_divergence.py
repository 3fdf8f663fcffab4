import oracle
import pytest
import torch
from batches import SIZES, normal, relative_error
from hypothesis import given
from torch.autograd import gradcheck

from ncmi.functional import (
    FeaturePoints,
    SimplexPoint,
    cross_entropy,
    feature_point,
    kl_divergence,
    kl_to_centroids,
    kl_to_own,
    log_nsf,
    simplex_point,
)


def test_kl_and_cross_entropy_equal_the_equations():
    log_p, log_q = log_nsf(4 * normal(5, 7)), log_nsf(4 * normal(5, 7, seed=1))
    p, q = log_p.exp(), log_q.exp()
    expected = torch.stack([oracle.kl(a, b) for a, b in zip(p, q, strict=True)])
    torch.testing.assert_close(kl_divergence(log_p, log_q), expected, rtol=1e-10, atol=1e-15)
    expected = torch.stack([oracle.cross_entropy(a, b) for a, b in zip(p, q, strict=True)])
    torch.testing.assert_close(cross_entropy(log_p, log_q), expected, rtol=1e-12, atol=0)


def test_kl_far_apart_does_not_overflow():
    log_p = torch.tensor([0.0, -800.0])
    log_q = torch.tensor([-800.0, 0.0])
    torch.testing.assert_close(kl_divergence(log_p, log_q), torch.tensor(800.0), rtol=1e-5, atol=0)
    log_p.requires_grad_()
    (gradient,) = torch.autograd.grad(kl_divergence(log_p, log_q), log_p)
    assert bool(gradient.isfinite().all())


def test_gradients():
    a, b = normal(4, 5).requires_grad_(), normal(4, 5, seed=1).requires_grad_()
    for function in (kl_divergence, cross_entropy):
        assert gradcheck(lambda x, y, function=function: function(log_nsf(x), log_nsf(y)), (a, b))
    centroids = normal(3, 5, seed=2).requires_grad_()
    assert gradcheck(lambda x, y: kl_to_centroids(simplex_point(x), simplex_point(y).log_density), (a, centroids))
    assert gradcheck(lambda x, y: kl_to_own(simplex_point(x), simplex_point(y).log_density), (a, b))


def test_gradient_of_each_input_of_kl_to_centroids():
    probs, log_density = normal(4, 5).requires_grad_(), normal(4, 5, seed=1).requires_grad_()
    centroids = normal(3, 5, seed=2).requires_grad_()
    assert gradcheck(lambda p, ld, c: kl_to_centroids(SimplexPoint(p, ld), c), (probs, log_density, centroids))
    assert gradcheck(lambda c: kl_to_centroids(SimplexPoint(probs.detach(), log_density.detach()), c), centroids)
    assert gradcheck(lambda p: kl_to_centroids(SimplexPoint(p, log_density.detach()), centroids.detach()), probs)


@pytest.mark.parametrize("simplex", ["nsf", "softmax"])
def test_features_give_the_divergences_of_their_points(simplex):
    features, center = normal(4, 5).requires_grad_(), normal(5, seed=3)
    xi = normal(3, 5, seed=2).requires_grad_()

    def divergence(f, x, points=FeaturePoints):
        return kl_to_centroids(points(f, center, 0.3, simplex), simplex_point(x, simplex).log_density)

    torch.testing.assert_close(divergence(features, xi), divergence(features, xi, feature_point))
    assert gradcheck(divergence, (features, xi))
    assert gradcheck(lambda x: divergence(features.detach(), x), xi)
    assert gradcheck(lambda f: divergence(f, xi.detach()), features)


def test_kl_to_centroids_and_to_own_equal_the_equation():
    points, centroids = feature_point(normal(6, 7)), simplex_point(2 * normal(4, 7, seed=1))
    expected = torch.stack([torch.stack([oracle.kl(p, q) for q in centroids.probs]) for p in points.probs])
    torch.testing.assert_close(kl_to_centroids(points, centroids.log_density), expected, rtol=1e-10, atol=1e-14)
    own = torch.tensor([3, 0, 1, 1, 2, 0])
    expected = expected[torch.arange(6), own]
    torch.testing.assert_close(kl_to_own(points, centroids.log_density[own]), expected, rtol=1e-10, atol=1e-14)


@given(SIZES)
def test_kl_is_never_negative_and_zero_for_equal_points(sizes):
    shape = sizes["batch"], sizes["num_features"]
    for dtype in (torch.float32, torch.float64):
        log_p = log_nsf(5 * normal(*shape, seed=sizes["seed"], dtype=dtype))
        log_q = log_nsf(5 * normal(*shape, seed=sizes["seed"] + 1, dtype=dtype))
        assert bool((kl_divergence(log_p, log_q) >= 0).all())
        assert bool((kl_divergence(log_p, log_p) == 0).all())
        nearly = log_p + 1e-6 * normal(*shape, seed=sizes["seed"] + 2, dtype=dtype)
        assert bool((kl_divergence(log_p, nearly) >= 0).all())


@pytest.mark.parametrize("num_features", [512, 2048])
def test_float32_kl_of_close_points_keeps_five_digits(num_features):
    # Two views of one image: the features differ by a few per cent and the divergence is about 1e-5.
    logits = 5 * torch.nn.functional.normalize(normal(32, num_features), dim=1)
    close = logits + 0.02 * normal(32, num_features, seed=1)
    logits, close = logits.float(), close.float()
    exact = kl_divergence(log_nsf(logits.double()), log_nsf(close.double()))
    assert 1e-6 < float(exact.mean()) < 1e-3
    assert relative_error(kl_divergence(log_nsf(logits), log_nsf(close)), exact) < 1e-5


@pytest.mark.parametrize("num_features", [512, 2048])
def test_float32_product_resolves_what_harmonic_needs(num_features):
    # Divergences are about 3e-3 here. The error is that of the normalisation of p and of q, an ulp (1.2e-7) each.
    features, xi = normal(64, num_features, dtype=torch.float32), normal(100, num_features, seed=1)
    xi = (5 * torch.nn.functional.normalize(xi, dim=1)).float()
    single = kl_to_centroids(feature_point(features), simplex_point(xi).log_density)
    double = kl_to_centroids(feature_point(features.double()), simplex_point(xi.double()).log_density)
    error = (single - double).abs()
    assert float(error.mean()) < 1e-7
    assert float(error.max()) < 4e-7


def test_float32_product_beats_plain_log_probabilities():
    # Why points carry ln(D·p): with ln p in the product the constant ln D eats the digits.
    features, xi = normal(64, 2048, dtype=torch.float32), normal(50, 2048, seed=1)
    xi = (5 * torch.nn.functional.normalize(xi, dim=1)).float()
    points, centroids = feature_point(features), simplex_point(xi)
    exact = kl_to_centroids(feature_point(features.double()), simplex_point(xi.double()).log_density)
    shifted = (kl_to_centroids(points, centroids.log_density) - exact).abs().mean()
    plain = (points.probs * points.log_probs).sum(dim=1, keepdim=True) - points.probs @ centroids.log_probs.T
    # How many digits depends on the order in which a processor adds: below 0.1 of the plain error on one, 0.13 on another.
    assert float(shifted) < 0.2 * float((plain - exact).abs().mean())
