"""Calibration error and reliability against loops over bins, and where they are known."""

import math

import pytest
import torch
from batches import generator, normal
from torchmetrics.functional.classification import multiclass_calibration_error

from ncmi.evaluation import calibration_error, reliability
from ncmi.evaluation.calibration import confidence_error


def predictions(size=200, num_classes=4, seed=0):
    probabilities = (2 * normal(size, num_classes, seed=seed)).softmax(dim=1)
    return probabilities, torch.randint(num_classes, (size,), generator=generator(seed))


def by_loops(probabilities, targets, bins):
    """Count, confidence sum and right decisions of each bin [b/bins, (b+1)/bins)."""
    table = [[0, 0.0, 0] for _ in range(bins)]
    for row, target in zip(probabilities.tolist(), targets.tolist(), strict=True):
        confidence = max(row)
        cell = table[min(int(confidence * bins), bins - 1)]
        cell[0] += 1
        cell[1] += confidence
        cell[2] += row.index(confidence) == target
    return table


@pytest.mark.parametrize("bins", [1, 7, 15])
def test_equals_loops_and_torchmetrics(bins):
    probabilities, targets = predictions()
    table = by_loops(probabilities, targets, bins)
    expected = sum(abs(right - confidence) for _, confidence, right in table) / len(targets)
    assert calibration_error(probabilities, targets, bins) == pytest.approx(expected, abs=1e-12)
    theirs = multiclass_calibration_error(probabilities, targets, num_classes=4, n_bins=bins)
    assert calibration_error(probabilities, targets, bins) == pytest.approx(float(theirs), abs=1e-6)
    found = reliability(probabilities, targets, bins)
    assert found.count.tolist() == [count for count, _, _ in table]
    for index, (count, confidence, right) in enumerate(table):
        if count:
            assert float(found.confidence[index]) == pytest.approx(confidence / count, abs=1e-12)
            assert float(found.accuracy[index]) == pytest.approx(right / count, abs=1e-12)
        else:
            assert math.isnan(found.confidence[index])
            assert math.isnan(found.accuracy[index])


def test_perfect_calibration_is_zero():
    # Confidence 0.75, right three times in four; confidence 1, always right.
    probabilities = torch.tensor([[0.75, 0.25]] * 4 + [[0.0, 1.0]] * 2, dtype=torch.float64)
    assert calibration_error(probabilities, torch.tensor([0, 0, 0, 1, 1, 1])) == 0
    found = reliability(probabilities, torch.tensor([0, 0, 0, 1, 1, 1]), bins=4)
    assert found.count.tolist() == [0, 0, 0, 6]


def test_sure_and_always_wrong_is_one():
    assert calibration_error(torch.tensor([[1.0, 0.0]] * 3), torch.ones(3, dtype=torch.int64)) == 1


def test_a_confidence_that_rounds_above_one_is_one():
    confidence = torch.tensor([1.0 + 1e-6, 0.6])
    assert confidence_error(confidence, torch.tensor([True, True])) == pytest.approx(0.2, abs=1e-6)


def test_guards():
    probabilities, targets = predictions(6)
    for function in (calibration_error, reliability):
        with pytest.raises(ValueError, match="bins must be at least 1; got 0"):
            function(probabilities, targets, 0)
        with pytest.raises(ValueError, match="at least one row"):
            function(probabilities[:0], targets[:0])
        with pytest.raises(ValueError, match=r"pass scores.softmax\(1\)"):
            function(2 * probabilities, targets)
        with pytest.raises(ValueError, match="must be non-negative"):
            function(probabilities.log().abs().neg(), targets)
        with pytest.raises(TypeError, match="got soft labels"):
            function(probabilities, probabilities)
        with pytest.raises(ValueError, match=r"must lie in \[0, 3\]"):
            function(probabilities, targets + 4)
        with pytest.raises(ValueError, match="some are -100"):
            function(probabilities, torch.full_like(targets, -100))
