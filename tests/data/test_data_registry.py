"""Data sets by name: where they are looked for, what is said when they are not there, and what is imported when."""

import subprocess
import sys

import pytest
import torch
from official import cifar_records, images

from ncmi.data import DATA_SETS, STATISTICS, check_data, find_data, image_statistics, load_data
from ncmi.data.cifar import read_cifar
from ncmi.data.files import data_places


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.delenv("NCMI_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def put(place, seed=0):
    folder = place / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    (folder / "test_batch.bin").write_bytes(cifar_records(images(2, seed=seed), [3, 5]))
    return folder


def test_places_in_their_order(tmp_path, monkeypatch):
    assert not find_data("cifar10").parts
    cache = put(tmp_path / "home" / ".cache" / "ncmi" / "data", seed=1)
    assert find_data("cifar10").folder == cache
    put(tmp_path / "work" / "data", seed=2)
    assert torch.equal(load_data("cifar10", check=False).test.images, images(2, seed=2))
    monkeypatch.setenv("NCMI_DATA", str(tmp_path / "given"))
    assert torch.equal(load_data("cifar10", check=False).test.images, images(2, seed=2))
    put(tmp_path / "given", seed=3)
    assert torch.equal(load_data("cifar10", check=False).test.images, images(2, seed=3))
    put(tmp_path / "argument", seed=4)
    assert torch.equal(load_data("cifar10", tmp_path / "argument", check=False).test.images, images(2, seed=4))


def test_a_given_folder_is_the_only_one_searched(tmp_path):
    put(tmp_path / "work" / "data")
    assert data_places("~/sets") == (tmp_path / "home" / "sets",)
    with pytest.raises(FileNotFoundError, match="cifar10: not found"):
        load_data("cifar10", tmp_path / "empty")


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100"])
def test_missing_data_is_one_clear_message(tmp_path, monkeypatch, name):
    monkeypatch.setenv("NCMI_DATA", str(tmp_path / "given"))
    with pytest.raises(FileNotFoundError) as failure:
        load_data(name)
    message = str(failure.value)
    assert message.startswith(f"{name}: not found; looked in {tmp_path / 'given'}")
    for place in ("data", str(tmp_path / "home" / ".cache" / "ncmi" / "data")):
        assert place in message
    assert ("Unpack " if name.startswith("cifar") else "Put ") in message
    if name.startswith("cifar"):
        assert f"{name[:5]}-{name[5:]}-python.tar.gz" in message
    assert message == str(find_data(name))
    assert check_data(name) == []


def test_digits():
    data = load_data("digits")
    assert (len(data.train), len(data.test), data.num_classes) == (1437, 360, 10)
    assert int(torch.bincount(data.test.targets).min()) >= 34
    assert data.train.image_shape == (1, 8, 8)
    assert int(data.train.images.max()) == 255
    assert torch.equal(data.test.images, load_data("digits").test.images)
    every = {tuple(image.flatten().tolist()) for image in torch.cat((data.train.images, data.test.images))}
    assert len(every) == 1797  # no image is in both parts
    mean, std = image_statistics(data.train.images)
    assert STATISTICS["digits"].mean == pytest.approx(mean, abs=6e-5)
    assert STATISTICS["digits"].std == pytest.approx(std, abs=6e-5)
    assert find_data("digits").complete
    assert check_data("digits") == []


def test_a_complete_set_says_where_it_is(tmp_path):
    folder = put(tmp_path / "sets")
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin").write_bytes(cifar_records(images(1), [0]))
    found = find_data("cifar10", tmp_path / "sets")
    assert found.complete
    assert str(found) == f"cifar10: found in {folder}."
    assert [check.path.name for check in check_data("cifar10", tmp_path / "sets")][-1] == "test_batch.bin"


def test_a_file_that_vanishes_is_named(tmp_path):
    found = find_data("cifar10", put(tmp_path))
    (found.folder / "test_batch.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"cifar10: .*test_batch\.bin is missing"):
        read_cifar(found)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("cifar", {}, "name must be one of .*; got 'cifar'. Did you mean 'cifar10"),
        ("folders:/x", {}, "the prefix of a path must be one of 'idx', 'folder'; got 'folders'. Did you mean 'folder'"),
        ("folder:", {}, "must name a folder after the colon, as in folder:/path/to/images"),
        ("folder", {}, "needs the path of its folder, as in folder:/path/to/images"),
        ("digits", {"check": False}, "digits takes no option; got 'check'"),
        (
            "cifar100",
            {"label": "coarse"},
            "an option of cifar100 must be one of .*; got 'label'. Did you mean 'labels'",
        ),
        ("cifar10", {"labels": "coarse"}, "an option of cifar10 must be one of 'check'; got 'labels'"),
    ],
)
def test_bad_names_and_options_get_a_sentence(name, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        load_data(name, **options)


def test_every_name_has_statistics_and_a_finder():
    for name in DATA_SETS:
        assert name in STATISTICS
        assert find_data(name).name == name


@pytest.mark.parametrize(("module", "call"), [("sklearn", "load_data('digits')"), ("PIL", "decode(Path('x.png'))")])
def test_a_missing_package_gets_a_sentence(module, call):
    code = (
        "import sys\nfrom pathlib import Path\nfrom ncmi.data import load_data\nfrom ncmi.data.folder import decode\n"
        f"sys.modules[{module!r}] = None\n"  # after torchmetrics, which looks at Pillow by itself
        f"try:\n    {call}\nexcept ImportError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "which is not installed. Install" in run.stdout


def test_imports_are_light():
    code = (
        "import sys, torch, torchmetrics; before = set(sys.modules); import ncmi; first = set(sys.modules) - before; "
        "assert 'ncmi.data' not in first; import ncmi.data; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & {"sklearn", "PIL", "scipy", "pandas", "torchvision"}
