"""The page: everything in one file, nothing from elsewhere, and no name of a class can break out of its place."""

import itertools
import json
import re
import shutil
import struct
import zlib
from html.parser import HTMLParser

import pytest
import torch
from made_outputs import made_outputs

from ncmi.report import page
from ncmi.report.page import render, write_report
from ncmi.report.records import RunRecord, read_runs

HOSTILE = '</script><script>alert("1")</script><!--'


class Elements(HTMLParser):
    """Start tags with their attributes, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)


def embedded(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def png():
    """The smallest picture."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def text(runs):
    return render(read_runs([runs.ncmi, runs.ce, runs.old, runs.stopped]))


def test_nothing_comes_from_elsewhere(text):
    for tag, attributes in Elements(text).tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form"), tag
        for name in ("src", "href", "srcset", "action"):
            assert attributes.get(name, "#").startswith(("#", "data:image/png;base64,")), (tag, attributes)
    assert "url(" not in text
    assert "@import" not in text
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\b *\(", text)


def test_every_section_and_its_links(text):
    elements = Elements(text).tags
    sections = [attributes["id"] for tag, attributes in elements if tag == "section"]
    assert sections == ["summary", "curves", "calibration", "inside", "settings", "environment"]
    links = {attributes["href"][1:] for tag, attributes in elements if tag == "a"}
    assert links == set(sections)
    data = embedded(text)
    assert data["runs"] == ["ncmi", "ce", "old", "stopped"]
    assert [inside is not None for inside in data["insides"]] == [True, True, False, False]
    assert "The run is not finished: 3 of 3 epochs so far." in text
    assert "There is no outputs.pt" in text
    assert "<code>loss.name</code>" in text


def test_runs_without_outputs_say_what_is_missing(runs):
    text = render(read_runs([runs.old]))
    assert "which a run writes at its end" in text
    assert 'id="calibration"' not in text
    assert embedded(text)["calibration"] is None


def test_a_run_without_an_epoch(tmp_path):
    (tmp_path / "config.yaml").write_text("epochs: 4\n")
    text = render(read_runs([tmp_path]))
    assert "No run has ended its first epoch yet." in text


def test_names_of_classes_and_runs_cannot_break_out():
    outputs = made_outputs(3, names=[HOSTILE, "b", "c"], decision=HOSTILE)
    config = {"data": {"name": HOSTILE}, HOSTILE: HOSTILE}
    text = render([RunRecord(HOSTILE, None, config, outputs=outputs, notes=[HOSTILE])])
    assert len([tag for tag, _ in Elements(text).tags if tag == "script"]) == 2
    assert HOSTILE in embedded(text)["insides"][0]["names"]
    assert "alert" not in "".join(Elements(text).scripts[1:]).replace(HOSTILE, "")


def test_attention_maps_are_embedded_up_to_a_number(runs, tmp_path, monkeypatch):
    shutil.copytree(runs.old, tmp_path / "run")
    (tmp_path / "run" / "attention").mkdir()
    for number in range(3):
        (tmp_path / "run" / "attention" / f"slide{number}-attention.png").write_bytes(png())
    monkeypatch.setattr(page, "_MAPS", 2)
    text = render(read_runs([tmp_path / "run", runs.stopped]))
    images = [attributes for tag, attributes in Elements(text).tags if tag == "img"]
    assert [image["alt"] for image in images] == [f"Map of the attention on slide{number}" for number in range(2)]
    assert all(image["src"].startswith("data:image/png;base64,iVBOR") for image in images)
    assert "The first 2 of 3 maps in its folder." in text


def test_a_run_on_bags_without_maps_says_how_to_make_one():
    bags = RunRecord("a", "runs/a", {"data": {"name": "bags:lung"}})
    text = render([bags, RunRecord("b", "runs/b", {"data": {"name": "digits"}})])
    assert "<code>ncmi attention runs/a SLIDE</code> draws one" in text
    assert "ncmi attention runs/b" not in text


def test_headings_go_down_one_level_at_a_time(text):
    levels = [int(tag[1]) for tag, _ in Elements(text).tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_no_text_is_for_a_pointer_alone(text):
    """What a heading means is in the page: neither a finger nor the keyboard gets at a title."""
    assert not [tag for tag, attributes in Elements(text).tags if "title" in attributes]
    assert "expected calibration error on the test part, 15 bins" in text
    assert re.search(r"\d+ of \d+</span></li>", text)


def test_many_runs_have_distinct_colours():
    text = render([RunRecord(f"run {number}", None, {}) for number in range(30)])
    colors = re.findall(r"--run-\d+: ([^;]+);", text)
    assert len(set(colors)) == 30


def test_a_hundred_classes_make_a_small_page():
    outputs = made_outputs(100, each=3, divergences=torch.rand(100, 100))
    text = render([RunRecord("a", None, {}, outputs=outputs)])
    assert len(text.encode()) < 400_000


def test_the_file_is_replaced_whole_and_equal_runs_give_equal_bytes(runs, tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old")
    write_report([runs.old], target)
    first = target.read_bytes()
    write_report([runs.old], target)
    assert target.read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_places_that_cannot_be_written(runs, tmp_path):
    with pytest.raises(IsADirectoryError, match=r"is a folder\. Name a file, such as .*report\.html"):
        write_report([runs.ce], tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"missing is not a folder\. Create it, or name another place with -o\."
    ):
        write_report([runs.ce], tmp_path / "missing" / "report.html")


def test_the_scripts_stay_small():
    lines = [line for name in page._SCRIPTS for line in (page._TEMPLATES / name).read_text().splitlines()]
    assert len(lines) < 350
