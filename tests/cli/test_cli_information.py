"""Commands on what divergences say: printed numbers, tables and pictures."""

import csv

import pytest

from ncmi.cli import main


def lines_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_ood(run, capsys, tmp_path):
    assert main(["ood", str(run.path), "--data", "digits", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "360 test images of digits, 360 of digits; 0.5 is chance" in printed.out
    assert "AUROC 0.5000 by the smallest divergence from a centroid (class means)" in printed.out
    assert {path.name for path in tmp_path.iterdir()} == {"ood-digits.csv", "ood-digits.svg", "ood-digits.png"}
    assert len(lines_of(tmp_path / "ood-digits.csv")) == 720


def test_mislabeled(run, capsys):
    assert main(["mislabeled", str(run.path), "--top", "3"]) == 0
    printed = capsys.readouterr().out
    assert "of 256 training samples are nearer to another class than to their own (class means)" in printed
    assert printed.count(": labelled ") == 3
    assert "on purpose" not in printed
    folder = run.path / "information"
    rows = lines_of(folder / "mislabeled.csv")
    assert len(rows) == 256
    assert float(rows[0]["margin"]) >= float(rows[-1]["margin"])
    assert (folder / "mislabeled.svg").is_file()


def test_mislabeled_says_how_many_it_found(recipe, capsys, tmp_path):
    settings = ["data.flip_labels=0.1", "epochs=1"]
    assert main(["train", recipe, "--quiet", "--run-folder", str(tmp_path / "run"), "--set", *settings]) == 0
    assert main(["mislabeled", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "label made wrong on purpose" in printed
    assert printed.count("labels made wrong on purpose, by the ") == 2


def test_classes(run, capsys, tmp_path):
    assert main(["classes", str(run.path), "--top", "4", "--out", str(tmp_path / "new" / "folder")]) == 0
    printed = capsys.readouterr().out
    assert "nearest pairs of 10 classes, by divergence between centroids (class means)" in printed
    assert printed.count(" % of the test images confused") == 4
    assert "rank correlation of nearness and confusion over all pairs: " in printed
    assert len(lines_of(tmp_path / "new" / "folder" / "classes.csv")) == 45


@pytest.mark.parametrize("command", ["mislabeled", "classes"])
def test_nothing_to_print_is_refused(refused, run, command):
    assert "--top must be at least 1; got 0" in refused(command, run.path, "--top", "0")


def test_refusals(refused, run, tmp_path):
    assert "holds no run" in refused("classes", tmp_path)
    assert "name must be one of" in refused("ood", run.path, "--data", "cifar11")
    assert "data.flip_labels must lie in [0, 1); got 1.0" in refused("train", "digits", "--set", "data.flip_labels=1")
