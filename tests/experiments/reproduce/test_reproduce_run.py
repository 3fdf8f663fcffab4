"""``ncmi reproduce`` from end to end: stopped, gone on with, and not run again."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ncmi.cli import main
from ncmi.data import load_data
from ncmi.data.folder import find_folder, read_folder
from ncmi.experiments.reproduce.image_folder import write_image_folder
from ncmi.experiments.reproduce.item import Item, Piece, Place
from ncmi.experiments.reproduce.run import reproduce
from ncmi.experiments.workers import Workers
from ncmi.report.drawing import style

COMMAND = ["reproduce", "figure-batch-size", "--scale", "smoke", "--jobs", "2"]
OUT = Path("results", "reproduce", "smoke", "figure-batch-size")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def count_rows():
    return sum(len(path.read_text().splitlines()) for path in OUT.glob("*/rows.jsonl"))


def test_an_interrupted_item_goes_on_and_runs_nothing_twice(capsys, monkeypatch):
    process = subprocess.Popen(
        [sys.executable, "-m", "ncmi", *COMMAND], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while not count_rows():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGINT
    assert errors.startswith("ncmi reproduce: figure-batch-size: stopped. Finished in this call: ")
    assert "the same command goes on" in errors
    assert not (OUT / "table.md").exists()
    first = {path: path.read_text() for path in OUT.glob("*/rows.jsonl")}

    assert main(COMMAND) == 0
    assert all(path.read_text().startswith(text) for path, text in first.items())
    assert count_rows() == 6
    text = (OUT / "table.md").read_text()
    assert text in capsys.readouterr().out
    assert "Not finished" not in text
    pictures = {ending: (OUT / f"batch-size{ending}").read_bytes() for ending in (".svg", ".png")}

    # A second time, and elsewhere, nothing is run.
    monkeypatch.setattr(Workers, "start", lambda *arguments: pytest.fail("no cell may be run"))
    assert main(COMMAND) == 0
    assert {ending: (OUT / f"batch-size{ending}").read_bytes() for ending in pictures} == pictures
    assert main([*COMMAND, "--out", "elsewhere"]) == 0
    assert (
        "figure-batch-size, batch-32: rows of the same runs taken over from other folders of results: 3."
        in capsys.readouterr().out
    )
    assert (Path("elsewhere", *OUT.parts[2:]) / "table.md").read_text() == text


def test_work_before_and_after_the_trainings(tmp_path):
    done = []
    item = Item(
        "a", "A", lambda scale: {}, lambda place: Piece(f"{place.scale}: {done}\n", {}),
        measure=lambda place: done.append("measured"), prepare=lambda place: done.append("prepared"),
    )  # fmt: skip
    reproduce(item, Place(tmp_path / "deep" / "a", tmp_path, "small"))
    assert (tmp_path / "deep" / "a" / "table.md").read_text() == "small: ['prepared', 'measured']\n"


def test_figures_are_drawn_in_the_house_style(tmp_path):
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    with style():
        wanted = rcParams["svg.hashsalt"]
    seen = []

    def piece(place):
        seen.append(rcParams["svg.hashsalt"])
        return Piece("![A](a.svg)\n", {"a": Figure()})

    reproduce(Item("a", "A", lambda scale: {}, piece), Place(tmp_path / "a", tmp_path, "smoke"))
    assert seen == [wanted]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["a.png", "a.svg", "table.md"]


def test_a_set_as_a_folder_of_images(tmp_path):
    folder = tmp_path / "images"
    (tmp_path / "images.partial" / "train").mkdir(parents=True)  # of a writer that was killed
    write_image_folder(folder, "digits", 50)
    parts, data = read_folder(find_folder("digits", folder)), load_data("digits")
    assert (len(parts["train"]), len(parts["test"])) == (50, len(data.test))
    assert parts["test"].class_names == data.class_names
    assert sorted(parts["test"].targets.tolist()) == sorted(data.test.targets.tolist())
    first = next(index for index, path in enumerate(parts["test"].paths) if path.endswith("00000.png"))
    assert parts["test"].targets[first] == data.test.targets[0]
    pixels = list(parts["test"].decode(first).getchannel("R").tobytes())
    assert pixels == data.test.images[0].flatten().tolist()
    assert not (tmp_path / "images.partial").exists()
    before = (folder / "train").stat().st_mtime_ns
    write_image_folder(folder, "digits", 50)
    assert (folder / "train").stat().st_mtime_ns == before


def test_rows_hold_what_the_table_of_imagenet_needs():
    row = json.loads(
        (Path(__file__).parents[3] / "results/compare/cifar100-small/rows.jsonl").read_text().splitlines()[0]
    )
    assert all("top5" in parts["test"] for parts in row["decisions"].values())
