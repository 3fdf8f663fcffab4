"""read_features: the same features from every kind of file, and a sentence for everything that can be wrong with one."""

import pickle

import numpy
import pytest
import torch
from evaluated import blobs
from safetensors.torch import save_file

from ncmi.evaluation import read_features

FEATURES, TARGETS = blobs(10)


def write(path, features=FEATURES, targets=TARGETS, names=("features", "targets")):
    """Features and labels in the format of the file's ending."""
    if path.suffix == ".npz":
        arrays = (numpy.asarray(array) for array in (features, targets))
        numpy.savez(path, **dict(zip(names, arrays, strict=True)))
    elif path.suffix == ".safetensors":
        save_file(dict(zip(names, (features, targets), strict=True)), path)
    else:
        torch.save(dict(zip(names, (features, targets), strict=True)), path)
    return path


def text(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", ["npz", "safetensors", "pt", "pth"])
def test_every_kind_of_file(tmp_path, ending):
    part = read_features(write(tmp_path / f"data.{ending}"))
    assert torch.equal(part.features, FEATURES)
    assert torch.equal(part.targets, TARGETS)
    assert part.class_names == ()
    part = read_features(write(tmp_path / f"other.{ending}", names=("x", "y")), "x", "y")
    assert torch.equal(part.features, FEATURES)
    part = read_features(write(tmp_path / f"types.{ending}", FEATURES.half(), TARGETS.double()))
    assert part.features.dtype == torch.float32
    assert torch.equal(part.targets, TARGETS)
    part = read_features(write(tmp_path / f"bytes.{ending}", (10 * FEATURES).to(torch.uint8), TARGETS.to(torch.int16)))
    assert part.features.dtype == torch.float32
    assert part.targets.dtype == torch.int64


@pytest.mark.parametrize("ending", ["npz", "safetensors", "pt"])
def test_problems_of_every_kind_of_file(tmp_path, ending):
    path = tmp_path / f"data.{ending}"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_features(path)
    with pytest.raises(ValueError, match=r"has no 'features'; it holds 'x', 'y'. Pass the right name as features_key"):
        read_features(write(path, names=("x", "y")))
    with pytest.raises(ValueError, match=r"has no 'targets'; it holds 'features', 'y'.* as targets_key"):
        read_features(write(path, names=("features", "y")))
    with pytest.raises(ValueError, match=r"one label for each row .* \(10, 6\) and labels \(9,\)"):
        read_features(write(path, targets=TARGETS[:9].clone()))
    with pytest.raises(ValueError, match="save their argmax"):
        read_features(write(path, targets=torch.zeros(10, 2, dtype=torch.int64)))
    with pytest.raises(ValueError, match="Pool or flatten"):
        read_features(write(path, FEATURES.reshape(10, 3, 2)))
    with pytest.raises(ValueError, match=r"got 0\.5 at row 3"):
        read_features(write(path, targets=torch.where(torch.arange(10) == 3, 0.5, 1.0)))
    with pytest.raises(ValueError, match="holds no sample"):
        read_features(write(path, FEATURES[:0].clone(), TARGETS[:0].clone()))
    bad = FEATURES.clone()
    bad[4, 1], bad[6, 0] = torch.nan, torch.inf
    with pytest.raises(ValueError, match=r"2 of 10 rows hold NaN or infinity \(first at row 4\)"):
        read_features(write(path, bad))
    path.write_bytes(b"not what it says")
    with pytest.raises(ValueError, match=r"cannot be read as one|is damaged"):
        read_features(path)


def test_names_as_labels_in_npz(tmp_path):
    names = numpy.array(["dog", "ant"])[numpy.arange(10) % 2]
    numpy.savez(tmp_path / "data.npz", features=FEATURES.numpy(), targets=names)
    part = read_features(tmp_path / "data.npz")
    assert part.class_names == ("ant", "dog")
    assert part.targets.tolist() == [1, 0] * 5


def test_no_file_runs_code(tmp_path):
    numpy.savez(tmp_path / "data.npz", features=numpy.array([print], dtype=object), targets=TARGETS.numpy())
    with pytest.raises(ValueError, match="no object arrays"):
        read_features(tmp_path / "data.npz")
    (tmp_path / "data.pt").write_bytes(pickle.dumps({"features": print}))
    with pytest.raises(ValueError, match=r"read_features: .* damaged"):
        read_features(tmp_path / "data.pt")


def test_a_torch_file_must_hold_a_dict_of_arrays(tmp_path):
    torch.save((FEATURES, TARGETS), tmp_path / "data.pt")
    with pytest.raises(ValueError, match=r"must hold a dict .* got tuple"):
        read_features(tmp_path / "data.pt")
    torch.save({"features": "words", "targets": TARGETS}, tmp_path / "data.pt")
    with pytest.raises(ValueError, match="must be an array of numbers; got str"):
        read_features(tmp_path / "data.pt")
    torch.save({"features": FEATURES, "targets": TARGETS + 1j}, tmp_path / "data.pt")
    with pytest.raises(ValueError, match="got a complex number"):
        read_features(tmp_path / "data.pt")


def test_csv_with_and_without_names(tmp_path):
    rows = [f"{a:.9g},{b:.9g},{y}" for (a, b, *_), y in zip(FEATURES.tolist(), TARGETS.tolist(), strict=True)]
    for lines in (rows, ["width,height,species", *rows], ["", "width,height,species", *rows, " "]):
        part = read_features(text(tmp_path / "data.csv", *lines))
        assert torch.equal(part.features, FEATURES[:, :2])
        assert torch.equal(part.targets, TARGETS)
    path = text(tmp_path / "data.csv", "targets, a, b", "2,0.5,1", "0,-1e3,7")
    for part in (read_features(path), read_features(path, "anything", "targets")):
        assert part.targets.tolist() == [2, 0]
        assert part.features.tolist() == [[0.5, 1.0], [-1000.0, 7.0]]
    assert read_features(path, targets_key="b").targets.tolist() == [1, 7]
    assert read_features(text(tmp_path / "data.csv", "1,2,3.0", "1,2,4.0")).targets.tolist() == [3, 4]


def test_csv_labels_that_are_names(tmp_path):
    part = read_features(text(tmp_path / "data.csv", "1,2,dog", "3,4,ant", '5,6,"dog"', "7,8,10"))
    assert part.class_names == ("10", "ant", "dog")
    assert part.targets.tolist() == [2, 1, 2, 0]
    assert part.features.shape == (4, 2)


@pytest.mark.parametrize(
    ("lines", "key", "message"),
    [
        (["1,2,0", "1,2"], "targets", r"must have 3 cells, as the first one has; line 2 has 2"),
        (["a,b,y", "1,2,0", "1,x7,1"], "targets", r"line 3 has 'x7'"),
        (["1,2,0", "1,2,0.25"], "targets", r"got 0.25 at line 2"),
        (["1,2,0", "1,2,nan"], "targets", r"got nan at line 2"),
        (["1,nan,0", "1,2,1"], "targets", r"hold NaN or infinity \(first at row 0\)"),
        (["1,2,0"], "y", "has no line with column names, so 'y' cannot be found"),
        (["a,b,c", "1,2,0"], "y", "has no column 'y'; it holds 'a', 'b', 'c'"),
        (["1", "2"], "targets", "a label and at least one feature"),
        ([""], "targets", "holds no sample"),
        (["a,b,c"], "targets", "holds no sample"),
    ],
)
def test_problems_of_csv(tmp_path, lines, key, message):
    with pytest.raises(ValueError, match=message):
        read_features(text(tmp_path / "data.csv", *lines), targets_key=key)


def test_other_endings_and_encodings(tmp_path):
    with pytest.raises(ValueError, match=r"must end in .npz, .safetensors, .pt, .pth or .csv.* got '.txt'"):
        read_features(tmp_path / "data.txt")
    (tmp_path / "data.csv").write_bytes(b"1,2,\xff\xfe\n")
    with pytest.raises(ValueError, match="comma-separated text in UTF-8"):
        read_features(tmp_path / "data.csv")
