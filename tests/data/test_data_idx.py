"""idx files: plain and compressed, official checksums, damaged files, Debian's Fashion-MNIST."""

import gzip

import pytest
import torch
from official import idx_images, idx_labels, images, write_idx

from ncmi.data import STATISTICS, check_data, find_data, image_statistics, load_data
from ncmi.data.idx import DEBIAN, parse_idx

TRAIN = images(5, channels=1, size=28), [0, 1, 9, 3, 4]
TEST = images(3, channels=1, size=28, seed=1), [2, 0, 9]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("below", [True, False])
def test_official_names(tmp_path, name, compressed, below):
    write_idx(tmp_path / name if below else tmp_path, TRAIN, TEST, compressed)
    data = load_data(name, tmp_path, check=False)
    assert torch.equal(data.train.images, TRAIN[0])
    assert torch.equal(data.test.images, TEST[0])
    assert data.train.targets.tolist() == TRAIN[1]
    assert data.class_names[9] == ("Ankle boot" if name == "fashion-mnist" else "9")
    assert data.statistics == STATISTICS[name]


def test_any_folder_of_idx_files(tmp_path):
    write_idx(tmp_path, TRAIN, TEST)
    data = load_data(f"idx:{tmp_path}")
    assert (data.num_classes, len(data.train), len(data.test)) == (10, 5, 3)
    assert data.statistics == image_statistics(TRAIN[0])
    letters = load_data(f"idx:{tmp_path}", class_names=tuple("abcdefghijkl"))
    assert letters.class_names[-1] == "l"
    assert [check.problem for check in check_data(f"idx:{tmp_path}")] == [""] * 4
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    part = load_data(f"idx:{tmp_path}")
    assert len(part.test) == 3
    with pytest.raises(
        FileNotFoundError, match=r"train-labels-idx1-ubyte is missing in .*The train part was asked for"
    ):
        _ = part.train


def test_wrong_size_and_checksum_are_named(tmp_path):
    write_idx(tmp_path, TRAIN, TEST)
    with pytest.raises(
        ValueError, match=r"train-images-idx3-ubyte is damaged .* expected 47,040,016 bytes, found 3,936"
    ):
        load_data("mnist", tmp_path)
    (tmp_path / "train-images-idx3-ubyte").unlink()
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(bytes(16 + 10_000 * 784))
    with pytest.raises(
        ValueError, match=r"t10k-images-idx3-ubyte .* expected MD5 2646ac647ad5339dbf082846283269ea, found"
    ):
        load_data("mnist", tmp_path)


def test_a_truncated_compressed_file_is_named(tmp_path):
    write_idx(tmp_path, TRAIN, TEST, compressed=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz cannot be decompressed"):
        load_data("mnist", tmp_path, check=False)
    assert "cannot be decompressed" in check_data("mnist", tmp_path)[0].problem
    path.write_bytes(b"not compressed")
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz cannot be decompressed"):
        load_data("mnist", tmp_path, check=False)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            idx_images(TRAIN[0])[:-1],
            "is damaged: its header says 5 × 28 × 28, so it must have 3,936 bytes; found 3,935",
        ),
        (idx_labels([1, 2]) + b"\0", "its header says 2, so it must have 10 bytes; found 11"),
        (b"\0\0\x08\x03\0\0", "is damaged: its header says 0"),
        (b"\x00\x00\x0d\x01" + bytes(8), r"must begin with 2051 \(images\) or 2049 \(labels\) .* found 3329"),
        (gzip.compress(b"x", mtime=0), "must begin with 2051"),
        (b"", "found None"),
    ],
    ids=["short", "long", "header", "type", "compressed", "empty"],
)
def test_bad_files_are_named(content, sentence):
    with pytest.raises(ValueError, match=rf"^the file .*{sentence}|^the file {sentence}"):
        parse_idx(content, "the file")


def test_parts_that_do_not_fit_get_a_sentence(tmp_path):
    write_idx(tmp_path, TRAIN, (TEST[0], [1, 2]))
    with pytest.raises(ValueError, match="the test part has 3 images but 2 labels"):
        load_data(f"idx:{tmp_path}")
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx_images(TEST[0]))
    with pytest.raises(ValueError, match="an images file of the test part holds labels, or the reverse"):
        load_data(f"idx:{tmp_path}")


def test_missing_data_says_what_to_fetch(tmp_path):
    with pytest.raises(FileNotFoundError) as failure:
        load_data("fashion-mnist", tmp_path)
    for part in (str(tmp_path / "fashion-mnist"), "train-images-idx3-ubyte", "the package dataset-fashion-mnist"):
        assert part in str(failure.value)


def test_real_fashion_mnist(monkeypatch, tmp_path):
    if not DEBIAN.is_dir():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    monkeypatch.setenv("NCMI_DATA", str(tmp_path))
    data = load_data("fashion-mnist")  # verifies the official MD5
    assert data.found.folder == DEBIAN == find_data("fashion-mnist").folder
    assert torch.bincount(data.train.targets).tolist() == [6000] * 10
    assert torch.bincount(data.test.targets).tolist() == [1000] * 10
    mean, std = image_statistics(data.train.images)
    assert STATISTICS["fashion-mnist"].mean == pytest.approx(mean, abs=6e-5)
    assert STATISTICS["fashion-mnist"].std == pytest.approx(std, abs=6e-5)
