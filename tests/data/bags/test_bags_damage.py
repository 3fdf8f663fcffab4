"""What is missing, empty, damaged or of another kind gets a sentence that names it and says what to do."""

import h5py
import numpy
import pytest
import torch
from made_bags import (
    ROWS,
    WIDTH,
    check_rows,
    coordinates,
    instances,
    write_clam,
    write_csv,
    write_h5,
    write_npz,
)

from ncmi.data.bags import load_bags


def test_tables_with_a_byte_order_mark_and_further_columns(tmp_path):
    write_clam(tmp_path)
    lines = ["\ufeff,case_id,slide_id,label,center"] + [f"0,{r[1]},{r[0]},{r[2]},7" for r in ROWS]
    (tmp_path / "dataset.csv").write_text("\n".join(lines), encoding="utf-8")
    bags = load_bags(tmp_path)
    check_rows(bags)
    assert bags.columns == {"center": ("7",) * 4}
    assert bags.subset(torch.tensor([2])).columns == {"center": ("7",)}


def test_a_missing_slide_gets_a_sentence(tmp_path):
    write_clam(tmp_path)
    (tmp_path / "h5_files" / "s3.h5").unlink()
    with pytest.raises(FileNotFoundError, match=r"every slide of the table .* 1 of 4 are missing: 's3'\. Extract them"):
        load_bags(tmp_path)


def test_a_file_that_goes_away_gets_a_sentence(tmp_path):
    for kind, name in (("h5_files", "s2.h5"), ("pt_files", "s2.pt")):
        bags = load_bags(write_clam(tmp_path / kind, kind=kind))
        (tmp_path / kind / kind / name).unlink()
        with pytest.raises(FileNotFoundError, match=f"{name}.* (is missing|is not a file)"):
            bags.bag(1)


@pytest.mark.parametrize("features", [numpy.zeros((0, WIDTH), numpy.float16), numpy.zeros(0, numpy.float16)])
@pytest.mark.parametrize("slide", ["s1", "s3"])
def test_an_empty_bag_gets_a_sentence(tmp_path, features, slide):
    write_clam(tmp_path)
    write_h5(tmp_path / "h5_files" / f"{slide}.h5", features, numpy.zeros((0, 2), numpy.int64))
    with pytest.raises(ValueError, match=f"slide '{slide}': a bag must have at least one instance; this one is empty"):
        load_bags(tmp_path, preload=True)


@pytest.mark.parametrize("value", [numpy.nan, numpy.inf, -numpy.inf])
def test_features_that_are_not_finite_get_a_sentence(tmp_path, value):
    write_clam(tmp_path)
    features = instances("s3", 4)
    features[2, 1] = value
    write_h5(tmp_path / "h5_files" / "s3.h5", features)
    bags = load_bags(tmp_path)
    with pytest.raises(
        ValueError, match=r"slide 's3': features must be finite; 1 of 4 instances hold .* \(first at 2\)"
    ):
        bags.bag(2)


def test_large_finite_features_are_let_through(tmp_path):
    write_clam(tmp_path)
    write_h5(tmp_path / "h5_files" / "s3.h5", numpy.full((4, WIDTH), 3e38, numpy.float32))
    assert load_bags(tmp_path).bag(2).instances.max() > 1e38


@pytest.mark.parametrize(
    ("features", "coords", "sentence"),
    [
        (instances("s", 4, width=5), None, "must have the width of the set's first bag, 6; got 5"),
        (instances("s", 24).reshape(2, 2, 36), None, r"of shape \(n, F\), one row an instance; got .* \(2, 2, 36\)"),
        (numpy.zeros((4, WIDTH), numpy.int16), None, "features must be real numbers of shape"),
        (numpy.zeros((4, WIDTH), bool), None, "features must be real numbers; got bool"),
        (
            instances("s", 4),
            coordinates(3),
            r"coordinates must have shape \(4, 2\), one pair an instance; got \(3, 2\)",
        ),
    ],
)
def test_features_of_another_shape_get_a_sentence(tmp_path, features, coords, sentence):
    write_clam(tmp_path)
    write_h5(tmp_path / "h5_files" / "s3.h5", features, coords)
    with pytest.raises(ValueError, match=sentence):
        load_bags(tmp_path).bag(2)


@pytest.mark.parametrize("keep", [0, 100, 0.5, -8])
def test_a_truncated_h5_gets_a_sentence(tmp_path, keep):
    write_clam(tmp_path)
    path = tmp_path / "h5_files" / "s3.h5"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(ValueError, match=r"s3\.h5: it cannot be read as HDF5 .* fetch or extract it again"):
        load_bags(tmp_path).bag(2)


