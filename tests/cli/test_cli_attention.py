"""``ncmi attention``: from a run and a slide to a decision, a table and a map."""

import csv
import json
import re

import pytest
import torch
from data.bags.made_bags import WIDTH, instances, write_clam, write_h5, write_splits

from ncmi.cli import main
from ncmi.data.bags import has_made_up_coordinates, load_bags
from ncmi.evaluation.attention import attention_weights
from ncmi.report.attention_map import draw_attention
from ncmi.training.processes import Processes
from ncmi.training.run import load_task
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

ROWS = tuple((f"slide.{i}", f"p{i}", ("normal", "tumor")[i % 2], 3 + i) for i in range(12))
NAMES = [row[0] for row in ROWS]
MODELS = {
    "abmil": {"num_features": 8},
    "asmil": {"num_features": 8, "num_tokens": 2, "num_dropped": 1, "num_heads": 2},
}
LOSSES = {"abmil": "ce", "asmil": "ncmi"}


def train(folder, data, model, *settings):
    recipe = {
        "epochs": 1,
        "batch_size": 4,
        "data": {"name": f"bags:{data}", "workers": 0},
        "model": {"name": model, "options": MODELS[model]},
        "loss": {"name": LOSSES[model]},
        "decisions": ["own"],
    }
    path = folder.with_suffix(".yaml")
    path.write_text(json.dumps(recipe))
    assert main(["train", str(path), "--quiet", "--run-folder", str(folder), "--device", "cpu", *settings]) == 0
    return folder


