"""What training asks of every network: features, logits, gradients, memory formats, precisions, one compiled graph."""

import pytest
import torch

from ncmi.models import create_model, list_models

SMALL = {
    name: {"in_features": 768, "hidden": (12, 16)}
    if name == "mlp"
    else {"width": 4, **({"stem": "cifar"} if wide else {})}
    for name in list_models()
    for wide in [name in ("resnet18", "resnet34", "resnet50", "resnet101")]
}


def network(name, **options):
    return create_model(name, **SMALL[name], **options)


def images(batch=3, dtype=torch.float32):
    return torch.randn(batch, 3, 16, 16, dtype=dtype)


@pytest.mark.parametrize("name", list_models())
def test_features_and_logits(name):
    model, batch = network(name, num_classes=7).eval(), images()
    assert model.num_classes == 7
    logits = model(batch)
    assert logits.shape == (3, 7)
    before = model.forward_features(batch)
    features = model.forward_head(before, pre_logits=True)
    assert before.shape[:2] == features.shape == (3, model.num_features)
    assert torch.equal(model.forward_head(before), logits)
    assert torch.equal(model.get_classifier()(features), logits)


@pytest.mark.parametrize("name", list_models())
def test_without_classes_the_output_is_the_features(name):
    headed, bare = network(name, num_classes=7).eval(), network(name).eval()
    assert bare.num_classes == 0
    bare.load_state_dict({key: value for key, value in headed.state_dict().items() if key in bare.state_dict()})
    batch = images()
    features = headed.forward_head(headed.forward_features(batch), pre_logits=True)
    assert torch.equal(bare(batch), features)
    assert isinstance(bare.get_classifier(), torch.nn.Identity)
    # The head comes last, so that both start from the same random numbers.
    assert list(headed.state_dict())[: len(bare.state_dict())] == list(bare.state_dict())


@pytest.mark.parametrize("name", list_models())
def test_every_parameter_gets_a_gradient(name):
    model = network(name, num_classes=7)
    torch.nn.functional.cross_entropy(model(images(8)), torch.arange(8) % 7).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert bool(parameter.grad.any()), key


@pytest.mark.parametrize("name", list_models())
def test_float64(name):
    model, batch = network(name, num_classes=7).eval(), images()
    single = model(batch)
    double = model.double()(batch.double())
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in list_models() if name != "mlp"])
def test_channels_last_stays_channels_last(name):
    model, batch = network(name, num_classes=7).eval(), images()
    expected = model(batch)
    model, batch = model.to(memory_format=torch.channels_last), batch.to(memory_format=torch.channels_last)
    assert model.forward_features(batch).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(model(batch), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["mlp", "resnet10_slim", "resnet50", "resnet20"])
def test_one_graph(name):
    model, batch = network(name, num_classes=7).eval(), images()
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(batch), model(batch))


def test_mlp():
    model = create_model("mlp", in_features=64, hidden=[32, 8], num_classes=10)
    assert [tuple(p.shape) for p in model.parameters()] == [(32, 64), (32,), (8, 32), (8,), (10, 8), (10,)]
    rows = torch.randn(5, 64)
    assert torch.equal(model(rows), model(rows.view(5, 1, 8, 8)))
    first, second = model.layers[0], model.layers[2]
    by_hand = ((rows @ first.weight.T).clamp(min=0) @ second.weight.T).clamp(min=0)
    torch.testing.assert_close(model.forward_features(rows), by_hand)
    torch.testing.assert_close(model(rows)[:1], model(rows[:1]))  # no sample sees another
    with pytest.raises(
        ValueError, match=r"MLP: each input must hold 64 numbers.*got a batch of shape \(5, 3, 8, 8\).*=192"
    ):
        model(torch.randn(5, 3, 8, 8))
    with pytest.raises(ValueError, match=r"Add the batch dimension"):
        model(torch.randn(64))
    with pytest.raises(ValueError, match=r"hidden must hold at least one size"):
        create_model("mlp", in_features=64, hidden=())


def test_mlp_with_batch_norm():
    model = create_model("mlp", in_features=64, hidden=(32, 8), batch_norm=True)
    assert [tuple(p.shape) for p in model.parameters()] == [(32, 64), (32,), (32,), (8, 32), (8,), (8,)]
    model(torch.randn(5, 64))
    assert model.layers[1].num_batches_tracked == 1
