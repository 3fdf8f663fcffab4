"""``rivals`` against its equation, at its ends, and what it says of merged classes; docs/collapse.md has the proofs."""

import math

import oracle
import pytest
import torch
import torch.nn.functional as F
from batches import SIZES, hard_labels, normal, soft_labels
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from ncmi.functional import (
    harmonic_logits,
    kl_to_centroids,
    rival_level,
    rival_losses,
    rivals_of_classes,
    rivals_of_samples,
    simplex_point,
)

EXPONENTS = st.floats(0.05, 12)


def losses(logits, among, targets, valid=None):
    """All steps on one rank, from the logits of centroids and of other samples."""
    num_classes = logits.shape[1]
    theirs = targets if valid is None else torch.where(valid, targets, -1)
    class_level = rival_level(rivals_of_classes(logits, targets, valid), num_classes)
    sample_level = rival_level(rivals_of_samples(among, targets, theirs), num_classes)
    return rival_losses(logits, targets, class_level, sample_level)


def both_logits(points, centroids, exponent=8.0):
    return harmonic_logits(points, centroids, exponent), harmonic_logits(points, points, exponent)


@given(SIZES, EXPONENTS)
def test_values_equal_the_equation(sizes, exponent):
    batch, num_classes, seed = sizes["batch"], sizes["num_classes"], sizes["seed"]
    points = simplex_point(normal(batch, sizes["num_features"], seed=seed))
    centroids = simplex_point(normal(num_classes, sizes["num_features"], seed=seed + 1))
    for targets in (hard_labels(batch, num_classes, seed), soft_labels(batch, num_classes, seed)):
        mass = targets if targets.is_floating_point() else oracle.one_hot(targets, num_classes)
        expected = oracle.rivals(points.probs, mass, centroids.probs, exponent, mass)
        found = losses(*both_logits(points, centroids, exponent), targets)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_gradients():
    targets = hard_labels(6, 4)
    both = [normal(6, 4).requires_grad_(), normal(6, 6, seed=1).requires_grad_()]
    for labels in (targets, soft_labels(6, 4)):
        assert gradcheck(lambda logits, among, labels=labels: losses(logits, among, labels), both)
    valid = torch.tensor([True, False, True, True, True, False])
    assert gradcheck(lambda logits, among: losses(logits, among, targets, valid)[valid], both)


def test_samples_that_do_not_count_are_no_rivals():
    logits, among, targets = normal(6, 3), normal(6, 6, seed=1), torch.tensor([0, 1, 2, 0, 1, 2])
    valid = torch.tensor([True, True, True, True, False, False])
    found = losses(logits, among, targets, valid)[:4]
    torch.testing.assert_close(found, losses(logits[:4], among[:4, :4], targets[:4]))


def test_equal_labels_make_no_rivals():
    targets = soft_labels(3, 4).repeat(2, 1)
    among = normal(6, 6).requires_grad_()
    found = rivals_of_samples(among, targets, targets)
    (grad,) = torch.autograd.grad(found.log_total.sum(), among)
    same = torch.eye(3, dtype=torch.bool).repeat(2, 2)
    assert bool((grad[same] == 0).all())
    assert bool((grad[~same] > 0).all())
    torch.testing.assert_close(grad.sum(dim=1), torch.full_like(grad[0], 0.5), msg="half of the exponent")
    part = rivals_of_samples(among[1:4], targets[1:4], targets)
    torch.testing.assert_close(part, type(part)(found.log_total[1:4], found.count[1:4]))


def test_hard_labels_are_soft_ones_of_zeros_and_ones():
    targets = hard_labels(8, 4)
    logits, among = normal(8, 4), normal(8, 8, seed=1)
    torch.testing.assert_close(losses(logits, among, targets), losses(logits, among, oracle.one_hot(targets, 4)))
    alone = torch.tensor([2, 2])
    torch.testing.assert_close(
        losses(logits[:2], among[:2, :2], alone), losses(logits[:2], among[:2, :2], oracle.one_hot(alone, 4))
    )


def test_a_little_smoothing_changes_a_little():
    # In a batch of one class no share of a rival may become a whole one.
    logits, among, hard = normal(5, 4), normal(5, 5, seed=1), oracle.one_hot(torch.full((5,), 2), 4)
    smooth = hard * (1 - 1e-6) + 1e-6 / 4
    torch.testing.assert_close(losses(logits, among, smooth), losses(logits, among, hard), rtol=0, atol=1e-4)


def test_soft_labels_may_have_a_gradient():
    targets = oracle.one_hot(hard_labels(6, 4), 4).requires_grad_()
    losses(normal(6, 4), normal(6, 6, seed=1), targets).sum().backward()
    assert targets.grad is not None
    assert bool(targets.grad.isfinite().all())


