"""The anchor's term against a loop, and an anchor that really moves."""

import copy
import math

import bag_oracle
import pytest
import torch
from torch import nn

from ncmi.models.mil import ABMIL, ASMIL, Anchored, Bags, CrossAttentionMIL, TransMIL
from ncmi.models.mil.anchor import anchor_divergence


def divergence_loop(anchor, attention, temperature, released):
    """The term of one bag (N, H)."""
    total = 0.0
    for target, scores in zip(zip(*anchor.tolist(), strict=True), zip(*attention.tolist(), strict=True), strict=True):
        sigmoids = [1 / (1 + math.exp(-v / temperature)) for v in target]
        target, weights = [v / sum(sigmoids) for v in sigmoids], bag_oracle.softmax(scores)
        for t, w in zip(target, weights, strict=True):
            total += -t * math.log(w) / len(scores) if released else t * math.log(t / w)
    return total / anchor.shape[1]


@pytest.mark.parametrize("released", [False, True])
def test_the_term_against_a_loop(released):
    pairs = [torch.randn(2, length, 3, dtype=torch.float64) * 3 for length in (4, 1, 7)]
    expected = sum(divergence_loop(*pair, 0.5, released) for pair in pairs) / 3
    anchor, attention = torch.cat(pairs, dim=1)
    found = anchor_divergence(anchor, attention, [4, 1, 7], temperature=0.5, released=released)
    assert float(found) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("released", [False, True])
def test_the_gradient_of_the_term(released):
    anchor = torch.randn(6, 2, dtype=torch.float64)
    attention = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: anchor_divergence(anchor, x, [2, 4], 0.3, released), (attention,))


def test_very_low_logits_of_the_anchor():
    anchor = torch.full((5, 1), -1e4)
    assert float(anchor_divergence(anchor, torch.zeros(5, 1), [5], temperature=0.1)) == pytest.approx(0, abs=1e-6)


def run(model, steps, bag, forwards=1, optimizer=None):
    optimizer = optimizer or torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
    weights = []
    for _ in range(steps):
        for _ in range(forwards):
            output = model(bag)
        weights.append([parameter.detach().clone() for parameter in model.model.parameters()])
        optimizer.zero_grad()
        (output.features.sin().sum() + output.auxiliary).backward()
        optimizer.step()
    return weights


@pytest.mark.parametrize("forwards", [1, 3])
def test_the_anchor_is_the_moving_average_of_the_weights(forwards):
    model, bag = ASMIL(5, 8, num_tokens=2, num_dropped=0, decay=0.9).double(), torch.randn(6, 5)
    start = [parameter.detach().clone() for parameter in model.model.parameters()]
    seen = run(model, 5, bag, forwards)
    for place, parameter in enumerate(model.anchor.parameters()):
        expected = start[place]
        for weights in seen[1:]:  # the weights after each step that a forward pass followed
            expected = 0.9 * expected + 0.1 * weights[place]
        torch.testing.assert_close(parameter, expected, rtol=1e-12, atol=1e-15)
        assert parameter.grad is None
    assert any(not torch.equal(a, b) for a, b in zip(start, model.anchor.parameters(), strict=True))


def test_the_anchor_rests_in_evaluation():
    model, bag = ASMIL(5, 8, num_tokens=2, num_dropped=0, decay=0.5), torch.randn(6, 5)
    run(model, 2, bag)
    before = copy.deepcopy(model.state_dict())
    model.eval()(bag)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model.train()(bag)
    assert not torch.equal(model.state_dict()["anchor.projection.weight"], before["anchor.projection.weight"])


def test_a_resumed_run_is_the_same_to_the_bit():
    bag, first = torch.randn(6, 5), ASMIL(5, 8, num_tokens=3, num_dropped=1)
    run(first, 3, bag)
    resumed = ASMIL(5, 8, num_tokens=3, num_dropped=1)
    resumed.load_state_dict(copy.deepcopy(first.state_dict()))
    random = torch.get_rng_state()
    run(first, 3, bag)
    torch.set_rng_state(random)
    run(resumed, 3, bag)
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in first.state_dict().items())
    assert int(first.counter.steps) == 5  # the sixth step has not been followed by a forward pass


def test_at_the_start_the_anchor_is_a_copy_without_dropout():
    model = Anchored(ABMIL(5, 8, dropout=0.5))
    bag = torch.randn(6, 5)
    assert model.training
    assert model.model.training
    assert not model.anchor.training
    assert torch.equal(model.anchor.attention_logits(bag, [6]), model.eval()(bag).attention)
    model.train()
    assert model.model.training
    assert not any(part.training for part in model.anchor.modules())
    assert not any(parameter.requires_grad for parameter in model.anchor.parameters())


@pytest.mark.parametrize(
    "model", [ABMIL(5, 8), CrossAttentionMIL(5, 8), TransMIL(5, 8)], ids=lambda model: type(model).__name__
)
def test_any_model_can_have_an_anchor(model):
    anchored, bags = Anchored(model, weight=2.0).eval(), Bags.pack([torch.randn(4, 5), torch.randn(6, 5)])
    bare, output = model(bags), anchored(bags)
    assert torch.equal(output.features, bare.features)
    expected = 2 * anchor_divergence(bare.attention, bare.attention, [4, 6], 0.5)
    torch.testing.assert_close(output.auxiliary, expected)
    assert torch.equal(anchored.attention_logits(bags.instances, [4, 6]), bare.attention)


class Normalized(ABMIL):
    """A model with running statistics."""

    def __init__(self):
        super().__init__(5, 8)
        self.statistics = nn.BatchNorm1d(5)

    def forward_bags(self, instances, sizes):
        return super().forward_bags(self.statistics(instances), sizes)


def test_running_statistics_reach_the_anchor():
    model = Anchored(Normalized())
    for _ in range(3):
        model(3 + torch.randn(6, 5))
    assert int(model.anchor.statistics.num_batches_tracked) == 2  # as of the step before
    assert float(model.anchor.statistics.running_mean.mean()) > 0.3


def test_what_cannot_be_built():
    with pytest.raises(TypeError, match=r"Anchored: model must be a bag model; got Linear\. Wrap it first"):
        Anchored(nn.Linear(2, 2))
    with pytest.raises(
        ValueError, match=r"Anchored: temperature must be positive and finite; got 0\. The default is 0\.5"
    ):
        Anchored(ABMIL(5, 8), temperature=0)
    with pytest.raises(ValueError, match=r"Anchored: weight must be a finite number of at least 0; got -1"):
        Anchored(ABMIL(5, 8), weight=-1)
    with pytest.raises(ValueError, match=r"released=True needs anchor=….*Build the model twice"):
        Anchored(ABMIL(5, 8), released=True)
    with pytest.raises(
        ValueError, match=r"anchor must have the parameters of model.*Build both with the same arguments"
    ):
        Anchored(ABMIL(5, 8), anchor=ABMIL(5, 16))
