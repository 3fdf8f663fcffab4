"""Readers: every layout gives the bags that were written, as stored, by name and by path."""

import pickle
import shutil
import subprocess
import sys

import numpy
import pytest
import torch
from made_bags import (
    ROWS,
    check_rows,
    write_acmil,
    write_clam,
    write_csv,
    write_npz,
    write_table,
    write_trident,
)

from ncmi.data.bags import BAG_SETS, find_bags, load_bags


@pytest.mark.parametrize("kind", ["h5_files", "pt_files"])
def test_clam(tmp_path, kind):
    folder = write_clam(tmp_path / "lung", kind=kind)
    for name in (folder, str(folder), f"clam:{folder}"):
        check_rows(load_bags(name), with_coordinates=kind == "h5_files")


def test_clam_with_both_kinds_takes_the_one_with_coordinates(tmp_path):
    write_clam(tmp_path, kind="pt_files")
    write_clam(tmp_path)
    check_rows(load_bags(tmp_path))
    check_rows(load_bags(tmp_path, files="pt_files"), with_coordinates=False)
    shutil.rmtree(tmp_path / "pt_files")
    with pytest.raises(
        FileNotFoundError, match=r"must have the folder pt_files with one file a slide; it has h5_files"
    ):
        load_bags(tmp_path, files="pt_files")


def test_trident(tmp_path):
    job = write_trident(tmp_path / "job")
    table = write_table(tmp_path / "labels.csv")
    patches = job / "20x_256px_0px_overlap"
    for path in (job, patches, patches / "features_uni_v1"):
        assert find_bags(path).layout == "trident"
        check_rows(load_bags(path, table=table))
    with pytest.raises(FileNotFoundError, match=r"dataset\.csv, which is missing\. Write it with the columns case_id"):
        load_bags(job)
    write_trident(job, encoders=("conch_v1",))
    with pytest.raises(ValueError, match=r"must have one folder of features; it has .*conch_v1.*uni_v1\. Pass encoder"):
        load_bags(job, table=table)
    check_rows(load_bags(job, table=table, encoder="conch_v1"))
    with pytest.raises(ValueError, match="by the encoder 'uni_v2'"):
        load_bags(job, table=table, encoder="uni_v2")


def test_acmil(tmp_path):
    path = write_acmil(tmp_path / "features.h5")
    table = write_table(tmp_path / "elsewhere" / "table.csv")
    for name in (path, tmp_path, f"acmil:{path}"):
        check_rows(load_bags(name, table=table))
    # Without a table, labels are those of the file, and patients must be found in the names.
    with pytest.raises(ValueError, match="the file does not name patients"):
        load_bags(path)
    bags = load_bags(
        path, patient_pattern=".+", class_names=("normal", "tumor"), label_map={"0": "normal", "1": "tumor"}
    )
    check_rows(bags, [(slide, slide, label, count) for slide, _, label, count in ROWS])
    assert load_bags(path, patient_pattern="s(.)").patients == ("1", "2", "3", "4")
    write_table(tmp_path / "dataset.csv")
    check_rows(load_bags(path))


def test_npz(tmp_path):
    path = write_npz(tmp_path / "set.npz")
    bags = load_bags(path)
    assert bags.slides == bags.patients == ("bag_0", "bag_1", "bag_2")
    assert bags.class_names == ("negative", "positive")
    assert bags.targets.tolist() == [0, 1, 1]
    assert [len(bags.bag(index).instances) for index in range(3)] == [2, 3, 1]
    assert bags.bag(1).instances[:, 0].tolist() == [12, 18, 24]
    assert load_bags(write_npz(path, targets=(2, 0, 10))).class_names == ("0", "2", "10")


def test_npz_rows_may_come_in_any_order(tmp_path):
    path = tmp_path / "set.npz"
    features = numpy.arange(8, dtype=numpy.float64).reshape(4, 2)
    numpy.savez(path, x=features, bag=[1, 0, 1, 0], y=[1, 0])
    bags = load_bags(path)
    assert bags.bag(0).instances.dtype == torch.float64
    assert bags.bag(0).instances[:, 0].tolist() == [2, 6]
    assert bags.bag(1).instances[:, 0].tolist() == [0, 4]


def test_names_of_slide_files_are_the_names_of_slides(tmp_path):
    write_clam(tmp_path)
    write_csv(tmp_path / "dataset.csv", ("slide_id", "label", "case_id"), [(f"{r[0]}.svs", r[2], r[1]) for r in ROWS])
    check_rows(load_bags(tmp_path))


