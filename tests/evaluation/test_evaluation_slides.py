"""Slide metrics against scikit-learn, intervals against resampling by loops, and their corners."""

import math
import warnings

import pytest
import torch
from batches import generator, normal
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score

from ncmi.evaluation.slides import (
    SlideMetrics,
    evaluate_slides,
    over_splits,
    slide_metrics,
    weighted_metrics,
)


def predictions(size=60, num_classes=3, seed=0, present=None, digits=None):
    """Probabilities that know something of the targets; with ``digits`` they have ties."""
    targets = torch.randint(present or num_classes, (size,), generator=generator(seed))
    scores = normal(size, num_classes, seed=seed) + torch.nn.functional.one_hot(targets, num_classes)
    probabilities = scores.softmax(dim=1)
    if digits is not None:
        probabilities = (probabilities * 10**digits).round() + 1
        probabilities /= probabilities.sum(dim=1, keepdim=True)
    return probabilities, targets


def by_sklearn(probabilities, targets):
    decisions, scores, labels = probabilities.argmax(dim=1).tolist(), probabilities.double(), targets.tolist()
    aucs = [
        roc_auc_score([label == own for label in labels], scores[:, own].tolist())
        for own in sorted(set(labels))
        if len(set(labels)) > 1
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of decisions for a class that does not occur, or of a single class
        balanced = balanced_accuracy_score(labels, decisions)
    return (
        f1_score(labels, decisions, average="macro", zero_division=0),
        f1_score(labels, decisions, average="micro"),
        sum(aucs) / len(aucs) if aucs else math.nan,
        balanced,
    )


@pytest.mark.parametrize(("num_classes", "present"), [(2, 2), (3, 3), (4, 2), (7, 5), (4, 1)])
@pytest.mark.parametrize("digits", [None, 1])
def test_equals_scikit_learn(num_classes, present, digits):
    for seed in range(4):
        case = predictions(40, num_classes, seed, present, digits)
        expected = pytest.approx(by_sklearn(*case), abs=1e-6, nan_ok=True)
        assert tuple(slide_metrics(*case)) == expected
        weights = torch.ones(1, 40, dtype=torch.float64)
        assert weighted_metrics(case[0].double(), case[1], weights)[0].tolist() == expected


def test_two_classes_equal_the_usual_auc():
    probabilities, targets = predictions(50, 2)
    assert slide_metrics(probabilities, targets).macro_auc == pytest.approx(
        roc_auc_score(targets, probabilities[:, 1]), abs=1e-6
    )


def test_all_negative_on_the_camelyon17_test_part():
    # 121, 16, 18 and 45 slides, all called negative: accuracy 0.605, macro F1 0.188.
    targets = torch.arange(4).repeat_interleave(torch.tensor([121, 16, 18, 45]))
    metrics = slide_metrics(torch.tensor([[0.7, 0.1, 0.1, 0.1]]).repeat(200, 1), targets)
    assert [round(value, 3) for value in metrics] == [0.188, 0.605, 0.5, 0.25]


def test_weights_are_repetitions():
    probabilities, targets = predictions(30, 4, seed=3, digits=1)
    weights = torch.randint(4, (20, 30), generator=generator(5)).double()
    found = weighted_metrics(probabilities.double(), targets, weights)
    for row, times in zip(found.tolist(), weights.long(), strict=True):
        repeated = probabilities.repeat_interleave(times, dim=0), targets.repeat_interleave(times)
        assert row == pytest.approx(by_sklearn(*repeated), abs=1e-9, nan_ok=True)


def test_resamples_are_of_whole_patients():
    # One patient has half of the slides, all wrong: over patients the accuracy is often 1, over slides never.
    targets = torch.tensor([0, 1] * 20)
    probabilities = torch.nn.functional.one_hot(targets, 2).double()
    probabilities[20:] = 1 - probabilities[20:]
    patients = [f"p{index}" for index in range(20)] + ["many"] * 20
    found = evaluate_slides(probabilities, targets, patients)
    assert (found.num_slides, found.num_patients) == (40, 21)
    assert found.high.micro_f1 == 1
    assert found.metrics.micro_f1 == 0.5
    single = evaluate_slides(probabilities, targets, range(40))
    assert single.high.micro_f1 < 0.75


def test_intervals_are_those_of_an_ordinary_bootstrap():
    probabilities, targets = predictions(80, 3, seed=7)
    patients = [index // 2 for index in range(80)]
    found = evaluate_slides(probabilities, targets, patients, resamples=4000)
    draws, random = [], generator(11)
    for _ in range(1500):
        people = torch.randint(40, (40,), generator=random)
        chosen = torch.cat((2 * people, 2 * people + 1))
        draws.append(by_fast_accuracy(probabilities[chosen], targets[chosen]))
    ends = torch.tensor(draws, dtype=torch.float64).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))
    assert [found.low.micro_f1, found.high.micro_f1] == pytest.approx(ends.tolist(), abs=0.02)
    assert all(low <= value <= high for low, value, high in zip(found.low, found.metrics, found.high, strict=True))


