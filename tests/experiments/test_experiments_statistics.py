"""Means, deviations and paired differences: against hand computations and scipy."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ncmi.experiments.statistics import paired_difference, spread, t_interval

numbers = st.lists(st.floats(-1, 1), min_size=2, max_size=8)


def test_paired_difference_by_hand():
    # Differences 1, 2, 6: mean 3, sample variance (4 + 1 + 9) / 2 = 7, and t(0.975, 2) = 4.302653.
    found = paired_difference({0: 2.0, 1: 4.0, 2: 9.0, 7: 100.0}, {0: 1.0, 1: 2.0, 2: 3.0, 8: -100.0})
    half = 4.302652729911275 * math.sqrt(7 / 3)
    assert found.n == 3
    assert found.mean == pytest.approx(3.0)
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half))


@given(numbers, st.randoms(use_true_random=False))
def test_paired_difference_is_scipys(values, random):
    reference = [random.uniform(-1, 1) for _ in values]
    found = paired_difference(dict(enumerate(values)), dict(enumerate(reference)))
    interval = stats.ttest_rel(values, reference).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(interval), abs=1e-12)


@given(numbers)
def test_spread_is_that_of_the_standard_library(values):
    found = spread(values)
    assert found.mean == pytest.approx(statistics.fmean(values), abs=1e-12)
    assert found.deviation == pytest.approx(statistics.stdev(values), abs=1e-12)


def test_few_numbers_have_no_interval():
    assert spread([]) is None
    assert spread([2.0]) == (1, 2.0, None)
    assert t_interval([2.0]) == (1, 2.0, None, None)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
    assert t_interval([1.0, 2.0, 3.0], confidence=0.5).low > t_interval([1.0, 2.0, 3.0]).low


def test_without_scipy_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.stats", None)
    with pytest.raises(ImportError, match=r"t intervals need scipy.*pip install 'ncmi\[train\]'"):
        t_interval([1.0, 2.0])
