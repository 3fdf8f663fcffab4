"""Theorem 1: the minimum over q is NCMI, at q = s, with q^{c_x}; with the printed q^{c_z} it is another number."""

import itertools

import oracle
import pytest
import torch
from batches import normal

from ncmi.functional import class_statistics, feature_point, log_nsf, ncmi, simplex_point, theorem1, to_logits

C, D, PER_CLASS = 4, 6, 12
TARGETS = torch.arange(C * PER_CLASS) % C


@pytest.fixture(scope="module")
def statistics():
    features = normal(C, D)[TARGETS] + 0.7 * normal(C * PER_CLASS, D, seed=1)
    return class_statistics(feature_point(features), TARGETS, C)


def class_means(statistics):
    return statistics.prob_sum / statistics.counts[:, None]


def value(statistics, xi):
    ratio = theorem1(statistics, simplex_point(xi))
    return ratio.concentration / ratio.separation


def printed_value(statistics, xi):
    """The objective with q^{c_z}, from the sums: Σ_{c_x≠c_z} H(p_x, q^{c_z}) = −Σ_y n_y (P − P_y)·ln q^y."""
    n, prob_sum, log_sum, neg_entropy = statistics
    log_q = log_nsf(xi) + torch.tensor(float(D)).double().log()
    total, summed = n.sum(), prob_sum.sum(dim=0)
    numerator = (neg_entropy - (prob_sum * log_q).sum()) / total
    pairs = (prob_sum * log_sum).sum() - summed @ log_sum.sum(dim=0)
    return numerator / ((pairs + (n[:, None] * (summed - prob_sum) * log_q).sum()) / total**2)


def minimise(function, start):
    xi = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [xi], max_iter=300, tolerance_grad=1e-13, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        result = function(xi)
        result.backward()
        return result

    optimizer.step(closure)
    return xi.detach(), function(xi.detach())


def test_value_at_the_class_means_is_ncmi(statistics):
    at_means = value(statistics, to_logits(class_means(statistics)))
    torch.testing.assert_close(at_means, ncmi(statistics).ncmi, rtol=0, atol=1e-12)


def test_no_step_away_from_the_class_means_is_lower(statistics):
    means = to_logits(class_means(statistics))
    lowest = ncmi(statistics).ncmi
    checked = 0
    for seed in range(300):
        size = 10.0 ** (-3 + seed / 75)
        xi = means + size * normal(C, D, seed=seed)
        if theorem1(statistics, simplex_point(xi)).separation > 0:
            assert float(value(statistics, xi) - lowest) > 0
            checked += 1
    assert checked > 150


@pytest.mark.parametrize("start", ["uniform", "near the means"])
def test_numerical_minimum_over_q_is_ncmi_at_the_class_means(statistics, start):
    means = class_means(statistics)
    xi = torch.zeros(C, D).double() if start == "uniform" else to_logits(means) + 0.3 * normal(C, D)
    assert theorem1(statistics, simplex_point(xi)).separation > 0
    found, lowest = minimise(lambda x: value(statistics, x), xi)
    torch.testing.assert_close(lowest, ncmi(statistics).ncmi, rtol=0, atol=1e-12)
    torch.testing.assert_close(simplex_point(found).probs, means, rtol=0, atol=1e-6)


def test_printed_form_has_another_minimum(statistics):
    xi, expected = 0.2 * normal(C, D), ncmi(statistics).ncmi
    found, lowest = minimise(lambda x: printed_value(statistics, x), to_logits(class_means(statistics)))
    assert float((lowest - expected).abs()) > 1e-2 * float(expected)
    assert float((simplex_point(found).probs - class_means(statistics)).abs().max()) > 1e-3
    # The closed form above is the printed equation, pair by pair.
    features = normal(C, D)[TARGETS[:8]] + normal(8, D, seed=3)
    small = class_statistics(feature_point(features), TARGETS[:8], C)
    numerator, denominator = oracle.theorem1(
        feature_point(features).probs, oracle.one_hot(TARGETS[:8], C), simplex_point(xi).probs, printed=True
    )
    torch.testing.assert_close(printed_value(small, xi), numerator / denominator, rtol=1e-10, atol=0)


def test_ratio_turns_negative_where_the_denominator_does(statistics):
    # Why the caller must not divide: far from the means the ratio is negative, below any NCMI.
    far = 40 * torch.eye(C, D).double() - 20
    ratio = theorem1(statistics, simplex_point(far))
    assert float(ratio.separation) < 0
    assert float(ratio.concentration) > 0


def test_batches_underestimate_the_denominator_by_a_known_factor():
    # Over all batches of B of N samples the mean is (B−1)/B·N/(N−1) of the whole: no sample is its own partner.
    size, whole = 4, 7
    targets, features, xi = torch.arange(whole) % 3, normal(whole, D, seed=2), simplex_point(normal(3, D, seed=3))

    def separation(chosen):
        return theorem1(class_statistics(feature_point(features[chosen]), targets[chosen], 3), xi).separation

    batches = [separation(list(chosen)) for chosen in itertools.combinations(range(whole), size)]
    factor = (size - 1) / size * whole / (whole - 1)
    torch.testing.assert_close(torch.stack(batches).mean(), factor * separation(list(range(whole))))
