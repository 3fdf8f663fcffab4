"""ASMIL: its tokens against a loop, packed against padded, and the published code's anchor."""

import copy
import math
from itertools import chain

import bag_oracle
import pytest
import torch
from torch import nn

from ncmi.models.mil import ASMIL, Bags, TokenMIL


def tokens(**options):
    model = TokenMIL(5, 6, num_heads=3, num_tokens=3, **{"num_dropped": 1, **options}).double()
    for block in (*model.tokens, model.summary):
        nn.init.normal_(block.query)  # their start is so small that a wrong product with it would not show
    return model


def test_tokens_against_a_loop():
    model, bag = tokens().eval(), torch.randn(4, 5, dtype=torch.float64)
    hidden = [bag_oracle.relu(bag_oracle.linear(model.projection, row)) for row in bag.tolist()]
    answers, logits = zip(*(bag_oracle.query_attention(block, hidden) for block in model.tokens), strict=True)
    expected, _ = bag_oracle.query_attention(model.summary, answers)
    output = model(bag)
    torch.testing.assert_close(output.features, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-11)
    side_by_side = [[*chain(*rows)] for rows in zip(*logits, strict=True)]
    torch.testing.assert_close(
        output.attention, torch.tensor(side_by_side, dtype=torch.float64), rtol=1e-11, atol=1e-11
    )
    assert torch.equal(model.attention_logits(bag, [4]), output.attention)


def test_packed_equals_padded_with_a_mask():
    model = tokens().eval()
    bags = [torch.randn(length, 5, dtype=torch.float64) for length in (3, 7, 1)]
    rows, mask = bag_oracle.padded(bags)
    hidden = model.projection(rows).relu()
    answers, logits = zip(
        *(bag_oracle.padded_query_attention(block, hidden, mask) for block in model.tokens), strict=True
    )
    all_there = torch.ones(3, 3, dtype=torch.bool)
    features, _ = bag_oracle.padded_query_attention(model.summary, torch.stack(answers, dim=1), all_there)
    features.sin().sum().backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    output = model(Bags.pack(bags))
    torch.testing.assert_close(output.features, features, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(output.attention, torch.cat(logits, dim=2)[mask], rtol=1e-12, atol=1e-12)
    output.features.sin().sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-11, atol=1e-12, msg=name)


def test_training_drops_tokens_at_random():
    model, bag = tokens(dropout=0.0), torch.randn(4, 5, dtype=torch.float64)
    whole = model.eval()(bag)
    model.train()
    kept = []
    for place in range(3):
        few = copy.deepcopy(model).eval()
        few.num_tokens = 2
        del few.tokens[place]
        kept.append(few(bag).features)
    seen = [model(bag) for _ in range(40)]
    which = [[torch.allclose(output.features, one, rtol=1e-10) for one in kept].index(True) for output in seen]
    assert set(which) == {0, 1, 2}
    assert all(torch.equal(output.attention, whole.attention) for output in seen)
    group = model(Bags.pack([bag] * 40)).features
    assert len({tuple(round(v, 9) for v in row) for row in group.tolist()}) == 3  # each bag draws for itself


def test_released_the_anchor_is_another_network_that_never_moves():
    model, bag = ASMIL(5, 8, num_tokens=2, num_dropped=0, released=True), torch.randn(6, 5)
    start = copy.deepcopy(model.anchor.state_dict())
    assert not torch.equal(model.anchor.projection.weight, model.model.projection.weight)
    optimizer = torch.optim.SGD(model.model.parameters(), lr=0.1)
    for _ in range(4):
        model(bag).auxiliary.backward()
        optimizer.step()
    assert all(torch.equal(value, start[name]) for name, value in model.anchor.state_dict().items())


def test_released_the_target_is_almost_uniform():
    model, bag = ASMIL(384, released=True).eval(), torch.randn(1500, 384)
    target = (model.anchor.attention_logits(bag, [1500]) / 0.5).sigmoid()
    target = target / target.sum(dim=0)
    entropy = -(target * target.log()).sum(dim=0) / math.log(1500)
    assert float(entropy.min()) > 0.999
    # Divided by the instances, the term is next to nothing: about ln N / N.
    assert float(model(bag).auxiliary.detach()) == pytest.approx(math.log(1500) / 1500, rel=0.01)
