"""Weights load from every shape a file may have, whole or not at all; each refusal says why."""

import argparse
import sys

import pytest
import torch
from torch import nn

from ncmi.models import as_backbone, create_model, load_weights

NAME = "resnet8_slim"


def network(num_classes=10, **options):
    return create_model(NAME, num_classes=num_classes, width=4, **options)


def saved(content, tmp_path, **options):
    path = tmp_path / "weights.pt"
    torch.save(content, path, **options)
    return path


def same(model, state, leave_out=()):
    own = model.state_dict()
    return all(torch.equal(own[name], value) for name, value in state.items() if not name.startswith(tuple(leave_out)))


def prefixed(prefix, state):
    return {prefix + name: value for name, value in state.items()}


WRAPPINGS = {
    "plain": lambda state: state,
    "DataParallel": lambda state: prefixed("module.", state),
    "model and loss": lambda state: {**prefixed("model.", state), "loss.centroids.xi": torch.ones(10, 64)},
    "compiled under DDP": lambda state: prefixed("module._orig_mod.model.", state),
    "checkpoint": lambda state: {"epoch": 3, "state_dict": prefixed("module.", state), "best": torch.ones(())},
    "with an optimiser": lambda state: {
        "model": state,
        "optimizer": {"state": {0: {"momentum_buffer": torch.ones(3)}}, "param_groups": [{"lr": 0.1}]},
    },
    "without counters": lambda state: {key: value for key, value in state.items() if "num_batches" not in key},
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("zipped", [True, False])
def test_every_shape_of_file(wrapping, zipped, tmp_path):
    state = network().state_dict()
    path = saved(WRAPPINGS[wrapping](state), tmp_path, _use_new_zipfile_serialization=zipped)
    model = network()
    assert not same(model, state)
    assert load_weights(model, path) == []
    assert same(model, state)
    assert load_weights(network(), str(path)) == []


def test_float64_networks_stay_float64(tmp_path):
    state = network().state_dict()
    model = network().double()
    load_weights(model, saved(state, tmp_path))
    assert same(model, {name: value.to(model.state_dict()[name].dtype) for name, value in state.items()})
    assert model.conv1.weight.dtype == torch.float64


def test_a_head_of_another_size_is_left_out(tmp_path):
    state = network(10).state_dict()
    model = network(7)
    head = model.fc.weight.detach().clone()
    with pytest.warns(
        UserWarning,
        match=r"the head of ResNet stays as it was, because its head is fc\.weight \(10, 16\), fc\.bias \(10,\), the "
        r"model's fc\.weight \(7, 16\), fc\.bias \(7,\)",
    ):
        assert load_weights(model, saved(state, tmp_path)) == ["fc.weight", "fc.bias"]
    assert same(model, state, leave_out=["fc."])
    assert torch.equal(model.fc.weight, head)


def test_a_network_without_a_head_takes_the_rest_in_silence(tmp_path):
    state = network(10).state_dict()
    model = network(0)
    assert load_weights(model, saved(state, tmp_path)) == ["fc.weight", "fc.bias"]
    assert same(model, state, leave_out=["fc."])


def test_a_file_without_a_head(tmp_path):
    state = network(0).state_dict()
    model = network(7)
    with pytest.warns(UserWarning, match=r"the head of ResNet stays as it was, because it holds no head"):
        assert load_weights(model, saved(state, tmp_path)) == []
    assert same(model, state)


def test_modules_of_the_user(tmp_path):
    def body():
        return nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.BatchNorm1d(6))

    state = body().state_dict()
    for content in (state, as_backbone(body(), num_features=6).state_dict()):
        model = as_backbone(body(), num_features=6)
        assert load_weights(model, saved(content, tmp_path)) == []
        assert same(model.body, {name.removeprefix("body."): value for name, value in content.items()})


def test_several_networks_need_a_choice(tmp_path):
    student, teacher = network().state_dict(), network().state_dict()
    path = saved({"student": student, "teacher": prefixed("module.", teacher)}, tmp_path)
    model = network()
    with pytest.raises(ValueError, match=r"several networks, under 'student\.', 'teacher\.module\.'\. Pass .* prefix="):
        load_weights(model, path)
    load_weights(model, path, prefix="teacher.module.")
    assert same(model, teacher)


def refused(match, path, model=None):
    model = network() if model is None else model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=match) as caught:
        load_weights(model, path)
    assert str(caught.value).startswith(f"load_weights: {path}")
    assert same(model, before)


def test_another_network(tmp_path):
    path = saved(network(blocks=(1, 2, 1)).state_dict(), tmp_path)
    refused(
        r"has 12 that the model does not know \(layer2\.1\.bn1\.bias, .*, …\)\. Create the model that the file", path
    )
    refused(
        r"lacks 10 tensors of the model \(layer2\.2\.conv1\.weight, layer2\.2\.bn1\.weight, layer2\.2\.bn1\.bias, …\)\.",
        path,
        network(blocks=(1, 3, 1)),
    )
    refused(
        r"lacks \d+ tensors of the model .* and has \d+ that the model does not know", path, network(blocks=(2, 1, 1))
    )


def test_another_shape(tmp_path):
    path = saved(network().state_dict(), tmp_path)
    refused(
        r"does not fit ResNet: conv1\.weight \(4, 3, 3, 3\) instead of \(4, 3, 7, 7\)\. Create the model with the width, stem",
        path,
        network(stem="imagenet"),
    )
    refused(r"conv1\.weight \(4, 3, 3, 3\) instead of \(4, 1, 3, 3\)", path, network(in_channels=1))


def test_a_file_of_something_else(tmp_path):
    path = saved({"encoder.weight": torch.ones(2)}, tmp_path)
    refused(r"holds no tensor with a name of the model .*It has encoder\.weight; the model has conv1\.weight, ", path)
    refused(r"It has no tensors at all", saved([1, 2], tmp_path))
    with pytest.raises(ValueError, match=r"behind the prefix 'ema\.'"):
        load_weights(network(), path, prefix="ema.")


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.pt is not a file\. Check the path"):
        load_weights(network(), tmp_path / "nothing.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_file(tmp_path, zipped):
    path = saved(network().state_dict(), tmp_path, _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    for share in (0, 0.01, 0.3, 0.6, 0.99):
        path.write_bytes(whole[: int(share * len(whole))])
        refused(r"is damaged, or ", path)


def test_a_flipped_bit(tmp_path):
    state = network().state_dict()
    path = saved(state, tmp_path)
    whole = bytearray(path.read_bytes())
    whole[whole.index(state["layer2.0.conv1.weight"].numpy().tobytes())] ^= 1
    path.write_bytes(whole)
    refused(r"is damaged, or not a file of weights\. Fetch or save it again\.", path)


def test_nothing_but_tensors_is_unpickled(tmp_path):
    path = saved({"args": argparse.Namespace(lr=0.1), "state_dict": network().state_dict()}, tmp_path)
    refused(r"or holds Python objects besides tensors; loading those could run foreign code", path)


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    state, path = network().state_dict(), tmp_path / "weights.safetensors"
    safetensors.save_file(state, path)
    model = network()
    assert load_weights(model, path) == []
    assert same(model, state)
    path.write_bytes(path.read_bytes()[:-7])
    refused(r"is damaged, or not a file of weights \(", path)


def test_safetensors_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    path = tmp_path / "weights.safetensors"
    path.touch()
    with pytest.raises(ImportError, match=r"needs the package safetensors: `pip install safetensors`"):
        load_weights(network(), path)
