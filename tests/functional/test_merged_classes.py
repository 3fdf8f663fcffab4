"""Merged classes: what a ratio of means does not see, and what ``harmonic`` guarantees; docs/collapse.md has the proofs."""

import itertools
import math
from collections import Counter

import oracle
import pytest
import torch
from batches import SEEDS, SIZES, hard_labels, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from ncmi.functional import (
    centroid,
    class_statistics,
    gamma,
    harmonic,
    kl_to_centroids,
    ncmi,
    released,
    simplex_point,
    theorem1,
    to_logits,
)

EXPONENTS = st.floats(0.05, 30)

# Ten classes with two samples each, the first five classes in one point and the others in another. A mean of two equal numbers
# is that number, so zeros are exact.
C, EACH = 10, 2
HERE, THERE = (torch.tensor(point, dtype=torch.float64) for point in ([0.8, 0.1, 0.1], [0.1, 0.8, 0.1]))
TARGETS = torch.arange(C).repeat_interleave(EACH)
OUTPUTS = [HERE if y < C // 2 else THERE for y in TARGETS.tolist()]
MASS = oracle.one_hot(TARGETS, C)
POINTS = simplex_point(to_logits(torch.stack(OUTPUTS)))
CLASS_POINTS = simplex_point(to_logits(torch.stack(OUTPUTS[::EACH])))  # s^y, the best centroids of a ratio


def entropy(labels):
    """H of the labels' proportions in nats, by a loop."""
    return -sum(n / len(labels) * math.log(n / len(labels)) for n in Counter(labels).values())


def conditional_entropy(labels, groups):
    """H(Y | group), by a loop over groups."""
    members = {group: [y for y, other in zip(labels, groups, strict=True) if other == group] for group in groups}
    return sum(len(each) / len(labels) * entropy(each) for each in members.values())


def test_ten_classes_in_two_points_have_an_ncmi_of_exactly_zero():
    assert oracle.cmi(OUTPUTS, MASS) == 0
    # Half of all ordered pairs of samples are of different points.
    assert oracle.gamma(OUTPUTS, MASS) == pytest.approx(0.5 * 0.7 * math.log(8), rel=1e-14)
    numerator, denominator = oracle.theorem1(OUTPUTS, MASS, oracle.class_means(OUTPUTS, MASS))
    assert numerator == 0 < denominator
    terms = ncmi(class_statistics(POINTS, TARGETS, C))
    assert abs(float(terms.ncmi)) < 1e-14
    assert float(terms.gamma) > 0.7


def test_no_decision_on_two_points_is_right_for_more_than_two_classes():
    decisions = itertools.product(range(C), repeat=2)  # every function of the output
    right = [sum(y == (here if y < C // 2 else there) for y in TARGETS.tolist()) for here, there in decisions]
    assert max(right) == 2 * EACH
    nearest = kl_to_centroids(POINTS, CLASS_POINTS.log_density).argmin(dim=1)
    assert int((nearest == TARGETS).sum()) == 2 * EACH


@given(SIZES)
@settings(max_examples=30)
def test_no_output_has_a_smaller_ratio(sizes):
    # Both sums of NCMI are sums of divergences: zero is its global minimum, and merged classes are there.
    points = [oracle.nsf(row) for row in 3 * normal(sizes["batch"], sizes["num_features"], seed=sizes["seed"])]
    mass = oracle.one_hot(hard_labels(sizes["batch"], sizes["num_classes"], sizes["seed"]), sizes["num_classes"])
    assert oracle.cmi(points, mass) >= -1e-15
    assert oracle.gamma(points, mass) > 0


@pytest.mark.parametrize("objective", [theorem1, centroid])
def test_a_ratio_of_means_does_not_leave_merged_classes(objective):
    features = to_logits(torch.stack(OUTPUTS)).requires_grad_()
    xi = to_logits(torch.stack(OUTPUTS[::EACH])).requires_grad_()
    ratio = objective(class_statistics(simplex_point(features), TARGETS, C), simplex_point(xi))
    (ratio.concentration / ratio.separation).backward()
    for tensor in (features, xi):
        assert tensor.grad is not None
        assert float(tensor.grad.abs().max()) < 1e-14


def test_per_sample_ratios_over_a_mean_do_not_see_it_either():
    assert float(released(POINTS, CLASS_POINTS, TARGETS).abs().max()) < 1e-14


@given(SEEDS)
def test_fixed_centroids_cannot_have_merged_classes_for_nothing(seed):
    # Half the sum of D(p‖q) and D(p‖r) is smallest at p ∝ √(qr), where it is −ln Σ√(qr).
    q, r, p = simplex_point(2 * normal(3, 5, seed=seed)).probs
    least = -math.log(float((q * r).sqrt().sum()))
    assert float(oracle.kl(p, q) + oracle.kl(p, r)) / 2 >= least > 0
    middle = (q * r).sqrt() / (q * r).sqrt().sum()
    assert float(oracle.kl(middle, q) + oracle.kl(middle, r)) / 2 == pytest.approx(least, rel=1e-10)


@pytest.mark.parametrize("exponent", [1.0, 4.0, 8.0])
def test_harmonic_is_far_from_its_minimum_at_merged_outputs_whatever_the_centroids(exponent):
    least = math.log(C / 2)  # H(Y | output)
    at_means = harmonic(POINTS, CLASS_POINTS, TARGETS, exponent).mean()
    assert float(at_means) == pytest.approx(least, abs=1e-12)
    # Its best centroids, by descent from anywhere, come to the same number and not below.
    xi = (2 * normal(C, 3, seed=1)).requires_grad_()
    optimizer, values = torch.optim.Adam([xi], lr=0.05), []
    for _ in range(400):
        optimizer.zero_grad()
        loss = harmonic(POINTS, simplex_point(xi), TARGETS, exponent).mean()
        loss.backward()
        optimizer.step()
        values.append(float(loss.detach()))
    assert min(values) >= least - 1e-12
    assert values[-1] < least + 0.05 < values[0]
    # Ten points for ten classes, each with its centroid on it, cost nothing, or as little as one likes.
    apart = simplex_point(3 * normal(C, 6))
    own = simplex_point(3 * normal(C, 6)[TARGETS])
    assert float(harmonic(own, apart, TARGETS, 4.0).mean()) < 1e-12


@given(SIZES, EXPONENTS)
def test_harmonic_below_ln_2_means_a_right_decision(sizes, exponent):
    batch, num_classes = 40, sizes["num_classes"]
    xi = 3 * normal(num_classes, sizes["num_features"], seed=sizes["seed"])
    targets = hard_labels(batch, num_classes, sizes["seed"])
    points = simplex_point(xi[targets] + 2 * normal(batch, sizes["num_features"], seed=sizes["seed"] + 1))
    nearest = kl_to_centroids(points, simplex_point(xi).log_density).argmin(dim=1)
    losses = harmonic(points, simplex_point(xi), targets, exponent)
    sure, wrong = losses < oracle.LN_2, nearest != targets
    assert not bool((sure & wrong).any())
    assert float(wrong.double().mean()) <= float(losses.mean()) / oracle.LN_2
    if num_classes == 2:  # with two classes the converse holds too
        assert bool((sure | wrong).all())
        assert bool(sure.any())


def test_the_bound_on_the_error_rate_is_attained():
    # Two classes, a point of the wrong class at equal distance to both: one error or none, and a loss of ln 2.
    points = simplex_point(torch.zeros(1, 3).double())
    centroids = simplex_point(torch.tensor([[1.0, -1, 0], [-1.0, 1, 0]]).double())
    losses = harmonic(points, centroids, torch.tensor([1]), 4.0)
    assert float(losses) == pytest.approx(oracle.LN_2, rel=1e-12)


@given(SIZES, EXPONENTS, st.integers(1, 4), st.integers(1, 4))
def test_harmonic_charges_two_merged_classes_the_entropy_of_their_proportions(sizes, exponent, first, second):
    # Every output is that of ``first`` samples of class 0 and of ``second`` samples of class 1.
    targets = torch.tensor([0] * first + [1] * second).repeat(sizes["batch"])
    logits = 3 * normal(sizes["batch"], sizes["num_features"], seed=sizes["seed"])
    points = simplex_point(logits.repeat_interleave(first + second, dim=0))
    centroids = simplex_point(3 * normal(sizes["num_classes"], sizes["num_features"], seed=sizes["seed"] + 1))
    mean = float(harmonic(points, centroids, targets, exponent).mean())
    assert mean >= entropy(targets.tolist()) - 1e-12
    if first == second:
        assert mean >= oracle.LN_2 - 1e-12


@given(SIZES, EXPONENTS, st.integers(1, 4))
def test_harmonic_is_at_least_the_entropy_of_the_label_given_the_output(sizes, exponent, num_groups):
    num_classes, num_features, seed = sizes["num_classes"], sizes["num_features"], sizes["seed"]
    targets = hard_labels(24, num_classes, seed)
    groups = hard_labels(24, num_groups, seed + 1) % num_groups
    places = 3 * normal(num_groups, num_features, seed=seed + 2)
    # A centroid near the point that most of its class is at, so that some losses are close to the bound.
    homes = [Counter(groups[targets == y].tolist() or [0]).most_common(1)[0][0] for y in range(num_classes)]
    xi = places[torch.tensor(homes)] + 0.3 * normal(num_classes, num_features, seed=seed + 3)
    mean = float(harmonic(simplex_point(places[groups]), simplex_point(xi), targets, exponent).mean())
    assert mean >= conditional_entropy(targets.tolist(), groups.tolist()) - 1e-12


def test_a_ratio_of_means_has_no_such_bound():
    # The same outputs: what harmonic is bounded below by, NCMI undercuts, and Γ is not the reason.
    assert conditional_entropy(TARGETS.tolist(), [int(y >= C // 2) for y in TARGETS]) == pytest.approx(math.log(5))
    statistics = class_statistics(POINTS, TARGETS, C)
    assert float(ncmi(statistics).ncmi) < 1e-14 < float(gamma(statistics))
