"""CIFAR: both official layouts, checksums, damaged and hostile files, and the real sets."""

import hashlib
import os
import pickle
import warnings

import pytest
import torch
from official import cifar_records, images, python2_pickle
from realdata import real_data

from ncmi.data import STATISTICS, check_data, find_data, image_statistics, load_data
from ncmi.data.cifar_names import CIFAR100_COARSE_CLASSES, CIFAR100_FINE_CLASSES
from ncmi.data.unpickle import load_batch

PIXELS = images(6)
FINE, COARSE = [0, 99, 5, 7, 7, 42], [0, 19, 3, 4, 4, 11]


def write(folder, contents):
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


@pytest.fixture
def binary100(tmp_path):
    records = cifar_records(PIXELS, COARSE, FINE)
    write(tmp_path / "cifar-100-binary", {"train.bin": records, "test.bin": records[: 2 * 3074]})
    return tmp_path


@pytest.fixture
def python100(tmp_path):
    def batch(count):
        names = [f"image_{number}.png" for number in range(count)]
        return {
            "filenames": names,
            "batch_label": "part 1 of 1",
            "fine_labels": FINE[:count],
            "coarse_labels": COARSE[:count],
            "data": PIXELS[:count].flatten(1),
        }

    write(tmp_path / "cifar-100-python", {"train": python2_pickle(batch(6)), "test": python2_pickle(batch(2))})
    return tmp_path


def write_binary10(folder, test_only=False):
    records = cifar_records(PIXELS, [0, 9, 1, 2, 3, 4])
    batches = {f"data_batch_{k}.bin": records[(k - 1) * 3073 : k * 3073] for k in range(1, 6)}
    write(folder / "cifar-10-batches-bin", {"test_batch.bin": records} | ({} if test_only else batches))


def test_binary_layout(binary100):
    data = load_data("cifar100", binary100, check=False)
    assert torch.equal(data.train.images, PIXELS)
    assert data.train.targets.tolist() == FINE
    assert data.test.targets.tolist() == FINE[:2]
    assert (data.num_classes, data.class_names[0], data.class_names[99]) == (100, "apple", "worm")
    coarse = load_data("cifar100", binary100, check=False, labels="coarse")
    assert coarse.train.targets.tolist() == COARSE
    assert (coarse.num_classes, coarse.class_names[-1]) == (20, "vehicles_2")


def test_python_layout_equals_the_binary_one(binary100, python100):
    for labels in ("fine", "coarse"):
        binary = load_data("cifar100", binary100 / "cifar-100-binary", check=False, labels=labels)
        python = load_data("cifar100", python100 / "cifar-100-python", check=False, labels=labels)
        for part in ("train", "test"):
            assert torch.equal(python.parts[part].images, binary.parts[part].images)
            assert torch.equal(python.parts[part].targets, binary.parts[part].targets)


def test_our_pickles_are_what_numpy_reads(python100):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.core is an old name
        batch = pickle.loads((python100 / "cifar-100-python" / "train").read_bytes(), encoding="bytes")
    assert torch.equal(torch.from_numpy(batch[b"data"].copy()), PIXELS.flatten(1))
    assert batch[b"fine_labels"] == FINE


def test_cifar10_in_both_layouts(tmp_path):
    write_binary10(tmp_path / "binary")
    classes = [0, 9, 1, 2, 3, 4]
    batches = {
        f"data_batch_{k}": {"data": PIXELS[k - 1 : k].flatten(1), "labels": classes[k - 1 : k]} for k in range(1, 6)
    }
    batches["test_batch"] = {"data": PIXELS.flatten(1), "labels": classes}
    pickles = {name: python2_pickle(batch) for name, batch in batches.items()}
    write(tmp_path / "python" / "cifar-10-batches-py", pickles)
    for layout in ("binary", "python"):
        data = load_data("cifar10", tmp_path / layout, check=False)
        assert torch.equal(data.train.images, PIXELS[:5])
        assert data.train.targets.tolist() == classes[:5]
        assert torch.equal(data.test.images, PIXELS)
        assert data.class_names[9] == "truck"


def test_a_part_alone_works_for_what_is_there(tmp_path):
    write_binary10(tmp_path, test_only=True)
    data = load_data("cifar10", tmp_path, check=False)
    assert len(data.test) == 6
    assert data.found.parts == ("test",)
    with pytest.raises(FileNotFoundError, match=r"data_batch_5\.bin are missing in .*Unpack cifar-10-binary\.tar\.gz"):
        _ = data.train


def test_the_more_complete_layout_is_taken(tmp_path):
    write_binary10(tmp_path, test_only=True)
    contents = {f"data_batch_{k}": b"" for k in range(1, 6)} | {"test_batch": b""}
    write(tmp_path / "cifar-10-batches-py", contents)
    assert find_data("cifar10", tmp_path).folder == tmp_path / "cifar-10-batches-py"


def test_a_truncated_file_is_named(binary100):
    with pytest.raises(ValueError, match=r"train\.bin is damaged .* expected 153,700,000 bytes, found 18,444"):
        load_data("cifar100", binary100)
    path = binary100 / "cifar-100-binary" / "train.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        ValueError, match=r"train\.bin is damaged: it must be whole records of 3074 bytes; found 18,443"
    ):
        load_data("cifar100", binary100, check=False)
    assert [bool(check.problem) for check in check_data("cifar100", binary100)] == [True, True]