def by_fast_accuracy(probabilities, targets):
    return float((probabilities.argmax(dim=1) == targets).double().mean())


def test_intervals_depend_on_the_seed_alone_and_widen_with_the_level():
    case = (*predictions(50, 3, seed=1), [index % 17 for index in range(50)])
    first = evaluate_slides(*case, resamples=1000)
    torch.manual_seed(5)
    assert evaluate_slides(*case, resamples=1000) == first
    assert evaluate_slides(*case, resamples=1000, seed=1).low != first.low
    wide = evaluate_slides(*case, resamples=1000, level=0.99)
    assert wide.low.macro_f1 < first.low.macro_f1
    assert wide.high.macro_auc > first.high.macro_auc


def test_pieces_make_no_difference(monkeypatch):
    case = (*predictions(30, 3, seed=1), range(30))
    whole = evaluate_slides(*case, resamples=1000)
    monkeypatch.setattr("ncmi.evaluation.slides._CHUNK", 30 * 77)
    assert evaluate_slides(*case, resamples=1000) == whole


def test_absent_classes_are_named_and_left_out():
    probabilities, targets = predictions(40, 4, seed=2, present=3)
    found = evaluate_slides(probabilities, targets, range(40), resamples=1000)
    assert found.absent_classes == (3,)
    assert found.metrics.macro_auc == pytest.approx(by_sklearn(probabilities, targets)[2], abs=1e-6)


def test_one_class_has_no_auc():
    found = evaluate_slides(torch.full((5, 2), 0.5), torch.zeros(5, dtype=torch.int64), range(5), resamples=1000)
    assert math.isnan(found.metrics.macro_auc)
    assert math.isnan(found.low.macro_auc)
    assert found.metrics.micro_f1 == found.low.micro_f1 == 1


def test_several_splits():
    results = [slide_metrics(*predictions(40, 3, seed)) for seed in range(5)]
    summary = over_splits(results)
    table = torch.tensor(results, dtype=torch.float64)
    assert summary.n == 5
    assert list(summary.mean) == pytest.approx(table.mean(dim=0).tolist())
    assert list(summary.sd) == pytest.approx(table.std(dim=0).tolist())
    assert math.isnan(over_splits(results[:1]).sd.macro_f1)
    assert over_splits(results[:1]).mean == SlideMetrics(*results[0])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda p, t: slide_metrics(p * 2, t), ValueError, "rows that sum to one; .* For scores pass scores.softmax"),
        (
            lambda p, t: slide_metrics(p[0], t),
            ValueError,
            r"must have shape \(N, C\) with at least one row; got \(3,\)",
        ),
        (lambda p, t: slide_metrics(p, t + 1), ValueError, r"targets must lie in \[0, 2\]"),
        (lambda p, t: slide_metrics(p, t.float()), TypeError, "got soft labels"),
        (lambda p, t: slide_metrics(p, torch.full_like(t, -100)), ValueError, "some are -100. Leave those rows out"),
        (lambda p, t: evaluate_slides(p, t, range(3)), ValueError, "patients must name one a slide, 20; got 3"),
        (lambda p, t: evaluate_slides(p, t, range(20), resamples=99), ValueError, "resamples must be at least 1000"),
        (lambda p, t: evaluate_slides(p, t, range(20), level=95), ValueError, r"level must lie in \(0, 1\); got 95"),
        (lambda p, t: over_splits([]), ValueError, "at least one split; it is empty"),
    ],
)
def test_bad_arguments_get_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(*predictions(20, 3))
