"""The entropy term against a loop; its weight over the steps of a run."""

import copy
import math

import pytest
import torch
from torch import nn

from ncmi.models.mil import ABMIL, AEM, Bags, TransMIL, create_bag_model
from ncmi.models.mil.aem import negative_entropy


def entropy_loop(logits):
    """Σ α ln α of one bag (N, H), averaged over heads."""
    heads = []
    for column in zip(*logits.tolist(), strict=True):
        total = sum(math.exp(v) for v in column)
        heads.append(sum(math.exp(v) / total * math.log(math.exp(v) / total) for v in column))
    return sum(heads) / len(heads)


def test_against_a_loop():
    bags = [torch.randn(length, 3, dtype=torch.float64) for length in (4, 1, 6)]
    expected = sum(entropy_loop(bag) for bag in bags) / 3
    assert float(negative_entropy(torch.cat(bags), [4, 1, 6])) == pytest.approx(expected, rel=1e-12)


def test_bounds():
    assert float(negative_entropy(torch.zeros(50, 8), [50])) == pytest.approx(-math.log(50), rel=1e-6)
    spike = torch.zeros(50, 1)
    spike[3] = 1e5
    assert float(negative_entropy(spike, [50])) == 0


def test_gradient():
    logits = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: negative_entropy(x, [3, 4]), (logits,))


@pytest.mark.parametrize("base", ["cross_attention", "abmil", "transmil"])
def test_the_term_on_a_model(base):
    model = create_bag_model("aem", 5, base=base, num_features=16, weight=0.25).double().eval()
    bags = [torch.randn(length, 5, dtype=torch.float64) for length in (4, 9)]
    output, bare = model(Bags.pack(bags)), model.model(Bags.pack(bags))
    assert torch.equal(output.features, bare.features)
    assert torch.equal(output.attention, bare.attention)
    expected = 0.25 * sum(entropy_loop(bare.attention[part]) for part in (slice(4), slice(4, None))) / 2
    assert float(output.auxiliary.detach()) == pytest.approx(expected, rel=1e-12)
    assert torch.equal(model.attention_logits(torch.cat(bags), [4, 9]), bare.attention)


def test_the_term_spreads_attention():
    model, bag = AEM(ABMIL(5, 8)), 5 * torch.randn(20, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    before = float(negative_entropy(model(bag).attention, [20]).detach())
    for _ in range(30):
        optimizer.zero_grad()
        model(bag).auxiliary.backward()
        optimizer.step()
    assert float(negative_entropy(model(bag).attention, [20]).detach()) < before


def test_annealing_goes_by_optimiser_steps():
    model, bag = AEM(ABMIL(5, 8).double(), weight=0.2, total_steps=4), torch.randn(6, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for time in range(7):
        for _ in range(3):  # bags one by one, or a gradient cache
            output = model(bag)
        expected = 0.2 * 0.5 * (1 + math.cos(math.pi * min(time, 4) / 4))
        assert float(model.current_weight()) == pytest.approx(expected, rel=1e-12, abs=1e-17)
        entropy = float(negative_entropy(output.attention, [6]).detach())
        assert float(output.auxiliary.detach()) == pytest.approx(expected * entropy, rel=1e-12, abs=1e-16)
        optimizer.zero_grad()
        output.features.sum().backward()
        optimizer.step()
        model.eval()(bag)
        model.train()


def test_annealing_resumes():
    model, bag = AEM(ABMIL(5, 8), total_steps=10), torch.randn(6, 5)
    for _ in range(3):
        model(bag)
        nn.init.normal_(model.model.projection.weight)
    other = AEM(ABMIL(5, 8), total_steps=10)
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    assert torch.equal(model(bag).auxiliary, other(bag).auxiliary)
    assert int(other.counter.steps) == int(model.counter.steps) == 3


def test_a_constant_weight_has_nothing_to_count():
    model, bag = AEM(ABMIL(5, 8)), torch.randn(6, 5)
    model(bag)
    nn.init.normal_(model.model.projection.weight)
    model(bag)
    assert int(model.counter.steps) == 0
    assert model.current_weight() == 0.1


def test_what_cannot_be_built():
    with pytest.raises(TypeError, match=r"AEM: model must be a bag model; got Linear\. Wrap it first: as_bag_model"):
        AEM(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"AEM: weight must be a finite number of at least 0; got -1"):
        AEM(ABMIL(5, 8), weight=-1)
    with pytest.raises(ValueError, match=r"AEM: total_steps must be at least 1, .*got 0\. Leave it out"):
        AEM(ABMIL(5, 8), total_steps=0)


def test_terms_add_up():
    bag = torch.randn(6, 5)
    twice = AEM(AEM(TransMIL(5, 8), weight=0.1), weight=0.2).eval()
    once = AEM(twice.model.model, weight=0.3).eval()
    torch.testing.assert_close(twice(bag).auxiliary, once(bag).auxiliary)
