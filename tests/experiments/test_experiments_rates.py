"""The grid of learning rates: its default, its extension, and the choice."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncmi.experiments.rates import best_rate, default_rates, next_rate, rung, search_rates


def search(start, score):
    """Run a search to its end, with an score for any rate; the rates in the order they were asked for, and the best."""
    scores, asked = {}, []
    while True:
        rates, best = search_rates(start, scores)
        if best is not None:
            return asked, best
        new = [rate for rate in rates if rate not in scores]
        assert new
        asked += new
        scores |= {rate: score(rate) for rate in new}


@pytest.mark.parametrize(
    ("rate", "grid"),
    [(0.1, [0.03, 0.1, 0.3]), (0.3, [0.1, 0.3, 1.0]), (1.0, [0.3, 1.0, 3.0]), (1e-4, [3e-5, 1e-4, 3e-4]),
     (0.2, [0.1, 0.2, 1.0]), (0.05, [0.01, 0.05, 0.1])],
)  # fmt: skip
def test_the_default_grid_is_about_a_third_and_three_times(rate, grid):
    assert default_rates(rate) == grid


def test_the_best_in_the_middle_needs_no_extension():
    assert search([0.1, 0.3, 1.0], lambda rate: -abs(math.log(rate / 0.3))) == ([0.1, 0.3, 1.0], 0.3)


def test_the_grid_grows_at_the_end_that_is_best():
    assert search([0.1, 0.3], lambda rate: -abs(math.log(rate / 1.0))) == ([0.1, 0.3, 1.0, 3.0], 1.0)
    assert search([0.1, 0.3], lambda rate: -abs(math.log(rate / 0.03))) == ([0.1, 0.3, 0.03, 0.01], 0.03)


def test_it_grows_twice_at_most():
    assert search([0.1, 0.3, 1.0], lambda rate: rate) == ([0.1, 0.3, 1.0, 3.0, 10.0], 10.0)
    assert search([0.1, 0.3, 1.0], lambda rate: -rate) == ([0.1, 0.3, 1.0, 0.03, 0.01], 0.01)


def test_a_single_rate_is_the_callers():
    assert search([0.1], lambda rate: rate) == ([0.1], 0.1)


def test_ties_and_failures_go_down():
    assert best_rate({0.3: 0.9, 0.1: 0.9, 1.0: 0.9}) == 0.1
    assert best_rate({0.3: 0.0, 0.1: None}) == 0.3
    assert search([0.1, 0.3, 1.0], lambda rate: None) == ([0.1, 0.3, 1.0, 0.03, 0.01], 0.01)
    assert search([0.3, 1.0], lambda rate: None if rate > 0.1 else 0.5) == ([0.3, 1.0, 0.1, 0.03], 0.03)


@given(st.floats(1e-6, 1e3))
def test_rungs_are_near_and_short(rate):
    found = rung(rate)
    assert abs(math.log(found / rate)) <= math.log(10 / 3) / 2 + 1e-9
    assert f"{found:e}"[0] in "13"
    assert float(f"{found:.0e}") == found
    assert 1.5 < next_rate(rate, up=True) / rate < 6.1
    assert 1.5 < rate / next_rate(rate, up=False) < 6.1


@given(st.dictionaries(st.sampled_from([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]), st.integers(0, 9)))
def test_the_choice_is_the_argmax_of_what_was_tried(scores):
    asked, best = search([0.03, 0.1, 0.3], lambda rate: scores.get(rate, 5))
    assert best == min(asked, key=lambda rate: (-scores.get(rate, 5), rate))
    assert min(asked) < best < max(asked) or len(asked) == 5
