"""Attention weights against loops in float64, and the order of the instances."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ncmi.evaluation.attention import attention_weights, head_weights, top_instances
from ncmi.models.mil import create_bag_model


def loop_weights(logits):
    rows = logits.double().tolist()
    totals = [math.fsum(math.exp(row[head]) for row in rows) for head in range(len(rows[0]))]
    return [[math.exp(value) / total for value, total in zip(row, totals, strict=True)] for row in rows]


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 99))
def test_weights_are_a_distribution_for_each_head(count, heads, seed):
    logits = 4 * torch.randn(count, heads, generator=torch.Generator().manual_seed(seed))
    expected = torch.tensor(loop_weights(logits), dtype=torch.float64)
    torch.testing.assert_close(head_weights(logits), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(attention_weights(logits), expected.mean(dim=1), rtol=1e-12, atol=0)
    for head in range(heads):
        assert torch.equal(attention_weights(logits, head), head_weights(logits)[:, head])
    assert float(attention_weights(logits).sum()) == pytest.approx(1, abs=1e-12)


def test_huge_logits_and_half_precision_stay_finite():
    weights = head_weights(torch.tensor([[6e4], [-6e4], [6e4]], dtype=torch.float16))
    assert weights.dtype == torch.float64
    assert weights.flatten().tolist() == [0.5, 0.0, 0.5]


def test_the_mean_over_heads_is_of_weights_not_of_logits():
    logits = torch.tensor([[10.0, 0.0], [0.0, 0.0], [0.0, 10.0]])
    weights = attention_weights(logits)
    assert float(weights[0]) == pytest.approx(float(weights[2]))
    assert float(weights[1]) < 0.01


@pytest.mark.parametrize(("name", "heads"), [("abmil", 1), ("asmil", 64), ("transmil", 8)])
def test_every_bag_model_gives_weights_for_its_own_instances(name, heads):
    model = create_bag_model(name, 16, num_features=32).eval()
    with torch.no_grad():
        attention = model(torch.randn(11, 16)).attention
    assert head_weights(attention).shape == (11, heads)
    assert not head_weights(model(torch.randn(3, 16)).attention).requires_grad


def test_top_instances_come_in_order_with_shares_that_add_up():
    weights = torch.tensor([0.1, 0.4, 0.1, 0.3, 0.1], dtype=torch.float64)
    coordinates = torch.tensor([[0, 0], [256, 0], [0, 256], [512, 0], [0, 512]])
    rows = top_instances(weights, coordinates)
    assert [row.rank for row in rows] == [1, 2, 3, 4, 5]
    assert [row.index for row in rows] == [1, 3, 0, 2, 4]  # equal weights in the order of the bag
    assert [(row.x, row.y) for row in rows] == [(256, 0), (512, 0), (0, 0), (0, 256), (0, 512)]
    assert [row.weight for row in rows] == [0.4, 0.3, 0.1, 0.1, 0.1]
    assert [row.share for row in rows] == pytest.approx([0.4, 0.7, 0.8, 0.9, 1.0])
    assert rows[-1].share == 1.0
    assert top_instances(weights, coordinates, count=2) == rows[:2]
    assert top_instances(weights, coordinates, count=99) == rows


def test_without_coordinates_there_are_none():
    assert [(row.x, row.y) for row in top_instances(torch.tensor([1.0]))] == [(None, None)]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: head_weights(torch.zeros(3)), r"logits must have shape \(N, H\).* got \(3,\)"),
        (lambda: head_weights(torch.zeros(0, 2)), r"at least one instance.* got \(0, 2\)"),
        (lambda: head_weights(torch.tensor([[0.0], [torch.nan]])), r"1 of 2 instances .*first at 1"),
        (lambda: attention_weights(torch.zeros(3, 2), 2), r"head must lie in \[0, 1\].* 2 attention heads; got 2"),
        (lambda: attention_weights(torch.zeros(3, 1), -1), r"head must lie in \[0, 0\].* 1 attention head; got -1"),
        (lambda: top_instances(torch.ones(2), count=0), "count must be at least 1; got 0"),
        (lambda: top_instances(torch.ones(2), torch.zeros(3, 2)), r"coordinates must have shape \(2, 2\).*\(3, 2\)"),
    ],
)
def test_guards(call, words):
    with pytest.raises(ValueError, match=words):
        call()
