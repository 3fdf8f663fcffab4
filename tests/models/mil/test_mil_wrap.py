"""A user's attention model becomes a bag model, or hears why it cannot."""

import copy

import pytest
import torch
from torch import nn

from ncmi.models.mil import ABMIL, AEM, Anchored, BagOutput, Bags, as_bag_model


class Pair(nn.Module):
    """Returns vector and logits."""

    def __init__(self, shape=lambda logits: logits):
        super().__init__()
        self.score = nn.Linear(6, 1)
        self.shape = shape

    def forward(self, bag):
        logits = self.score(bag)
        return (logits.softmax(dim=0) * bag).sum(dim=0), self.shape(logits)


class Classifier(nn.Module):
    """A batch of one bag in, class logits out; what is wanted happens inside."""

    def __init__(self):
        super().__init__()
        self.attention_net = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
        self.pool = nn.Identity()
        self.unused = nn.Identity()
        self.head = nn.Linear(6, 3)

    def forward(self, bags):
        weights = self.attention_net(bags).softmax(dim=1)
        return {"logits": self.head(self.pool((weights * bags).sum(dim=1)))}


class WithTerm(nn.Module):
    in_features = 6
    num_features = 6

    def forward(self, bag):
        return BagOutput(bag.mean(dim=0), bag[:, :2], bag.sum())


BAGS = [torch.arange(6.0 * length).view(length, 6).sin() for length in (4, 7)]


@pytest.mark.parametrize(
    "shape",
    [lambda x: x, lambda x: x[:, 0], lambda x: x.mT, lambda x: x[None]],
    ids=["(N, 1)", "(N,)", "(1, N)", "(1, N, 1)"],
)
def test_a_pair(shape):
    module = Pair(shape)
    model = as_bag_model(module, in_features=6, num_features=6)
    for bag in BAGS:
        output = model(bag)
        assert torch.equal(output.features, module(bag)[0])
        assert torch.equal(output.attention, module.score(bag))
        assert output.auxiliary == 0
    group = model(Bags.pack(BAGS))
    torch.testing.assert_close(group.features, torch.stack([module(bag)[0] for bag in BAGS]))
    assert group.attention.shape == (11, 1)
    half = model(BAGS[0].half())
    assert half.features.dtype == torch.float32


def test_parts_inside():
    module = Classifier()
    model = as_bag_model(module, 6, 6, pooling="pool", attention="attention_net.2", batched=True)
    output = model(BAGS[0])
    torch.testing.assert_close(output.attention, module.attention_net(BAGS[0]))
    torch.testing.assert_close(module.head(output.features), module(BAGS[0][None])["logits"][0])
    assert not any(part._forward_hooks for part in module.modules())
    output.features.sum().backward()
    assert module.attention_net[0].weight.grad is not None
    assert copy.deepcopy(model)(BAGS[0]).features.equal(output.features)


def test_own_terms_and_widths():
    model = as_bag_model(WithTerm())
    assert (model.in_features, model.num_features) == (6, 6)
    output = model(Bags.pack(BAGS))
    torch.testing.assert_close(output.auxiliary, (BAGS[0].sum() + BAGS[1].sum()) / 2)
    assert output.attention.shape == (11, 2)


def test_entropy_and_anchor_on_a_wrapped_model():
    model = as_bag_model(Pair(), in_features=6, num_features=6)
    assert float(AEM(model)(BAGS[0]).auxiliary.detach()) < 0
    anchored = Anchored(model)
    assert float(anchored(BAGS[0]).auxiliary.detach()) >= 0
    assert anchored.anchor.body.score.weight is not model.body.score.weight


def test_a_bag_model_stays_itself():
    model = ABMIL(5, 8)
    assert as_bag_model(model) is model


class Returns(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, bag):
        return self.value


@pytest.mark.parametrize(
    ("value", "kind", "sentence"),
    [
        (torch.zeros(6), TypeError, r"a pair of bag vector and attention logits; got Tensor\. Name the submodules"),
        (([], torch.zeros(4)), TypeError, r"the bag vector must be one tensor; got list"),
        (
            (torch.zeros(5), torch.zeros(4)),
            ValueError,
            r"shape \(6,\) or \(1, 6\) because .*got \(5,\)\. Pass num_features=5",
        ),
        ((torch.zeros(4, 6), torch.zeros(4)), ValueError, r"got \(4, 6\)\. Pool the instances"),
        ((torch.tensor(0.0), torch.zeros(4)), ValueError, r"got \(\)\. Pool the instances"),
        ((torch.zeros(6), None), TypeError, r"attention must be one tensor; got NoneType"),
        (
            (torch.zeros(6), torch.zeros(3, 4)),
            ValueError,
            r"a bag of 4 instances; got \(3, 4\)\. Put the instances before",
        ),
    ],
)
def test_what_a_module_must_not_return(value, kind, sentence):
    with pytest.raises(kind, match=sentence):
        as_bag_model(Returns(value), 6, 6)(BAGS[0])


def test_what_cannot_be_wrapped():
    with pytest.raises(ValueError, match=r"the in_features of Pair is not known\. Pass in_features=…"):
        as_bag_model(Pair())
    with pytest.raises(ValueError, match=r"num_features=7 contradicts the module's own num_features=6"):
        as_bag_model(WithTerm(), num_features=7)
    with pytest.raises(ValueError, match=r"named together; got pooling='pool' and attention=None"):
        as_bag_model(Classifier(), 6, 6, pooling="pool")
    with pytest.raises(ValueError, match=r"pooling must be one of .*'pool'.*got 'pol'\. Did you mean 'pool'"):
        as_bag_model(Classifier(), 6, 6, pooling="pol", attention="head")
    model = as_bag_model(Classifier(), 6, 6, pooling="unused", attention="attention_net", batched=True)
    with pytest.raises(ValueError, match=r"the submodule 'unused' took no part in the forward pass"):
        model(BAGS[0])
