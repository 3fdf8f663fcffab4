"""Run folders are read as far as they go; what is no run gets a sentence."""

import json
import os
import shutil
from pathlib import Path

import pytest

from ncmi.report.records import distinct_names, read_runs


def test_a_finished_run(runs):
    first, second = read_runs([runs.ncmi, str(runs.ce)])
    assert [first.name, second.name] == ["ncmi", "ce"]
    assert first.config["loss"]["name"] == "ncmi"
    assert [row["epoch"] for row in first.rows] == [1, 2, 3]
    assert first.outputs.decision == first.decisions[0]["source"] == "learned q"
    assert (first.notes, first.attention, first.environment["resumed"]) == ([], [], 0)


def test_the_headline_decision_comes_first(runs, tmp_path):
    shutil.copytree(runs.ce, tmp_path / "run")
    summary = json.loads((runs.ce / "summary.json").read_text())
    (tmp_path / "run" / "summary.json").write_text(json.dumps({**summary, "headline": "class means"}))
    (run,) = read_runs([tmp_path / "run"])
    assert [row["name"] for row in run.decisions] == ["class means", "own"]


def test_a_folder_given_twice_is_one_run(runs):
    assert len(read_runs([runs.ce, os.path.relpath(runs.ce), f"{runs.ce}/"])) == 1


def test_an_older_run_says_how_to_get_its_outputs(runs):
    (run,) = read_runs([runs.old])
    assert run.outputs is None
    assert run.notes == [
        "There is no outputs.pt, so confusion, calibration, distances of classes and t-SNE cannot be drawn. "
        f"`ncmi evaluate {runs.old}` writes it."
    ]


def test_a_stopped_run_shows_what_is_there(runs, tmp_path):
    (run,) = read_runs([runs.stopped])
    assert (run.summary, run.outputs, run.decisions, len(run.rows)) == (None, None, [], 3)
    sentence = "The run is not finished: 3 of 3 epochs so far. `ncmi train {} --resume` goes on with it."
    assert run.notes == [sentence.format(runs.stopped)]
    (tmp_path / "config.yaml").write_text("epochs: 4\n")
    (run,) = read_runs([tmp_path])
    assert run.notes == [f"The run is not finished: no epoch so far. `ncmi train {tmp_path} --resume` goes on with it."]


def test_damaged_outputs_are_a_note(runs, tmp_path):
    shutil.copytree(runs.ce, tmp_path / "run")
    file = tmp_path / "run" / "outputs.pt"
    file.write_bytes(file.read_bytes()[:-200])
    (run,) = read_runs([tmp_path / "run"])
    assert run.outputs is None
    assert "outputs.pt is damaged" in run.notes[0]
    assert run.notes[0].endswith(f"`ncmi evaluate {tmp_path / 'run'}` writes it again.")


def test_the_last_warning_of_a_run_is_a_note(runs, tmp_path):
    shutil.copytree(runs.ce, tmp_path / "run")
    rows = [{"epoch": 1, "warning": "first"}, {"epoch": 2, "warning": "second"}, {"epoch": 3, "warning": None}]
    (tmp_path / "run" / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_runs([tmp_path / "run"])[0].notes == ["second"]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("config.yaml", "a: [", "config.yaml is damaged: it cannot be read as YAML."),
        ("config.yaml", "- a\n", "config.yaml is damaged: it must hold settings by name; got list."),
        ("environment.json", "{", "environment.json is damaged: it cannot be read as JSON."),
        ("summary.json", "", "summary.json is damaged: it cannot be read as JSON."),
        ("summary.json", "{}", "summary.json lacks the evaluation. It may come from another version."),
        ("log.jsonl", "{\n{}\n", "log.jsonl, line 1 is damaged"),
    ],
)
def test_damaged_files_get_a_sentence(runs, tmp_path, file, text, words):
    shutil.copytree(runs.ce, tmp_path / "run")
    (tmp_path / "run" / file).write_text(text)
    with pytest.raises(ValueError, match=r"^(report|read_rows): ") as error:
        read_runs([tmp_path / "run"])
    assert words in str(error.value)


def test_what_is_no_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"report: .*missing is not a folder\. Check the path\."):
        read_runs([tmp_path / "missing"])
    with pytest.raises(FileNotFoundError, match=r"holds no run: there is no config\.yaml in it\. Check the path\."):
        read_runs([tmp_path])
    with pytest.raises(ValueError, match="name at least one run folder"):
        read_runs([])


def test_names_are_as_long_as_they_must_be():
    assert distinct_names([Path("/runs/a")]) == ["a"]
    assert distinct_names([Path("/x/a/ce"), Path("/x/b/ce"), Path("/x/b/ncmi")]) == ["a/ce", "b/ce", "b/ncmi"]
