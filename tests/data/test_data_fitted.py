"""Images of one set in the shape of another, against Pillow; labels made wrong on purpose."""

import pytest
import torch
from PIL import Image

from ncmi.data import ImageSet, fit_images, flip_labels


def images(channels, side, count=3):
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count, channels, side, side), dtype=torch.uint8, generator=generator)
    return ImageSet(pixels, torch.zeros(count, dtype=torch.int64), ("one", "two"))


def test_the_same_shape_is_left_alone():
    given = images(3, 8)
    assert fit_images(given, (3, 8, 8)) is given


@pytest.mark.parametrize("side", [6, 20], ids=["smaller", "larger"])
def test_grey_and_size_are_pillows(side):
    given = images(3, 12)
    found = fit_images(given, (1, side, side), chunk=2)
    assert found.image_shape == (1, side, side)
    for own, fitted in zip(given.images, found.images, strict=True):
        picture = Image.fromarray(own.permute(1, 2, 0).numpy()).convert("L")
        expected = picture.resize((side, side), Image.Resampling.BILINEAR)
        difference = fitted[0].int() - torch.frombuffer(bytearray(expected.tobytes()), dtype=torch.uint8).view(
            side, side
        )
        assert int(difference.abs().max()) <= 1


def test_grey_becomes_three_equal_channels():
    found = fit_images(images(1, 8), (3, 8, 8))
    assert found.images[:, 0].equal(found.images[:, 2])
    assert found.images[:, 0].equal(images(1, 8).images[:, 0])


def test_flips():
    targets = torch.arange(1000) % 7
    flips = flip_labels(targets, 0.1, num_classes=7, seed=3)
    assert flips.changed.equal((flips.targets != targets).nonzero().flatten())
    assert len(flips.changed) == 100
    steps = (flips.targets - targets)[flips.changed] % 7
    assert set(steps.tolist()) == {1, 2, 3, 4, 5, 6}
    assert flip_labels(targets, 0.1, 7, seed=3).targets.equal(flips.targets)
    assert not flip_labels(targets, 0.1, 7, seed=4).targets.equal(flips.targets)
    assert len(flip_labels(targets, 0.0, 7).changed) == 0
