"""Fitted centroids: value and gradient by loops, a stationary minimum, a strength chosen on data, sentences for bad input."""

import math

import pytest
import torch
from torch.autograd.functional import jacobian

from ncmi import CentroidClassifier, NCMILoss
from ncmi.functional import feature_point
from ncmi.heads import nearest
from ncmi.heads.nearest import LabelledPoints, mean_sharpness, minimize_from, objective, search_strength

C, D, N, BETA = 4, 6, 60, 3.0


def samples(count=N, seed=0, noise=1.0):
    """Features of classes that overlap, and their classes; every class is there."""
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(C, D, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    targets = torch.arange(count) % C
    return means[targets] + noise * torch.randn(count, D, generator=generator, dtype=torch.float64), targets


def points(count=N, seed=0, noise=1.0):
    features, targets = samples(count, seed, noise)
    mapped = feature_point(features, None, 0.2, "nsf")
    return LabelledPoints(mapped.probs, targets)


def start():
    return torch.randn(C, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def loops(logits, data, strength, before):
    """The objective from its definition, sample by sample and class by class."""
    total = logits.new_zeros(())
    for probs, target in zip(data.probs, data.targets, strict=True):
        q = logits.softmax(dim=1)
        divergence = [(probs * (probs.log() - q[v].log())).sum() for v in range(C)]
        total = total + sum((BETA * (divergence[target] - divergence[v])).exp() for v in range(C)).log()
    return total / len(data.targets) + 0.5 * strength / C * (logits - before).square().sum()


def test_value_and_gradient_are_those_of_the_definition(monkeypatch):
    monkeypatch.setattr(nearest, "_CHUNK", 17)
    data, before = points(), start()
    logits = before + 0.3 * torch.randn(C, D, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    value, gradient = objective(logits, data, BETA, 0.7, before)
    torch.testing.assert_close(value, loops(logits, data, 0.7, before), rtol=1e-12, atol=1e-12)
    expected = jacobian(lambda a: loops(a, data, 0.7, before), logits)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


def test_the_fit_is_stationary_and_below_its_start():
    data, before = points(), start()
    fitted = minimize_from(before, data, BETA, 0.1, before)
    value, gradient = objective(fitted, data, BETA, 0.1, before)
    assert value < objective(before, data, BETA, 0.1, before)[0] - 0.1
    assert gradient.abs().max() < 1e-4 * math.sqrt(0.1 / C) * 1.01


def test_the_sharpness_suits_the_class_means():
    data = points()
    train = points(seed=1)
    means = torch.stack([train.probs[train.targets == v].mean(dim=0) for v in range(C)])
    divergence = (data.probs[:, None] * (data.probs[:, None] / means).log()).sum(dim=-1)

    def loss(beta):
        return float(torch.nn.functional.cross_entropy(-beta * divergence, data.targets))

    beta = mean_sharpness(train, data)
    assert loss(beta) < min(loss(beta * 0.99), loss(beta * 1.01))


def test_the_sharpness_is_finite_where_nothing_is_wrong_and_where_all_points_are_equal():
    apart = points(noise=0.01)
    assert 0 < mean_sharpness(apart, apart) < 1e6
    equal = LabelledPoints(torch.full((N, D), 1 / D, dtype=torch.float64), torch.arange(N) % C)
    assert mean_sharpness(equal, equal) == 1.0


def test_the_sharpness_is_that_of_the_classes_that_have_samples():
    data = points()
    some = data.rows(data.targets > 0)
    renamed = some._replace(targets=some.targets - 1)
    assert mean_sharpness(some, data) == mean_sharpness(renamed, renamed) != mean_sharpness(data, data)


def test_the_chosen_strength_has_the_smallest_held_out_loss():
    train, held_out, before = points(seed=1), points(seed=2), start()
    strength, logits = search_strength(train, held_out, BETA, before)

    def loss(a):
        return float(objective(a, held_out, BETA, 0.0, before)[0])

    every = {s: loss(minimize_from(before, train, BETA, s, before)) for s in nearest.STRENGTHS}
    assert strength in nearest.STRENGTHS
    assert loss(logits) == pytest.approx(every[strength], abs=1e-5)
    assert loss(logits) < min(every.values()) + 1e-3


def test_centroids_stay_if_every_fit_is_worse():
    data = points(noise=0.1)
    best = minimize_from(start(), data, BETA, 1e-3, start())
    wrong = data._replace(targets=(data.targets + 1) % C)
    strength, logits = search_strength(wrong, data, BETA, best)
    assert strength == math.inf
    assert torch.equal(logits, best)


def test_fit_decides_better_than_its_start_on_new_data():
    features, targets = samples(400, seed=1)
    new = samples(400, seed=9)
    classifier = CentroidClassifier.from_loss(NCMILoss(C, D))
    before = classifier.score(*new)
    assert classifier.fit(features, targets, samples(400, seed=2)) is classifier
    assert classifier.score(*new) > before + 0.2
    assert classifier.source == "fitted centroids, from learned q"
    assert classifier.strength_ in nearest.STRENGTHS
    sums = classifier.log_density.exp().mean(dim=1)
    torch.testing.assert_close(sums, torch.ones(C))


def test_without_validation_a_part_is_held_out_and_the_fit_is_of_all():
    features, targets = samples(200, seed=1)
    classifier = CentroidClassifier(torch.zeros(C, D)).fit(features, targets, seed=3)
    again = CentroidClassifier(torch.zeros(C, D)).fit(features, targets, strength=classifier.strength_)
    # The sharpness is that of the part here, and that of all there.
    torch.testing.assert_close(classifier.log_density, again.log_density, rtol=0, atol=0.05)
    assert classifier.strength_ in nearest.STRENGTHS


def test_a_fit_forgets_the_temperature_of_the_old_centroids():
    features, targets = samples(200, seed=1)
    classifier = (
        CentroidClassifier(torch.zeros(C, D)).fit(features, targets, strength=1.0).fit_temperature(features, targets)
    )
    with pytest.raises(RuntimeError, match="fit_temperature"):
        classifier.fit(features, targets, strength=0.1).predict_proba(features)


def test_sentences_for_bad_input():
    features, targets = samples()
    classifier = CentroidClassifier(torch.zeros(C, D))
    with pytest.raises(ValueError, match="strength must be positive"):
        classifier.fit(features, targets, strength=0.0)
    with pytest.raises(ValueError, match="two or more samples of some class"):
        classifier.fit(features[:C], targets[:C])
    with pytest.raises(ValueError, match="features must have shape"):
        classifier.fit(features[:, :3], targets)
