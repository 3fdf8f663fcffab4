"""``matching`` against its equation, at its ends, and what it says of merged classes; docs/collapse.md has the proofs."""

import math

import oracle
import pytest
import torch
from batches import SIZES, hard_labels, normal, soft_labels
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from ncmi.functional import harmonic_logits, kl_to_centroids, matching, rival_level, rivals, simplex_point

EXPONENTS = st.floats(0.05, 12)


def losses(logits, targets, valid=None):
    """The three steps on one rank."""
    found = rivals(logits, targets, valid)
    return matching(logits, targets, rival_level(found.total(found.peak), found.count, found.peak))


def choosing(logits, targets):
    """The half in which a centroid chooses, by loops."""
    ratios = [
        [math.exp(other[y] - own[y]) for other, c in zip(logits, targets, strict=True) if c != y]
        for own, y in zip(logits.tolist(), targets.tolist(), strict=True)
    ]
    factor = logits.shape[1] - 1
    return torch.tensor([math.log(1 + factor * sum(row) / max(len(row), 1)) for row in ratios]).double()


@given(SIZES, EXPONENTS)
def test_values_equal_the_equation(sizes, exponent):
    batch, num_classes, seed = sizes["batch"], sizes["num_classes"], sizes["seed"]
    points = simplex_point(normal(batch, sizes["num_features"], seed=seed))
    centroids = simplex_point(normal(num_classes, sizes["num_features"], seed=seed + 1))
    for targets in (hard_labels(batch, num_classes, seed), soft_labels(batch, num_classes, seed)):
        mass = targets if targets.is_floating_point() else oracle.one_hot(targets, num_classes)
        expected = oracle.matching(points.probs, mass, centroids.probs, exponent, mass)
        found = losses(harmonic_logits(points, centroids, exponent), targets)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_gradients():
    targets = hard_labels(6, 4)
    for labels in (targets, soft_labels(6, 4)):
        assert gradcheck(lambda logits, labels=labels: losses(logits, labels), [normal(6, 4).requires_grad_()])
    valid = torch.tensor([True, False, True, True, True, False])
    assert gradcheck(lambda logits: losses(logits, targets, valid)[valid], [normal(6, 4).requires_grad_()])


def test_samples_that_do_not_count_are_no_rivals():
    logits, targets = normal(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    valid = torch.tensor([True, True, True, True, False, False])
    torch.testing.assert_close(losses(logits, targets, valid)[:4], losses(logits[:4], targets[:4]))


def test_no_rivals_leave_the_choice_of_a_centroid():
    logits, targets = normal(3, 4).requires_grad_(), torch.tensor([2, 2, 2])
    found = losses(logits, targets)
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(logits, targets, reduction="none") / 2)
    found.sum().backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_logits_neither_overflow_nor_vanish(dtype):
    # A sample near the first centroid lifts the peak of its own class by 500; the rival of the others is far below.
    logits = torch.tensor([[500.0, 0.0], [1.0, 0.0], [-2.0, 0.0]], dtype=dtype, requires_grad=True)
    targets = torch.tensor([0, 0, 1])
    found = losses(logits, targets)
    expected = [
        math.exp(-500) + math.exp(-502),
        math.log1p(math.exp(-1)) + math.log1p(math.exp(-3)),
        math.log1p(math.exp(-2)) + math.log1p(1.0),
    ]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=dtype) / 2)
    found.sum().backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())


def test_a_larger_batch_of_the_same_samples_costs_the_same():
    logits, targets = normal(8, 4), hard_labels(8, 4)
    many = losses(logits.repeat(5, 1), targets.repeat(5))
    torch.testing.assert_close(many, losses(logits, targets).repeat(5))


@given(SIZES, EXPONENTS)
def test_a_loss_below_half_of_ln_2_means_a_right_decision(sizes, exponent):
    batch, num_classes, seed = 40, sizes["num_classes"], sizes["seed"]
    xi = 3 * normal(num_classes, sizes["num_features"], seed=seed)
    targets = hard_labels(batch, num_classes, seed)
    points, centroids = (
        simplex_point(xi[targets] + 2 * normal(batch, sizes["num_features"], seed=seed + 1)),
        simplex_point(xi),
    )
    found = losses(harmonic_logits(points, centroids, exponent), targets)
    wrong = kl_to_centroids(points, centroids.log_density).argmin(dim=1) != targets
    assert not bool(((found < oracle.LN_2 / 2) & wrong).any())
    assert float(wrong.double().mean()) <= 2 * float(found.mean()) / oracle.LN_2


@given(SIZES, EXPONENTS, st.integers(2, 5))
def test_two_merged_classes_of_equal_size_cost_ln_2(sizes, exponent, num_classes):
    # As many samples of each class; the first two have the same outputs, the others are anywhere.
    each, seed = sizes["batch"], sizes["seed"]
    logits = 3 * normal(each * (num_classes - 1), sizes["num_features"], seed=seed)
    points = simplex_point(torch.cat([logits[:each], logits]))
    targets = torch.arange(num_classes).repeat_interleave(each)
    centroids = simplex_point(3 * normal(num_classes, sizes["num_features"], seed=seed + 1))
    found = losses(harmonic_logits(points, centroids, exponent), targets)
    assert float(found[: 2 * each].mean()) >= oracle.LN_2 - 1e-9


@given(SIZES, EXPONENTS)
def test_what_is_not_cross_entropy_is_the_choice_of_the_centroids(sizes, exponent):
    batch, seed = 12, sizes["seed"]
    logits = harmonic_logits(
        simplex_point(2 * normal(batch, sizes["num_features"], seed=seed)),
        simplex_point(2 * normal(2, sizes["num_features"], seed=seed + 1)),
        exponent,
    )
    targets = hard_labels(batch, 2, seed)
    second = 2 * losses(logits, targets) - torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(second, choosing(logits, targets), rtol=1e-7, atol=1e-9)
