"""ABMIL against a loop, and packed against padded with a mask."""

import math

import bag_oracle
import pytest
import torch

from ncmi.models.mil import ABMIL, Bags


def test_against_a_loop():
    model, bag = ABMIL(5, 4, attention_width=3, bias=True).double(), torch.randn(6, 5, dtype=torch.float64)
    hidden = [bag_oracle.relu(bag_oracle.linear(model.projection, row)) for row in bag.tolist()]
    logits = []
    for row in hidden:
        content = [math.tanh(v) for v in bag_oracle.linear(model.attention.content, row)]
        gate = [1 / (1 + math.exp(-v)) for v in bag_oracle.linear(model.attention.gate, row)]
        mixed = [c * g for c, g in zip(content, gate, strict=True)]
        logits += bag_oracle.linear(model.attention.score, mixed)
    weights = bag_oracle.softmax(logits)
    expected = [bag_oracle.dot(weights, [row[d] for row in hidden]) for d in range(4)]
    output = model(bag)
    torch.testing.assert_close(output.features, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        output.attention[:, 0], torch.tensor(logits, dtype=torch.float64), rtol=1e-12, atol=1e-12
    )


def test_packed_equals_padded_with_a_mask():
    model = ABMIL(5, 4, attention_width=3).double()
    bags = [torch.randn(length, 5, dtype=torch.float64) for length in (3, 7, 1)]
    rows, mask = bag_oracle.padded(bags)
    hidden = model.projection(rows).relu()
    weights = bag_oracle.masked_weights(model.attention(hidden), mask)
    (weights * hidden).sum(dim=1).sin().sum().backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    features = model(Bags.pack(bags)).features
    torch.testing.assert_close(features, (weights * hidden).sum(dim=1), rtol=1e-12, atol=1e-12)
    features.sin().sum().backward()
    for parameter, other in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, other, rtol=1e-12, atol=1e-12)


def test_dropout_is_on_in_training_alone():
    model, bag = ABMIL(5, 4, dropout=0.25), torch.randn(6, 5)
    assert not torch.equal(model(bag).features, model(bag).features)
    model.eval()
    assert torch.equal(model(bag).features, model(bag).features)


def test_one_instance_is_the_bag():
    model, bag = ABMIL(5, 4), torch.randn(1, 5)
    torch.testing.assert_close(model(bag).features, model.projection(bag).relu()[0])
    assert bool((model(bag).features >= 0).all())


@pytest.mark.parametrize("scale", [1e-30, 1e15])
def test_extreme_features_stay_finite(scale):
    model = ABMIL(5, 4)
    output = model(torch.randn(6, 5) * scale)
    output.features.sum().backward()
    assert bool(output.features.isfinite().all())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


def test_attention_logits_alone_are_the_same():
    model, bag = ABMIL(5, 4), torch.randn(6, 5)
    assert torch.equal(model.attention_logits(bag, [6]), model(bag).attention)
