"""Folders of images: scanning, decoding, crops against PIL's own steps, and loading that workers do not change."""

import pickle
from pathlib import Path

import pytest
import torch
from PIL import Image

from ncmi.data import CenterCrop, FolderLoader, Normalize, RandomResizedCrop, find_data, load_data, split_off
from ncmi.data.folder import decode
from ncmi.data.keyed import sample_uniforms

NORMALIZE = Normalize((0.5,) * 3, (0.25,) * 3)


def picture(width, height, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (height, width, 3), dtype=torch.uint8, generator=generator)
    return Image.frombytes("RGB", (width, height), pixels.numpy().tobytes())


def tensor(image):
    return (
        torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        .view(image.height, image.width, 3)
        .permute(2, 0, 1)
    )


@pytest.fixture
def root(tmp_path):
    for part, count in {"train": 6, "val": 3}.items():
        for label, name in enumerate(("ant", "bee", "cow")):
            folder = tmp_path / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                picture(40 + 3 * number, 30 + 5 * label, seed=100 * label + number).save(folder / f"{number}.png")
    return tmp_path


def test_parts_and_classes(root):
    (root / "train" / "ant" / "notes.txt").write_text("not an image")
    (root / "train" / "ant" / ".hidden.png").write_text("neither")
    (root / "train" / "bee" / "more").mkdir()
    picture(8, 8).save(root / "train" / "bee" / "more" / "PHOTO.JPEG", format="jpeg")
    data = load_data(f"folder:{root}")
    assert data.class_names == ("ant", "bee", "cow")
    assert torch.bincount(data.train.targets).tolist() == [6, 7, 6]
    assert torch.bincount(data.test.targets).tolist() == [3, 3, 3]
    assert data.validation is None
    assert data.statistics.mean == (0.485, 0.456, 0.406)
    assert data.train.decode(0).size == (40, 30)
    held_out = data.train.subset(split_off(data.train.targets, 3).held_out)
    assert held_out.targets.tolist() == [0, 1, 2]
    assert held_out.decode(2).size[1] == 40


def test_val_is_for_validation_where_there_is_a_test_folder(root):
    (root / "val").rename(root / "test")
    assert len(load_data(f"folder:{root}").test) == 9
    for name in ("ant", "bee", "cow"):
        (root / "val" / name).mkdir(parents=True)
        picture(9, 9).save(root / "val" / name / "only.png")
    data = load_data(f"folder:{root}")
    assert (len(data.validation), len(data.test)) == (3, 9)


def test_a_part_alone_works(root):
    (root / "train").rename(root / "elsewhere")
    data = load_data(f"folder:{root}")
    assert len(data.test) == 9
    with pytest.raises(FileNotFoundError, match=r"train is missing in .*It needs the folders train and val"):
        _ = data.train


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    path = tmp_path / ("image.jpg" if mode == "CMYK" else "image.png")
    picture(10, 8).convert(mode).save(path)
    assert (decode(path).mode, decode(path).size) == ("RGB", (10, 8))


def test_a_palette_with_transparency_does_not_warn(tmp_path):
    picture(10, 8).convert("P").save(tmp_path / "image.png", transparency=bytes([0, 128] * 128))
    assert decode(tmp_path / "image.png").mode == "RGB"


def test_center_crop_without_resizing_is_a_slice():
    image = picture(400, 320)
    assert torch.equal(CenterCrop(280, resize=320)(image), tensor(image)[:, 20:300, 60:340])
    assert CenterCrop(280)(image).shape == (3, 280, 280)
    assert torch.equal(CenterCrop(280)(image), CenterCrop(280, resize=320)(image))


def test_center_crop_is_resize_then_crop():
    image = picture(90, 60, seed=3)
    resized = image.resize((48, 32), Image.Resampling.BILINEAR)
    expected = tensor(resized)[:, 2:30, 10:38].int()
    result = CenterCrop(28, resize=32)(image).int()
    assert result.shape == expected.shape
    assert int((result - expected).abs().max()) <= 1


def test_random_crop_is_what_its_draws_say():
    image, crop = picture(60, 45), RandomResizedCrop(16)
    for index in range(30):
        draws = sample_uniforms(index, 41, seed=5, epoch=2)
        left, upper, width, height = crop.box(60, 45, draws)
        assert 0 <= left <= left + width <= 60
        assert 0 <= upper <= upper + height <= 45
        part = image.crop((left, upper, left + width, upper + height)).resize((16, 16), Image.Resampling.BILINEAR)
        expected = tensor(part).flip(2) if draws[40] < 0.5 else tensor(part)
        assert torch.equal(crop(image, index, 2, 5), expected)


def test_random_crops_have_the_stated_areas_and_shapes():
    crop = RandomResizedCrop(16, scale=(0.2, 0.8), ratio=(0.5, 2.0))
    boxes = [crop.box(500, 500, sample_uniforms(index, 41, seed=0)) for index in range(2000)]
    share = torch.tensor([width * height / 250_000 for _, _, width, height in boxes])
    ratio = torch.tensor([width / height for _, _, width, height in boxes])
    assert 0.19 < float(share.min()) < 0.22 < 0.78 < float(share.max()) < 0.81
    assert 0.49 < float(ratio.min()) < 0.53 < 1.9 < float(ratio.max()) < 2.03
    lefts = torch.tensor([left / (500 - width + 1) for left, _, width, _ in boxes if width < 400])
    assert abs(float(lefts.mean()) - 0.5) < 0.03


