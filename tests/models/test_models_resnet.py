"""The ResNets: published sizes and names, and the same numbers as layers applied one by one from the paper."""

import pytest
import torch
import torch.nn.functional as F

from ncmi.models import CifarResNet, ResNet, create_model

STAGES = {
    "resnet18": (2, 2, 2, 2),
    "resnet34": (3, 4, 6, 3),
    "resnet50": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet20": (3, 3, 3),
    "resnet32": (5, 5, 5),
    "resnet44": (7, 7, 7),
    "resnet56": (9, 9, 9),
}
DEEP = {"resnet50", "resnet101"}
CIFAR = {"resnet20", "resnet32", "resnet44", "resnet56"}


def size(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "options", "published"),
    [
        ("resnet18", {"num_classes": 1000}, 11_689_512),
        ("resnet34", {"num_classes": 1000}, 21_797_672),
        ("resnet50", {"num_classes": 1000}, 25_557_032),
        ("resnet101", {"num_classes": 1000}, 44_549_160),
        ("resnet18", {"num_classes": 100, "stem": "cifar"}, 11_220_132),
        ("resnet20", {"num_classes": 10}, 269_722),
        ("resnet32", {"num_classes": 10}, 464_154),
        ("resnet44", {"num_classes": 10}, 658_586),
        ("resnet56", {"num_classes": 10}, 853_018),
    ],
)
def test_number_of_parameters(name, options, published):
    with torch.device("meta"):
        assert size(create_model(name, **options)) == published


def test_slim_networks():
    small, smaller = create_model("resnet10_slim"), create_model("resnet8_slim")
    assert (small.num_features, smaller.num_features) == (128, 64)
    assert 300_000 < size(small) < 310_000
    assert 75_000 < size(smaller) < 80_000
    for name, low, high in (("resnet18_slim", 174_000, 177_000), ("resnet34_slim", 333_000, 336_000)):
        assert create_model(name).num_features == 64
        assert low < size(create_model(name)) < high
    assert small.layer1[0].conv1.out_channels == 16
    assert create_model("resnet18", width=16).num_features == 128


def published_names(name):
    """State of torchvision's networks by its naming rule; of the CIFAR family by the rule of its published weights."""
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    yield "conv1.weight"
    yield from (f"bn1.{part}" for part in norm)
    for stage, depth in enumerate(STAGES[name], start=1):
        for block in range(depth):
            here = f"layer{stage}.{block}"
            for layer in (1, 2, 3) if name in DEEP else (1, 2):
                yield f"{here}.conv{layer}.weight"
                yield from (f"{here}.bn{layer}.{part}" for part in norm)
            # Only where the width or the resolution changes: ResNet-18's and 34's first stage keeps both.
            if block == 0 and (stage > 1 or name in DEEP) and name not in CIFAR:
                yield f"{here}.downsample.0.weight"
                yield from (f"{here}.downsample.1.{part}" for part in norm)
    head = "linear" if name in CIFAR else "fc"
    yield from (f"{head}.weight", f"{head}.bias")


@pytest.mark.parametrize("name", STAGES)
def test_names_in_their_published_order(name):
    with torch.device("meta"):
        state = create_model(name, num_classes=10).state_dict()
    assert list(state) == list(published_names(name))


def by_hand(state, images, name, stem):
    """The logits of He et al.'s figures, layer by layer from a state dict, BatchNorm with its running values."""

    def conv(x, where, stride=1):
        weight = state[f"{where}.weight"]
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    def norm(x, where):
        mean, var, weight, bias = (
            state[f"{where}.{part}"].view(1, -1, 1, 1) for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-5).sqrt() * weight + bias

    x = F.relu(norm(conv(images, "conv1", 2 if stem == "imagenet" else 1), "bn1"))
    if stem == "imagenet":
        x = F.max_pool2d(x, 3, 2, 1)
    for stage, depth in enumerate(STAGES[name], start=1):
        for block in range(depth):
            here = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            if name in DEEP:
                y = F.relu(norm(conv(x, f"{here}.conv1"), f"{here}.bn1"))
                y = F.relu(norm(conv(y, f"{here}.conv2", stride), f"{here}.bn2"))
                y = norm(conv(y, f"{here}.conv3"), f"{here}.bn3")
            else:
                y = F.relu(norm(conv(x, f"{here}.conv1", stride), f"{here}.bn1"))
                y = norm(conv(y, f"{here}.conv2"), f"{here}.bn2")
            if f"{here}.downsample.0.weight" in state:
                x = norm(conv(x, f"{here}.downsample.0", stride), f"{here}.downsample.1")
            elif stride == 2:
                zeros = torch.zeros_like(x[:, : x.shape[1] // 2, ::2, ::2])
                x = torch.cat([zeros, x[:, :, ::2, ::2], zeros], dim=1)
            x = F.relu(x + y)
    head = "linear" if name in CIFAR else "fc"
    return x.flatten(2).sum(-1) / x[0, 0].numel() @ state[f"{head}.weight"].T + state[f"{head}.bias"]


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("resnet18", "imagenet"),
        ("resnet34", "cifar"),
        ("resnet50", "imagenet"),
        ("resnet50", "cifar"),
        ("resnet20", None),
    ],
)
def test_logits_equal_the_layers_one_by_one(name, stem):
    options = {"stem": stem, "width": 4} if stem else {"width": 4}
    model = create_model(name, num_classes=5, **options).double().eval()
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(part.running_mean)
            torch.nn.init.uniform_(part.running_var, 0.5, 2)
            torch.nn.init.uniform_(part.weight, 0.2, 1)
            torch.nn.init.normal_(part.bias)
    images = torch.randn(3, 3, 37, 29, dtype=torch.float64)  # odd sizes: every border counts
    with torch.no_grad():
        expected = by_hand(model.state_dict(), images, name, stem or "cifar")
        torch.testing.assert_close(model(images), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("stem", "places"), [("imagenet", 1), ("cifar", 4)])
def test_the_stem_sets_the_resolution(stem, places):
    model = create_model("resnet18", stem=stem, width=8)
    assert model.forward_features(torch.randn(2, 3, 32, 32)).shape == (2, 64, places, places)


def test_convolutions_start_as_kaiming_normal():
    weight = ResNet(num_classes=10).layer4[1].conv2.weight.detach()
    assert float(weight.std()) == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)
    assert float(weight.mean()) == pytest.approx(0, abs=1e-3)


def test_gray_images():
    assert CifarResNet(in_channels=1, width=4)(torch.randn(2, 1, 28, 28)).shape == (2, 16)
    with pytest.raises(
        ValueError, match=r"^ResNet: images must have shape \(B, 3, H, W\).*got \(2, 1, 8, 8\).*in_channels=1"
    ):
        ResNet(width=4)(torch.randn(2, 1, 8, 8))
    with pytest.raises(ValueError, match=r"got \(3, 8, 8\)\. Add the missing dimension\."):
        ResNet(width=4)(torch.randn(3, 8, 8))


def test_settings_that_cannot_work():
    with pytest.raises(
        ValueError, match=r"ResNet: stem must be one of 'imagenet', 'cifar'; got 'cifar10'\. Did you mean"
    ):
        ResNet(stem="cifar10")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"block must be one of 'basic', 'bottleneck'"):
        ResNet("wide")  # pyright: ignore[reportArgumentType]
    for blocks in ((), (2, 0)):
        with pytest.raises(ValueError, match=r"every stage needs at least one block"):
            ResNet(blocks=blocks)
    with pytest.raises(
        ValueError, match=r"num_classes must be 0 \(the network returns features\) or at least 2.*got 1"
    ):
        ResNet(num_classes=1)