def made_set(folder, kind="h5_files"):
    write_clam(folder, ROWS, kind)
    write_splits(folder / "splits", train=NAMES[:8], val=NAMES[8:10], test=NAMES[10:])
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of a model with one head and cross-entropy, and of one with four heads and NCMI."""
    place = tmp_path_factory.mktemp("attention")
    data = made_set(place / "bags")
    return {model: train(place / model, data, model) for model in MODELS}


def attend(capsys, *arguments):
    capsys.readouterr()
    assert main(["attention", *map(str, arguments), "--device", "cpu"]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    capsys.readouterr()
    assert main(["attention", *map(str, arguments), "--device", "cpu"]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    return errors


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("model", MODELS)
def test_the_files_hold_what_the_network_looks_at(runs, capsys, model):
    printed = attend(capsys, runs[model], "slide.10")
    folder = RunFolder(runs[model])
    setup = Setup(folder.read_config(), Processes(0, 1, torch.device("cpu")))
    task = load_task(setup, folder)
    bag = torch.from_numpy(instances("slide.10", 13)).float()
    with torch.no_grad():
        output = task.network(bag)
        scores = task.criterion.scores(output.features[None])[0]
    weights = attention_weights(output.attention)
    assert output.attention.shape == (13, {"abmil": 1, "asmil": 4}[model])
    rows = rows_of(runs[model] / "attention" / "slide.10-attention.csv")
    assert list(rows[0]) == ["rank", "index", "x", "y", "weight", "share"]
    assert [int(row["rank"]) for row in rows] == list(range(1, 14))
    assert sorted(int(row["index"]) for row in rows) == list(range(13))
    for row in rows:
        index = int(row["index"])
        assert float(row["weight"]) == pytest.approx(float(weights[index]), rel=1e-5)
        assert (int(row["x"]), int(row["y"])) == (index * 256, index % 2)
    assert [float(row["weight"]) for row in rows] == sorted((float(row["weight"]) for row in rows), reverse=True)
    assert float(rows[-1]["share"]) == 1.0
    assert (runs[model] / "attention" / "slide.10-attention.png").read_bytes().startswith(b"\x89PNG")
    decided = ("normal", "tumor")[int(scores.argmax())]
    assert "13 patches, in the test part of" in printed
    assert f"true class: normal, so the decision is {'right' if decided == 'normal' else 'wrong'}" in printed
    if model == "abmil":
        probability = float(scores.softmax(0).max())
        assert f"decision (head, checkpoint last): {decided} with probability {probability:.3f}" in printed
        assert "one attention head" in printed
    else:
        each = ", ".join(f"{name} {float(score):.4g}" for name, score in zip(("normal", "tumor"), scores, strict=True))
        assert re.search(rf"decision \(learned q, checkpoint last\): {decided}; scores, .*: {re.escape(each)}", printed)
        assert "the mean of 4 attention heads" in printed
    assert "made up" not in printed


@pytest.mark.parametrize(("slide", "part"), [("slide.0", "train"), ("slide.9", "validation"), ("slide.11", "test")])
def test_a_slide_of_any_part_is_found(runs, capsys, tmp_path, slide, part):
    assert f"in the {part} part" in attend(capsys, runs["abmil"], slide, "--out", tmp_path, "--checkpoint", "best")
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{slide}-attention.csv", f"{slide}-attention.png"]


def test_top_limits_what_is_printed_and_not_the_file(runs, capsys, tmp_path):
    printed = attend(capsys, runs["abmil"], "slide.10", "--top", "3", "--out", tmp_path / "new" / "folder")
    assert len(re.findall(r"^\| +\d", printed, re.MULTILINE)) == 3
    assert len(rows_of(tmp_path / "new" / "folder" / "slide.10-attention.csv")) == 13


def test_one_head_has_files_of_its_own_and_the_mean_is_the_mean(runs, capsys, tmp_path):
    def weights(name):
        return {row["index"]: float(row["weight"]) for row in rows_of(tmp_path / name)}

    attend(capsys, runs["asmil"], "slide.10", "--out", tmp_path)
    heads = []
    for head in range(4):
        printed = attend(capsys, runs["asmil"], "slide.10", "--out", tmp_path, "--head", head)
        assert f"attention head {head} of 0 … 3" in printed
        heads.append(weights(f"slide.10-attention-head{head}.csv"))
    assert heads[0] != heads[1]
    for index, weight in weights("slide.10-attention.csv").items():
        assert weight == pytest.approx(sum(head[index] for head in heads) / 4)


def test_looking_changes_nothing_in_the_run(runs, capsys, tmp_path):
    before = {
        path: path.read_bytes() for path in runs["asmil"].rglob("*.*") if "attention" not in str(path.parent.name)
    }
    first = attend(capsys, runs["asmil"], "slide.10", "--out", tmp_path)
    assert attend(capsys, runs["asmil"], "slide.10", "--out", tmp_path) == first
    assert all(path.read_bytes() == content for path, content in before.items() if path.is_file())


def test_a_set_without_coordinates_has_a_table_and_no_map(capsys, tmp_path):
    run = train(tmp_path / "run", made_set(tmp_path / "bags", "pt_files"), "abmil")
    printed = attend(capsys, run, "slide.10")
    assert "no map: the features of this slide were stored without coordinates." in printed
    assert [file.name for file in (run / "attention").iterdir()] == ["slide.10-attention.csv"]
    assert {(row["x"], row["y"]) for row in rows_of(run / "attention" / "slide.10-attention.csv")} == {("", "")}


def test_the_tcga_sets_say_that_their_coordinates_are_made_up(capsys, tmp_path, monkeypatch):
    rows = tuple((slide, patient, {"normal": "LUAD", "tumor": "LUSC"}[label], n) for slide, patient, label, n in ROWS)
    data = tmp_path / "tcga_lung"
    write_clam(data, rows)
    write_splits(data / "splits", train=NAMES[:8], val=NAMES[8:10], test=NAMES[10:])
    monkeypatch.setenv("NCMI_DATA", str(tmp_path))
    run = train(tmp_path / "run", "tcga-lung", "abmil")

    def draw_as_svg(coordinates, weights, path, *words):
        draw_attention(coordinates, weights, path.with_suffix(".svg"), *words)

    # The same picture in a format whose words can be read.
    monkeypatch.setattr("ncmi.report.attention_map.draw_attention", draw_as_svg)
    assert "coordinates are made up" in attend(capsys, run, "slide.10")
    assert "<!-- The coordinates are made up" in (run / "attention" / "slide.10-attention.svg").read_text()
    assert has_made_up_coordinates(load_bags(data))  # by its path, too
    assert not has_made_up_coordinates(load_bags(made_set(tmp_path / "others")))


def test_an_unknown_slide_gets_the_nearest_names(runs, capsys):
    sentence = refused(capsys, runs["abmil"], "slide.10.svs")
    assert "SLIDE (12 in the run's split; here the nearest) must be one of " in sentence
    assert "got 'slide.10.svs'. Did you mean 'slide.10'" in sentence
    assert sentence.count("slide.") <= 9
    beginning = refused(capsys, runs["abmil"], "slide.11.")
    assert "'slide.11'" in beginning
    assert "'slide.0'" in refused(capsys, runs["abmil"], "slide")


def test_a_run_on_images_gets_a_sentence(capsys, tmp_path):
    pytest.importorskip("sklearn")
    recipe = {"epochs": 1, "batch_size": 64, "data": {"name": "digits", "train_size": 128}, "model": {"name": "mlp"}}
    (tmp_path / "quick.yaml").write_text(json.dumps(recipe))
    assert main(["train", str(tmp_path / "quick.yaml"), "--quiet", "--run-folder", str(tmp_path / "run")]) == 0
    assert "is a run on images (digits)" in refused(capsys, tmp_path / "run", "slide.10")


def test_other_sentences(runs, capsys, tmp_path):
    assert "holds no run" in refused(capsys, tmp_path / "nowhere", "slide.10")
    assert "--top must be at least 1; got 0" in refused(capsys, runs["abmil"], "slide.10", "--top", "0")
    assert "head must lie in [0, 3]" in refused(capsys, runs["asmil"], "slide.10", "--head", "4")


def test_a_slide_that_changed_on_disk_gets_a_sentence(capsys, tmp_path):
    data = made_set(tmp_path / "bags")
    run = train(tmp_path / "run", data, "abmil")
    write_h5(data / "h5_files" / "slide.10.h5", instances("slide.10", 4, WIDTH + 1))
    assert "features must have the width of the set's first bag" in refused(capsys, run, "slide.10")