@pytest.mark.parametrize(("width", "height", "expected"), [(1000, 10, (493, 0, 13, 10)), (10, 1000, (0, 493, 10, 13))])
def test_a_long_strip_falls_back_to_its_centre(width, height, expected):
    draws = sample_uniforms(0, 41, seed=0)
    assert RandomResizedCrop(8, scale=(1.0, 1.0)).box(width, height, draws) == expected
    assert RandomResizedCrop(8)(picture(1, 1), 0, 0, 0).shape == (3, 8, 8)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_do_not_change_anything(root, num_workers):
    data = load_data(f"folder:{root}").train
    loaders = [FolderLoader(data, RandomResizedCrop(12), NORMALIZE, 4, num_workers=n) for n in (0, num_workers)]
    seen = []
    for epoch in (0, 1):
        for loader in loaders:
            loader.set_epoch(epoch)
        for here, there in zip(*loaders, strict=True):
            assert torch.equal(here.images, there.images)
            assert torch.equal(here.targets, there.targets)
            assert torch.equal(here.indices, there.indices)
        seen.append(dict(zip(*_by_sample(loaders[0]), strict=True)))
    assert all(not torch.equal(seen[0][index], seen[1][index]) for index in seen[0])


def _by_sample(loader):
    batches = list(loader)
    return torch.cat([batch.indices for batch in batches]).tolist(), torch.cat([batch.images for batch in batches])


def test_train_and_evaluation_sizes_differ(root):
    data = load_data(f"folder:{root}")
    train = next(iter(FolderLoader(data.train, RandomResizedCrop(16), NORMALIZE, 4, num_workers=0)))
    test = FolderLoader(data.test, CenterCrop(20), NORMALIZE, 4, num_workers=0, shuffle=False)
    assert train.images.shape == (4, 3, 16, 16)
    assert train.images.dtype == torch.float32
    assert [batch.images.shape[2:] for batch in test] == [(20, 20)] * 3
    assert torch.cat([batch.targets for batch in test]).tolist() == [0] * 3 + [1] * 3 + [2] * 3
    first = next(iter(test))
    assert torch.equal(first.images[0], NORMALIZE(CenterCrop(20)(data.test.decode(0)).unsqueeze(0))[0])


def test_ranks_and_resume(root):
    data = load_data(f"folder:{root}").train

    def batches(start=0, **settings):
        loader = FolderLoader(data, RandomResizedCrop(8), NORMALIZE, 6, num_workers=0, **settings)
        loader.set_epoch(3, start_step=start)
        assert len(loader) == 3
        return list(loader)

    whole = batches()
    parts = zip(*(batches(rank=rank, num_ranks=2) for rank in range(2)), strict=True)
    for one, shares in zip(whole, parts, strict=True):
        assert torch.equal(one.images, torch.cat([share.images for share in shares]))
    assert all(torch.equal(a.images, b.images) for a, b in zip(batches(start=1), whole[1:], strict=True))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_global_random_state_is_left_alone(root, num_workers):
    data = load_data(f"folder:{root}").train
    before = torch.get_rng_state()
    list(FolderLoader(data, RandomResizedCrop(8), NORMALIZE, 6, num_workers=num_workers))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("content", [b"", b"not an image", "truncated"])
def test_an_unreadable_image_is_named(root, num_workers, content):
    path = root / "train" / "bee" / "3.png"
    path.write_bytes(path.read_bytes()[:200] if content == "truncated" else content)
    loader = FolderLoader(
        load_data(f"folder:{root}").train, CenterCrop(8), NORMALIZE, 18, num_workers=num_workers, shuffle=False
    )
    with pytest.raises(ValueError, match=r"train/bee/3\.png cannot be read as an image"):
        list(loader)


def test_bad_folders_get_a_sentence(root, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(FileNotFoundError, match=r"not found; looked in .*nowhere. It needs the folders train and val"):
        load_data(f"folder:{empty / 'nowhere'}")
    with pytest.raises(FileNotFoundError, match=r"train, val \(or test\) are missing"):
        load_data(f"folder:{empty}")
    (root / "train" / "dog").mkdir()
    with pytest.raises(ValueError, match=r"train/dog holds no image \(\.jpg"):
        load_data(f"folder:{root}")
    picture(4, 4).save(root / "train" / "dog" / "0.png")
    with pytest.raises(ValueError, match="must have the same classes; only the first has 'dog', only the second none"):
        load_data(f"folder:{root}")


def test_one_class_or_none_gets_a_sentence(tmp_path):
    (tmp_path / "train" / "only").mkdir(parents=True)
    (tmp_path / "val").mkdir()
    picture(4, 4).save(tmp_path / "train" / "only" / "0.png")
    picture(4, 4).save(tmp_path / "val" / "flat.png")
    with pytest.raises(ValueError, match="val must have one folder a class; it has none"):
        load_data(f"folder:{tmp_path}")
    (tmp_path / "val" / "only").mkdir()
    picture(4, 4).save(tmp_path / "val" / "only" / "0.png")
    with pytest.raises(ValueError, match="has the one class 'only'; a classifier needs two or more"):
        load_data(f"folder:{tmp_path}")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: RandomResizedCrop(0), "size must be a positive number"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 0.1)), "scale must be two positive rising numbers"),
        (lambda: RandomResizedCrop(8, ratio=(0.0, 1.0)), "ratio must be two positive rising numbers"),
        (lambda: CenterCrop(280, resize=256), "resize must be at least size=280"),
    ],
)
def test_bad_crops_get_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_crops_and_sets_are_picklable(root):
    for thing in (RandomResizedCrop(8), CenterCrop(9)):
        assert pickle.loads(pickle.dumps(thing)) == thing
    data = load_data(f"folder:{root}").train
    assert pickle.loads(pickle.dumps(data)).paths == data.paths
    assert find_data(f"folder:{root}").folder == Path(root)
