"""The item on Theorem 1: its pair formulas are the equations', its minima are minima, and its words follow from its rows."""

import oracle
import pytest
import torch

from ncmi.experiments.reproduce.item import Place
from ncmi.experiments.reproduce.measured import MeasuredRows
from ncmi.experiments.reproduce.theorem import ITEM, measure, problems
from ncmi.experiments.reproduce.theorem_numbers import (
    FORMS,
    Problem,
    class_means,
    descend,
    line,
    objective,
    printed_minimum,
    solve,
)

PROBLEM = Problem(classes=3, features=5, smallest=3, scatter=0.8, seed=0)


@pytest.fixture(scope="module")
def row():
    return solve(PROBLEM)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "out", tmp_path / "runs", "smoke", say=lambda line: None)


@pytest.mark.parametrize("form", FORMS)
def test_objective_is_the_equation_pair_by_pair(form):
    probs, targets = PROBLEM.points()
    q = torch.randn(3, 5, dtype=torch.float64).softmax(dim=1)
    expected = oracle.theorem1(probs, oracle.one_hot(targets, 3), q, printed=form == "printed")
    torch.testing.assert_close(tuple(objective(form, probs, targets, q)), expected, rtol=1e-12, atol=0)


def test_row_agrees_with_loops_and_with_the_linear_time_code(row):
    probs, targets = PROBLEM.points()
    mass = oracle.one_hot(targets, 3)
    expected = float(oracle.cmi(probs, mass) / oracle.gamma(probs, mass))
    for value in (row["ncmi"], row["linear_time"], row["linear_time_at_means"], row["corrected"]["at_means"]):
        assert value == pytest.approx(expected, rel=1e-12)
    assert max(row["identity_above"], row["identity_below"]) < 1e-15


def test_corrected_minimum_is_ncmi_and_the_printed_one_is_not(row):
    assert row["corrected"]["lowest"] == pytest.approx(row["ncmi"], rel=1e-12)
    assert row["corrected"]["distance"] < 1e-6
    assert row["printed"]["lowest"] == pytest.approx(row["printed"]["minimum"], rel=1e-10)
    assert abs(row["printed"]["minimum"] / row["ncmi"] - 1) > 0.1
    assert row["printed"]["distance"] > 0.01


def test_no_random_centroids_are_below_the_printed_minimum():
    probs, targets = PROBLEM.points()
    lowest = objective("printed", probs, targets, printed_minimum(probs, targets)).ratio
    checked = 0
    for scale in torch.linspace(0.01, 1, 200):
        q = (class_means(probs, targets).log() + scale * torch.randn(3, 5, dtype=torch.float64)).softmax(dim=1)
        parts = objective("printed", probs, targets, q)
        if float(parts.below) > 0:
            assert parts.ratio > lowest
            checked += 1
    assert checked > 50


def test_descent_does_not_leave_through_the_pole():
    probs, targets = PROBLEM.points()
    # Near the pole, where a first step along the gradient would cross it.
    values = line(PROBLEM, "corners")
    last = max(t for t, (_, below) in zip(values["t"], values["corrected"], strict=True) if below > 0)
    corner = (6 * torch.eye(3, 5, dtype=torch.float64)).softmax(dim=1)
    start = ((1 - last) * class_means(probs, targets).log() + last * corner.log()).softmax(dim=1)
    end = descend(lambda q: objective("corrected", probs, targets, q), start)
    assert objective("corrected", probs, targets, end).ratio == pytest.approx(solve(PROBLEM)["ncmi"], rel=1e-9)


def test_piece_before_and_after_measuring(place):
    assert "Nothing is measured yet" in ITEM.piece(place).markdown
    measure(place)
    text = MeasuredRows(place.out).path.read_text()
    measure(place)
    assert MeasuredRows(place.out).path.read_text() == text, "rows that are there are not measured again"
    piece = ITEM.piece(place)
    count = len(problems("smoke"))
    assert f"equals NCMI in {count} of {count} problems" in piece.markdown
    assert f"another number than NCMI in {count} of {count} problems" in piece.markdown
    assert "it is negative from t =" in piece.markdown
    assert list(piece.figures) == ["lines"]


def test_piece_says_so_if_the_theorem_did_not_show(place):
    wrong = solve(PROBLEM)
    wrong["corrected"]["lowest"] *= 0.9
    MeasuredRows(place.out).add([wrong])
    piece = ITEM.piece(place)
    assert "equals NCMI in 0 of 1 problems" in piece.markdown
    assert not piece.figures


def test_smoke_is_a_part_of_small():
    assert set(problems("smoke")) < set(problems("small")) == set(problems("full"))
