"""Augmentation: equal to a slow per-image reference, and a function of seed, epoch and sample index alone."""

import math
import pickle

import pytest
import torch
from official import images

from ncmi.data import Augment, Normalize, Statistics, image_statistics
from ncmi.data.augment import _ANGLES
from ncmi.data.keyed import sample_uniforms

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
BATCH = images(6, size=12)
INDICES = torch.tensor([3, 0, 77, 1_000_000, 8, 21])


def pixel(image, row, column, padding):
    """One pixel of the endlessly padded image."""
    height, width = image.shape[1:]
    if padding == "reflect":
        row = abs(row) % (2 * height - 2)
        row = min(row, 2 * height - 2 - row)
        column = abs(column) % (2 * width - 2)
        column = min(column, 2 * width - 2 - column)
    if not (0 <= row < height and 0 <= column < width):
        return torch.zeros(image.shape[0], dtype=torch.float64)
    return image[:, row, column].double()


def reference(image, index, epoch, seed, crop, flip, rotation, padding):
    """Crop, mirror and rotation as one bilinear look-up, pixel by pixel in float64, then normalisation."""
    channels, height, width = image.shape
    draws = sample_uniforms(index, 4, seed=seed, epoch=epoch)
    down, along = (int(draw * (2 * crop + 1)) - crop for draw in draws[:2])
    mirrored = flip and draws[2] >= 0.5
    step = int(draws[3] * _ANGLES)
    angle = math.radians(rotation * ((2 * step + 1) / _ANGLES - 1)) if rotation else 0.0
    result = torch.empty(channels, height, width, dtype=torch.float64)
    for row in range(height):
        for column in range(width):
            x, y = column - (width - 1) / 2, row - (height - 1) / 2
            x, y = math.cos(angle) * x + math.sin(angle) * y, -math.sin(angle) * x + math.cos(angle) * y
            x = -x if mirrored else x
            x, y = x + (width - 1) / 2 + along, y + (height - 1) / 2 + down
            left, top = math.floor(x), math.floor(y)
            value = torch.zeros(channels, dtype=torch.float64)
            for j, right_share in ((left, 1 - (x - left)), (left + 1, x - left)):
                for i, lower_share in ((top, 1 - (y - top)), (top + 1, y - top)):
                    value += right_share * lower_share * pixel(image, i, j, padding)
            result[:, row, column] = value
    mean, std = (torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (MEAN, STD))
    return (result / 255 - mean) / std


@pytest.mark.parametrize("padding", ["zero", "reflect"])
@pytest.mark.parametrize("rotation", [0, 15, 90])
@pytest.mark.parametrize(("crop", "flip"), [(0, False), (0, True), (3, False), (3, True)])
def test_equals_the_reference(crop, flip, rotation, padding):
    augment = Augment(MEAN, STD, crop=crop, flip=flip, rotation=rotation, padding=padding)
    result = augment(BATCH, INDICES, epoch=4, seed=9)
    expected = [
        reference(image, int(index), 4, 9, crop, flip, rotation, padding)
        for image, index in zip(BATCH, INDICES, strict=True)
    ]
    torch.testing.assert_close(result.double(), torch.stack(expected), rtol=0, atol=2e-3 if rotation else 1e-5)