def test_preloaded_bags_are_the_same_and_need_no_file(tmp_path):
    write_clam(tmp_path)
    bags = load_bags(tmp_path, preload=True)
    shutil.rmtree(tmp_path)
    check_rows(bags)
    part = bags.subset(torch.tensor([3, 1]))
    assert part.slides == ("s4", "s2")
    assert part.bag(1).instances is bags.bag(1).instances


@pytest.mark.parametrize("write", [write_clam, lambda folder: write_acmil(folder / "a.h5")])
def test_sets_can_be_sent_to_other_processes(tmp_path, write):
    write(tmp_path)
    write_table(tmp_path / "dataset.csv")
    check_rows(pickle.loads(pickle.dumps(load_bags(tmp_path))))


def test_slides_can_be_left_out(tmp_path):
    write_clam(tmp_path)
    (tmp_path / "h5_files" / "s2.h5").unlink()
    bags = load_bags(tmp_path, leave_out=["s2"])
    check_rows(bags, [row for row in ROWS if row[0] != "s2"])
    with pytest.raises(ValueError, match="leave_out must name slides of the table; 's9' are none"):
        load_bags(tmp_path, leave_out=["s9"])
    with pytest.raises(ValueError, match="leave_out must leave some slide; all 4 are in it"):
        load_bags(tmp_path, leave_out=[row[0] for row in ROWS])


def test_names_are_looked_for_in_the_data_folders(tmp_path, monkeypatch):
    write_npz(tmp_path / "one" / "mil" / "musk1.npz")
    assert len(load_bags("musk1", tmp_path / "one")) == 3
    monkeypatch.setenv("NCMI_DATA", str(tmp_path / "one"))
    assert find_bags("musk1").path == tmp_path / "one" / "mil" / "musk1.npz"
    with pytest.raises(FileNotFoundError, match=r"fox: not found; looked for .*two/mil/fox\.npz\. Put an npz file"):
        load_bags("fox", tmp_path / "two")
    with pytest.raises(ValueError, match="Did you mean 'musk2' or 'musk1'"):
        load_bags("musk")
    with pytest.raises(FileNotFoundError, match=r"nowhere: not found; looked for .* Check the path"):
        load_bags(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="has none of the layouts clam, trident, acmil, npz"):
        load_bags(tmp_path)
    with pytest.raises(ValueError, match="encoder is for the layout trident; musk1 has the layout npz"):
        load_bags("musk1", tmp_path / "one", encoder="uni")
    assert "layout npz" in str(find_bags("musk1"))
    assert all("looked for" in str(find_bags(name, tmp_path / "two")) for name in BAG_SETS)


def test_camelyon17_and_bracs_labels_and_patients(tmp_path):
    rows = [(f"patient_{patient:03d}_node_{node}", "", node % 2, 1) for patient in (7, 23) for node in range(4)]
    write_acmil(tmp_path / "camelyon17" / "ssl.h5", rows, labels=(0, 1))
    table = [(slide, index % 4, 0) for index, (slide, *_) in enumerate(rows)]
    write_csv(tmp_path / "camelyon17" / "dataset.csv", ("slide_id", "label", "center"), table)
    bags = load_bags("camelyon17", tmp_path)
    assert bags.class_names == ("negative", "itc", "micro", "macro")
    assert bags.targets.tolist() == [0, 1, 2, 3] * 2
    assert bags.patients == ("patient_007",) * 4 + ("patient_023",) * 4

    rows = [(f"BRACS_{label}", f"patient_{label}", 0, 1) for label in range(7)]
    write_acmil(tmp_path / "bracs" / "ssl.h5", rows, labels=(0,))
    for labels in (range(7), ("N", "PB", "UDH", "FEA", "ADH", "DCIS", "IC")):
        table = [(row[1], row[0], "train", "/x.svs", label) for row, label in zip(rows, labels, strict=True)]
        write_csv(
            tmp_path / "bracs" / "dataset.csv", ("case_id", "slide_id", "split_info", "full_path", "label"), table
        )
        assert load_bags("bracs", tmp_path).targets.tolist() == [0, 0, 0, 1, 1, 2, 2]
        assert load_bags("bracs-7", tmp_path).targets.tolist() == list(range(7))


def test_without_h5py_the_package_imports_and_h5_files_get_a_sentence(tmp_path):
    write_clam(tmp_path)
    code = (
        "import sys; sys.modules['h5py'] = None\n"
        "from ncmi.data.bags import load_bags\n"
        f"try: load_bags({str(tmp_path)!r})\n"
        "except ImportError as error: print(error, 'pandas' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip().endswith("needs the package h5py: `pip install h5py`. False")