def test_a_damaged_chunk_gets_a_sentence(tmp_path):
    write_clam(tmp_path)
    path = tmp_path / "h5_files" / "s3.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=instances("s3", 400), compression="gzip")
        offset = file["features"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[offset : offset + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"s3\.h5: it cannot be read as HDF5"):
        load_bags(tmp_path).bag(2)


def test_arrays_of_another_byte_order_are_read(tmp_path):
    write_clam(tmp_path)
    features, coords = instances("s3", 4), coordinates(4)
    write_h5(tmp_path / "h5_files" / "s3.h5", features.astype(">f2"), coords.astype(">i8"))
    check_rows(load_bags(tmp_path))


def test_other_content_gets_a_sentence(tmp_path):
    write_clam(tmp_path)
    with h5py.File(tmp_path / "h5_files" / "s3.h5", "w") as file:
        file["vectors"] = numpy.zeros((4, WIDTH))
    with pytest.raises(ValueError, match="it must hold the array 'features'; it has 'vectors'"):
        load_bags(tmp_path).bag(2)
    with pytest.raises(ValueError, match="a group for each slide and nothing else; 'coords', 'features' are arrays"):
        load_bags(tmp_path / "h5_files" / "s1.h5")
    with h5py.File(tmp_path / "empty.h5", "w"):
        pass
    with pytest.raises(ValueError, match="a group for each slide; it is empty"):
        load_bags(tmp_path / "empty.h5")


class Trap:
    def __reduce__(self):
        return (print, ("foreign code",))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"features": torch.zeros(2, WIDTH)}, "must hold the tensor of features alone; got dict"),
        (Trap(), "could run foreign code"),
    ],
)
def test_pt_files_hold_one_tensor_and_no_code(tmp_path, content, sentence):
    write_clam(tmp_path, kind="pt_files")
    torch.save(content, tmp_path / "pt_files" / "s2.pt")
    with pytest.raises(ValueError, match=sentence):
        load_bags(tmp_path).bag(1)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": numpy.ones((3, 2)), "y": [0, 1]}, "it has no array 'bag'"),
        ({"x": numpy.ones((3, 2)), "bag": [0, 0], "y": [0, 1]}, r"must have shapes .* got \(3, 2\), \(2,\), \(2,\)"),
        ({"x": numpy.ones((3, 2)), "bag": [0, 1, 2], "y": [0, 1]}, r"numbers in \[0, 1\], .* got 0 … 2"),
        ({"x": numpy.ones((3, 2)), "bag": [0, 0, 0], "y": [0, 1]}, "bag_1: a bag must have at least one instance"),
        ({"x": numpy.full((3, 2), numpy.nan), "bag": [0, 0, 1], "y": [0, 1]}, "features must be finite"),
        ({"x": numpy.array([None]), "bag": [0], "y": [0]}, "reading it failed"),
    ],
)
def test_bad_npz_files_get_a_sentence(tmp_path, arrays, sentence):
    numpy.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(ValueError, match=sentence):
        load_bags(tmp_path / "set.npz")


def test_a_truncated_npz_gets_a_sentence(tmp_path):
    path = write_npz(tmp_path / "set.npz")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"set\.npz: it must be an npz file with x, bag and y; reading it failed"):
        load_bags(path)
    numpy.save(tmp_path / "set.npy", numpy.zeros(3))
    (tmp_path / "set.npy").rename(path)
    with pytest.raises(ValueError, match="reading it failed"):
        load_bags(path)


@pytest.mark.parametrize(
    ("header", "rows", "sentence"),
    [
        (("slide_id", "label"), [("s1", "a")], "needs the column case_id; it has slide_id, label. Add it, or pass"),
        (("case_id", "slide_id"), [("p", "s1")], "must have the columns slide_id and label; got case_id, slide_id"),
        (
            ("case_id", "slide_id", "label"),
            [("p", "s1", "")],
            "every slide must have a name and a label; row 1 lacks one",
        ),
        (("case_id", "slide_id", "label"), [("p", "s1", "a"), ("p", "s1", "b")], "'s1' is there twice. Remove one"),
        (("case_id", "slide_id", "label"), [("", "s1", "a")], "every slide must have a patient; 's1' has none"),
        (("case_id", "slide_id", "label"), [], "must have a row for each slide; it has none"),
        (
            ("case_id", "slide_id", "label"),
            [("p", "s1", "a"), ("p", "s2", "a")],
            "two or more classes; all slides are 'a'",
        ),
    ],
)
def test_bad_tables_get_a_sentence(tmp_path, header, rows, sentence):
    write_clam(tmp_path)
    write_csv(tmp_path / "dataset.csv", header, rows)
    with pytest.raises(ValueError, match=sentence):
        load_bags(tmp_path)


def test_labels_outside_the_list_get_a_sentence(tmp_path):
    write_clam(tmp_path)
    with pytest.raises(
        ValueError, match=r"every label must be one of 'tumor', 'benign'; got 'normal'\. Correct the table"
    ):
        load_bags(tmp_path, class_names=("tumor", "benign"))
    with pytest.raises(ValueError, match="label_map must name a class for every label; it has none for 'tumor'"):
        load_bags(tmp_path, label_map={"normal": "benign"})
    assert load_bags(tmp_path, class_names=("tumor", "normal")).targets.tolist() == [0, 0, 1, 1]
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv: there is no such table"):
        load_bags(tmp_path, table=tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="'q' finds none in 's1'"):
        load_bags(tmp_path, patient_pattern="q")
