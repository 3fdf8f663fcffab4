"""Names: ours, unknown ones, and timm's where it is installed."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ncmi.models import create_model, list_models


def test_every_listed_name_can_be_created():
    for name in list_models():
        with torch.device("meta"):
            model = create_model(name, num_classes=3, **({"in_features": 4} if name == "mlp" else {}))
        assert model.num_classes == 3
        assert model.training


def test_unknown_names_list_their_neighbours():
    with pytest.raises(
        ValueError, match=r"create_model: name must be one of 'mlp', .*got 'resnet19'\. Did you mean 'resnet1"
    ):
        create_model("resnet19")
    with pytest.raises(
        ValueError, match=r"an option of 'resnet18' must be one of .*'stem'.*got 'widht'\. Did you mean 'width'"
    ):
        create_model("resnet18", widht=16)
    with pytest.raises(
        ValueError, match=r"an option of 'resnet20' must be one of 'blocks', 'num_classes', 'width', 'in_ch"
    ):
        create_model("resnet20", stem="imagenet")
    with pytest.raises(ValueError, match=r"'mlp' needs in_features; pass in_features=…"):
        create_model("mlp")


def test_timm_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match=r"'timm:vit_tiny' needs timm.*`pip install timm`.*or take one of mlp, "):
        create_model("timm:vit_tiny")


def stand_in(name, **options):
    model = nn.Linear(2, 3)
    model.options, model.num_features = options, 960
    if name == "mobilenetv3":
        model.head_hidden_size = 1280
    return model


def test_what_timm_is_asked_for(monkeypatch):
    # A stand-in with timm's three functions shows the arguments; below the real one runs where it is installed.
    names = ["mobilenetv3", "resnet50"]
    timm = SimpleNamespace(create_model=stand_in, list_models=lambda: names, is_model=lambda name: name in names)
    monkeypatch.setitem(sys.modules, "timm", timm)
    model = create_model("timm:resnet50", num_classes=5, in_channels=1, drop_rate=0.1)
    assert model.options == {"num_classes": 5, "in_chans": 1, "drop_rate": 0.1}
    assert model.num_features == 960
    assert create_model("timm:mobilenetv3").num_features == 1280
    with pytest.raises(ValueError, match=r"timm has no model 'resnet51'\. Did you mean 'timm:resnet50'\?"):
        create_model("timm:resnet51")


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_050", "vit_tiny_patch16_224"])
def test_timm_itself(name):
    pytest.importorskip("timm", reason="timm is not installed", exc_type=ImportError)
    model = create_model(f"timm:{name}").eval()
    images = torch.randn(2, 3, 224, 224)
    features = model.forward_head(model.forward_features(images), pre_logits=True)
    assert features.shape == model(images).shape == (2, model.num_features)