def test_a_wrong_checksum_is_named(tmp_path):
    write(tmp_path / "cifar-10-batches-bin", {"test_batch.bin": bytes(30_730_000)})
    found = hashlib.sha1(bytes(30_730_000)).hexdigest()
    with pytest.raises(ValueError, match=rf"test_batch\.bin is damaged .* SHA1 67eb016d\w+, found {found}"):
        load_data("cifar10", tmp_path)
    # The size of this file is not compared; the checksum comes before anything is unpickled.
    write(tmp_path / "cifar-100-python", {"test": b"cos\nsystem\n(U\x04truetR."})
    with pytest.raises(ValueError, match=r"test is damaged .* MD5 f0ef6b0ae62326f3e7ffdfab6717acfc, found"):
        load_data("cifar100", tmp_path)


def test_a_label_out_of_range_is_named(tmp_path):
    write(tmp_path / "cifar-10-batches-bin", {"test_batch.bin": cifar_records(PIXELS, [0, 1, 2, 10, 3, 4])})
    with pytest.raises(ValueError, match=r"cifar10: labels must lie in \[0, 9\] .* image 3 has label 10"):
        load_data("cifar10", tmp_path, check=False)


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_is_refused_and_runs_nothing(tmp_path, protocol):
    trap = tmp_path / "trap"
    content = pickle.dumps({"data": Evil(trap)}, protocol=protocol)
    write(tmp_path / "cifar-100-python", {"train": content, "test": content})
    with pytest.raises(ValueError, match=r"train was refused: it asks for \w+\.mkdir, which no image batch needs"):
        load_data("cifar100", tmp_path, check=False)
    assert not trap.exists()
    pickle.loads(content)
    assert trap.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"cbuiltins\neval\n(U\x011tR.", "it asks for builtins.eval"),
        (b"cnumpy\nload\n.", "it asks for numpy.load"),
        (b"cnumpy.core.multiarray\nscalar\n.", "it asks for numpy.core.multiarray.scalar"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.", "it asks for numpy.ndarray.tofile"),
        (b"\x80\x02cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R.", "not a dictionary"),
        (b"\x80\x02U\x03abc", ""),
        (b"", ""),
        (b"\x80\x02}(U\x01ae.", ""),
        (b"\x80\x02Papersistent\n.", ""),
        (python2_pickle({"data": PIXELS.flatten(1)}).replace(b"U\x02u1", b"U\x02O8"), "anything but bytes"),
        (python2_pickle({"data": PIXELS[:1, 0, 0]}).replace(b"(K\x01K ", b"(K\x02K "), "shape .2, 32. with 32 bytes"),
    ],
)
def test_other_bad_pickles_are_refused(content, reason):
    with pytest.raises(ValueError, match=f"batch was refused: .*{reason}"):
        load_batch(content, "batch")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"fine_labels": FINE[:3]}, r"3 labels need data of shape \(3, 3072\); found \(6, 3072\)"),
        ({"fine_labels": "none"}, "must hold 'data' and 'fine_labels'"),
        ({"fine_labels": ["a"] * 6}, "labels are not all whole numbers"),
        ({"data": "none"}, "must hold 'data' and 'fine_labels'"),
    ],
)
def test_incomplete_batches_get_a_sentence(tmp_path, change, sentence):
    batch = {"data": PIXELS.flatten(1), "fine_labels": FINE, **change}
    write(tmp_path / "cifar-100-python", {"test": python2_pickle(batch)})
    with pytest.raises(ValueError, match=sentence):
        load_data("cifar100", tmp_path, check=False)


def test_unknown_labels_get_a_sentence(binary100):
    with pytest.raises(ValueError, match=r"labels must be one of 'fine', 'coarse'; got 'course'\. Did you mean"):
        load_data("cifar100", binary100, check=False, labels="course")


def test_real_cifar100():
    place = real_data("cifar100")
    data = load_data("cifar100", place)  # verifies the official SHA-1
    assert (len(data.train), len(data.test), data.num_classes) == (50_000, 10_000, 100)
    assert torch.bincount(data.train.targets).tolist() == [500] * 100
    assert torch.bincount(data.test.targets).tolist() == [100] * 100
    for file, names in {"fine": CIFAR100_FINE_CLASSES, "coarse": CIFAR100_COARSE_CLASSES}.items():
        official = (data.found.folder / f"{file}_label_names.txt").read_text().split()
        assert tuple(official) == names
    mean, std = image_statistics(data.train.images)
    assert STATISTICS["cifar100"].mean == pytest.approx(mean, abs=6e-5)
    assert STATISTICS["cifar100"].std == pytest.approx(std, abs=6e-5)
    assert [(check.size, check.problem) for check in check_data("cifar100", place)] == [
        (153_700_000, ""),
        (30_740_000, ""),
    ]


def test_real_cifar100_in_the_python_layout(tmp_path):
    place = real_data("cifar100")
    rows = torch.frombuffer(bytearray((place / "cifar-100-binary" / "test.bin").read_bytes()), dtype=torch.uint8)
    rows = rows.view(-1, 3074)
    batch = {"coarse_labels": rows[:, 0].tolist(), "fine_labels": rows[:, 1].tolist(), "data": rows[:, 2:]}
    write(tmp_path / "cifar-100-python", {"test": python2_pickle(batch)})
    for labels in ("fine", "coarse"):
        python = load_data("cifar100", tmp_path, check=False, labels=labels).test
        binary = load_data("cifar100", place, check=False, labels=labels).test
        assert torch.equal(python.images, binary.images)
        assert torch.equal(python.targets, binary.targets)


def test_real_cifar10_test_set():
    data = load_data("cifar10", real_data("cifar10"))
    assert torch.bincount(data.test.targets).tolist() == [1000] * 10
    assert data.class_names == tuple((data.found.folder / "batches.meta.txt").read_text().split())
