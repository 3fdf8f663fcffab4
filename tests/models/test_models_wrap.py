"""A user's module becomes a network of the contract, or hears why it cannot."""

import pytest
import torch
from torch import nn

from ncmi.models import as_backbone, create_model


def body():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.BatchNorm1d(6), nn.Dropout(0.5))


def images(batch=4):
    return torch.randn(batch, 3, 2, 2)


class WithWidth(nn.Module):
    num_features = 6

    def __init__(self):
        super().__init__()
        self.body = body()

    def forward(self, images):
        return self.body(images)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda: as_backbone(body(), num_features=6),
        lambda: as_backbone(body(), example=images()),
        lambda: as_backbone(body(), num_features=6, example=images()),
        lambda: as_backbone(WithWidth()),
    ],
    ids=["given", "shown", "both", "attribute"],
)
def test_the_contract(wrap):
    model = wrap().eval()
    batch = images()
    assert (model.num_features, model.num_classes) == (6, 0)
    features = model(batch)
    assert features.shape == (4, 6)
    assert torch.equal(model.body(batch), features)
    assert torch.equal(model.forward_features(batch), features)
    assert torch.equal(model.forward_head(features), features)
    assert torch.equal(model.forward_head(features, pre_logits=True), features)


def test_a_network_of_the_contract_stays_itself():
    model = create_model("resnet8_slim")
    assert as_backbone(model) is model
    assert as_backbone(model, num_features=64) is model
    with pytest.raises(ValueError, match=r"num_features=32 contradicts the module's own num_features=64"):
        as_backbone(model, num_features=32)


def test_the_example_changes_nothing():
    module = body()
    module[3].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    batch = images()
    state = torch.get_rng_state()
    model = as_backbone(module, example=batch)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert [part.training for part in module] == [True, True, True, False]
    assert model.training


def test_the_modes_come_back_after_an_error():
    module = nn.Sequential(nn.Conv2d(3, 5, 1), nn.Dropout())
    with pytest.raises(ValueError, match=r"got \(4, 5, 2, 2\)\. Pool the map: nn\.Sequential\(module, nn\.AdaptiveAvg"):
        as_backbone(module, example=images())
    assert all(part.training for part in module.modules())


def test_a_width_that_nobody_knows():
    with pytest.raises(ValueError, match=r"features of Sequential is not known\. Pass num_features=…, or example=…"):
        as_backbone(body())


def test_a_width_that_is_wrong():
    with pytest.raises(
        ValueError, match=r"features \(B, 7\) because num_features=7; got \(4, 6\)\. Pass num_features=6"
    ):
        as_backbone(body(), num_features=7, example=images())
    with pytest.raises(ValueError, match=r"features \(B, 7\)"):
        as_backbone(body(), num_features=7)(images())


class Pair(nn.Module):
    def forward(self, images):
        return images.flatten(1), images


def test_an_output_that_is_no_matrix():
    with pytest.raises(
        TypeError, match=r"must return one tensor of features \(B, D\); got tuple\. Wrap it in a module"
    ):
        as_backbone(Pair(), example=images())
    with pytest.raises(ValueError, match=r"got \(4, 3, 4\)\. Pool or flatten it to one row a sample"):
        as_backbone(nn.Flatten(2), num_features=3)(images())


def test_one_graph():
    model = as_backbone(body(), num_features=6).eval()
    torch._dynamo.reset()
    batch = images()
    torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(batch), model(batch))