def test_no_rivals_leave_the_choice_of_a_centroid():
    logits, among = normal(3, 4).requires_grad_(), normal(3, 3, seed=1).requires_grad_()
    targets = torch.tensor([2, 2, 2])
    found = losses(logits, among, targets)
    torch.testing.assert_close(found, F.cross_entropy(logits, targets, reduction="none") / 3)
    found.sum().backward()
    for given_ in (logits, among):
        assert given_.grad is not None
        assert bool(given_.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_logits_neither_overflow_nor_vanish(dtype):
    # A sample near the first centroid lifts the peak of its own class by 500; the rival of the others is far below.
    logits = torch.tensor([[500.0, 0.0], [1.0, 0.0], [-2.0, 0.0]], dtype=dtype, requires_grad=True)
    among = torch.tensor([[9e9, 9e9, -600.0], [0.0, 9e9, 3.0], [-600.0, 0.0, 9e9]], dtype=dtype, requires_grad=True)
    targets = torch.tensor([0, 0, 1])
    found = losses(logits, among, targets)
    expected = [
        math.exp(-500) + math.exp(-502),
        math.log1p(math.exp(-1)) + math.log1p(math.exp(-3)) + math.log1p(math.exp(1)),
        math.log1p(math.exp(-2)) + math.log1p(1.0) + math.log1p(0.5),
    ]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=dtype) / 3)
    found.sum().backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())
    assert among.grad is not None
    assert bool(among.grad.isfinite().all())


@given(SIZES, EXPONENTS)
def test_a_loss_below_a_third_of_ln_2_means_a_right_decision(sizes, exponent):
    batch, num_classes, seed = 40, sizes["num_classes"], sizes["seed"]
    xi = 3 * normal(num_classes, sizes["num_features"], seed=seed)
    targets = hard_labels(batch, num_classes, seed)
    points, centroids = (
        simplex_point(xi[targets] + 2 * normal(batch, sizes["num_features"], seed=seed + 1)),
        simplex_point(xi),
    )
    found = losses(*both_logits(points, centroids, exponent), targets)
    wrong = kl_to_centroids(points, centroids.log_density).argmin(dim=1) != targets
    assert not bool(((found < oracle.LN_2 / 3) & wrong).any())
    assert float(wrong.double().mean()) <= 3 * float(found.mean()) / oracle.LN_2


@given(SIZES, EXPONENTS, st.integers(2, 5))
def test_two_merged_classes_of_equal_size_cost_two_thirds_of_ln_2(sizes, exponent, num_classes):
    # As many samples of each class; the first two have the same outputs, the others are anywhere.
    each, seed = sizes["batch"], sizes["seed"]
    logits = 3 * normal(each * (num_classes - 1), sizes["num_features"], seed=seed)
    points = simplex_point(torch.cat([logits[:each], logits]))
    targets = torch.arange(num_classes).repeat_interleave(each)
    centroids = simplex_point(3 * normal(num_classes, sizes["num_features"], seed=seed + 1))
    found = losses(*both_logits(points, centroids, exponent), targets)
    assert float(found[: 2 * each].mean()) >= oracle.LN_2 * 2 / 3 - 1e-9


def test_every_term_of_ten_classes_in_two_points_is_ln_5():
    # The example of docs/collapse.md: five classes of two samples each share a point, and their centroids are there.
    targets = torch.arange(10).repeat_interleave(2)
    places = 3 * normal(2, 6)[torch.arange(10) // 5]
    points = simplex_point(places[targets])
    logits, among = harmonic_logits(points, simplex_point(places)), harmonic_logits(points, points)
    class_level = rival_level(rivals_of_classes(logits, targets), 10)
    sample_level = rival_level(rivals_of_samples(among, targets, targets), 10)
    never = torch.full_like(sample_level, -1e30)
    parts = {
        "centroids": rival_losses(logits, targets, never[:10], never),
        "centroids and classes": rival_losses(logits, targets, class_level, never),
        "all": rival_losses(logits, targets, class_level, sample_level),
    }
    for number, found in enumerate(parts.values(), start=1):
        torch.testing.assert_close(3 * found, torch.full_like(found, number * math.log(5)))


@pytest.mark.parametrize(("num_classes", "value"), [(2, 0.5), (10, 1.7), (100, 3.7)])
def test_nothing_learned_costs_what_the_documents_say(num_classes, value):
    # All centroids at the mean: half as far from a sample as other samples are.
    points = simplex_point(normal(200, 512))
    targets = torch.arange(200) % num_classes
    mean = simplex_point(points.probs.mean(dim=0).mul(512).div(2).logit().repeat(num_classes, 1))
    found = losses(*both_logits(points, mean), targets)
    assert float(found.mean()) == pytest.approx(value, rel=0.03)
