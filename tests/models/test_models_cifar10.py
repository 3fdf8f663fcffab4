"""The four published checkpoints of the CIFAR family classify the real test set as published."""

import pytest
import torch
from realdata import real_data

from ncmi.models import create_model, load_weights

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])

# Images, and how many of them were right when all 10,000 were measured (9173, 9263, 9310 and 9339 right).
RIGHT = {"resnet20": (10_000, 9173), "resnet32": (2500, 2316), "resnet44": (2500, 2330), "resnet56": (2500, 2318)}


@pytest.fixture(scope="module")
def test_set():
    rows = torch.frombuffer(
        bytearray((real_data("cifar10") / "cifar-10-batches-bin" / "test_batch.bin").read_bytes()), dtype=torch.uint8
    ).view(-1, 3073)
    images = (rows[:, 1:].reshape(-1, 3, 32, 32) / 255 - MEAN.view(3, 1, 1)) / STD.view(3, 1, 1)
    return images.contiguous(memory_format=torch.channels_last), rows[:, 0].long()


@pytest.mark.parametrize("name", RIGHT)
def test_accuracy_of_the_published_weights(name, test_set):
    model = create_model(name, num_classes=10).to(memory_format=torch.channels_last).eval()
    assert load_weights(model, real_data("resnets") / "cifar10_resnets" / f"{name}.pt") == []
    count, right = RIGHT[name]
    images, targets = (part[:count] for part in test_set)
    with torch.inference_mode():
        found = sum(
            int((model(x).argmax(dim=1) == y).sum()) for x, y in zip(images.split(500), targets.split(500), strict=True)
        )
    # Another convolution kernel may turn an image or two whose two best logits are equal to seven digits.
    assert abs(found - right) <= 2