def test_images_need_not_be_square():
    batch = images(3, size=12)[:, :, :7]
    result = Augment(MEAN, STD, crop=2, rotation=30)(batch, INDICES[:3], 0, 0)
    expected = reference(batch[1], int(INDICES[1]), 0, 0, 2, True, 30, "zero")
    torch.testing.assert_close(result[1].double(), expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize("rotation", [0, 15])
def test_a_sample_gets_the_same_in_any_batch(rotation):
    augment = Augment(MEAN, STD, rotation=rotation)
    batch, indices = images(67, size=32), torch.randperm(1000)[:67]
    whole = augment(batch, indices, 5, 1)
    order = torch.randperm(67)
    assert torch.equal(augment(batch[order], indices[order], 5, 1), whole[order])
    for part in torch.arange(67).split(10):
        assert torch.equal(augment(batch[part], indices[part], 5, 1), whole[part])
    assert torch.equal(augment(batch[40:41], indices[40:41], 5, 1), whole[40:41])
    assert augment(batch[:0], indices[:0], 5, 1).shape == (0, 3, 32, 32)


def test_epochs_and_seeds_differ():
    augment = Augment(MEAN, STD)
    batch, indices = images(50), torch.arange(50)
    first = augment(batch, indices, 0, 0)
    for other in (augment(batch, indices, 1, 0), augment(batch, indices, 0, 1)):
        assert int((first == other).all(dim=(1, 2, 3)).sum()) < 5


def test_no_rotation_moves_bytes_only_and_a_tiny_one_is_close():
    batch, indices = images(20), torch.arange(20)
    exact = Augment((0.0,) * 3, (1.0,) * 3)(batch, indices, 0, 0) * 255
    torch.testing.assert_close(exact, exact.round(), rtol=0, atol=1e-4)
    turned = Augment((0.0,) * 3, (1.0,) * 3, rotation=1e-6)(batch, indices, 0, 0) * 255
    torch.testing.assert_close(turned, exact, rtol=0, atol=0.05)


def test_nothing_to_do_is_normalisation():
    batch, indices = images(5), torch.arange(5)
    assert torch.equal(Augment(MEAN, STD, crop=0, flip=False)(batch, indices, 3, 0), Normalize(MEAN, STD)(batch))


def test_shifts_are_uniform_and_half_is_mirrored():
    # One bright pixel shows where it went.
    size, count = 16, 8100
    batch = torch.zeros(count, 1, size, size, dtype=torch.uint8)
    batch[:, :, 8, 7] = 255
    moved = Augment((0.0,), (1.0,), crop=4)(batch, torch.arange(count), 0, 0)
    place = moved.flatten(1).argmax(dim=1)
    rows, columns = place // size, place % size
    counts = torch.bincount(rows, minlength=size)
    assert int(counts[:4].sum()) == int(counts[13:].sum()) == 0
    assert int((counts[4:13] - 900).abs().max()) < 120
    mirrored_too = torch.bincount(columns, minlength=size)[3:13]  # 7 and its mirror image 8, each shifted by ±4
    assert int((mirrored_too[1:-1] - 900).abs().max()) < 120
    assert int((mirrored_too[[0, -1]] - 450).abs().max()) < 90


def test_picklable_and_readable():
    augment = Augment(MEAN, STD, rotation=15, padding="reflect")
    again = pickle.loads(pickle.dumps(augment))
    assert again == augment
    assert torch.equal(again(BATCH, INDICES, 1, 0), augment(BATCH, INDICES, 1, 0))
    assert Augment(*Statistics(MEAN, STD)) == Augment(MEAN, STD)


@pytest.mark.parametrize("rotation", [0, 15])
def test_the_default_type_changes_nothing(rotation):
    augment = Augment(MEAN, STD, rotation=rotation)
    expected = augment(BATCH, INDICES, 0, 0)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(augment(BATCH, INDICES, 0, 0), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_images_are_left_as_they_are():
    before = BATCH.clone()
    for rotation in (0, 15):
        Augment(MEAN, STD, rotation=rotation)(BATCH, INDICES, 0, 0)
    Normalize(MEAN, STD)(BATCH)
    assert torch.equal(BATCH, before)


def test_statistics_are_exact():
    batch = images(100, size=5)
    mean, std = image_statistics(batch, chunk=7)
    values = batch.double() / 255
    assert mean == pytest.approx(values.mean(dim=(0, 2, 3)).tolist(), abs=1e-12)
    assert std == pytest.approx(values.std(dim=(0, 2, 3), correction=0).tolist(), abs=1e-12)
    normal = Normalize(mean, std)(batch)
    assert normal.dtype == torch.float32
    torch.testing.assert_close(normal.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"crop": -1}, "crop must be a whole number"),
        ({"rotation": 200}, r"rotation must lie in \[0, 180\]"),
        ({"padding": "reflekt"}, "Did you mean 'reflect'"),
        ({"std": (0.2, 0.2)}, "one number a channel; got 3 and 2"),
        ({"std": (0.2, 0.0, 0.2)}, "std must be positive"),
    ],
)
def test_bad_settings_get_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Augment(**{"mean": MEAN, "std": STD, **settings})


def test_bad_images_get_a_sentence():
    with pytest.raises(ValueError, match="reflection can pad by less"):
        Augment(MEAN, STD, crop=12, padding="reflect")(BATCH, INDICES, 0, 0)
    with pytest.raises(ValueError, match="images have 1 channels, but mean and std are given for 3"):
        Normalize(MEAN, STD)(BATCH[:, :1])
