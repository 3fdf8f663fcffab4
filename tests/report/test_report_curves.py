"""Curves show what the rows hold, equal rows give equal bytes, and a torn log is read as far as it goes."""

import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from ncmi.report.curves import draw_curves, read_rows

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
TITLES = {
    "loss": ("train_loss", "validation_loss"),
    "accuracy, %": ("train_accuracy", "validation_top1"),
    "validation NCMI = CMI / Γ": ("validation_ncmi",),
    "validation CMI and Γ, nats": ("validation_cmi", "validation_gamma"),
    "learning rate": ("lr",),
    "classes that share another's decision": ("shared_classes",),
}
LEGEND = {"training", "validation", "training batches", "validation, top-1", "CMI", "Γ"}


def epochs(count=12, pace=0.3, every=1, **changes):
    rows = []
    for epoch in range(1, count + 1):
        left = math.exp(-pace * epoch)
        row = {
            "epoch": epoch,
            "lr": 0.1 * left,
            "train_loss": 4 * left,
            "train_accuracy": 1 - left,
            "shared_classes": 2,
        }
        if epoch % every == 0:
            row |= {"validation_loss": 3 * left + 1, "validation_top1": 0.9 - 0.8 * left, "validation_cmi": left}
            row |= {"validation_gamma": 2 - left, "validation_ncmi": left / (2 - left)}
        rows.append({**row, **changes})
    return rows


def without(rows, *keys):
    return [{key: value for key, value in row.items() if key not in keys} for row in rows]


def texts(path):
    """Words of a picture: matplotlib writes each as a comment beside its outlines."""
    ElementTree.parse(path)  # whole and well formed
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


def drawn(tmp_path, rows, title=""):
    path = tmp_path / "curves.svg"
    draw_curves(rows, path, title)
    return texts(path)


def has_log_axis(words):
    return any(word.startswith("$\\mathdefault{10^") for word in words)


def test_every_panel(tmp_path):
    words = drawn(tmp_path, epochs(), "cifar100/small, NCMI, seed 0")
    assert {*TITLES, *LEGEND, "cifar100/small, NCMI, seed 0"} <= set(words)
    assert words.count("epoch") == len(TITLES)


@pytest.mark.parametrize("title", TITLES)
def test_a_panel_without_values_is_left_out(tmp_path, title):
    rows = without(epochs(), *TITLES[title])
    assert set(drawn(tmp_path, rows)) & TITLES.keys() == TITLES.keys() - {title}


@pytest.mark.parametrize("nothing", [None, math.nan, -math.inf])
def test_values_that_are_nothing(tmp_path, nothing):
    keys = ("lr", "validation_ncmi", "validation_loss", "train_loss")
    rows = [{**row, **dict.fromkeys(keys, nothing)} for row in epochs()]
    left_out = {"learning rate", "validation NCMI = CMI / Γ", "loss"}
    assert set(drawn(tmp_path, rows)) & TITLES.keys() == TITLES.keys() - left_out


def test_one_series_of_two(tmp_path):
    words = drawn(tmp_path, without(epochs(), "validation_loss"))
    assert "loss" in words
    assert "training" in words
    assert "validation" not in words


def test_nobody_shares_a_decision(tmp_path):
    assert "classes that share another's decision" not in drawn(tmp_path, epochs(shared_classes=0))


def test_log_scale_beyond_a_decade(tmp_path):
    def only(values):
        return drawn(tmp_path, [{"epoch": epoch, "validation_ncmi": value} for epoch, value in enumerate(values)])

    assert has_log_axis(only([1.0, 0.5, 0.05]))
    assert not has_log_axis(only([1.0, 0.5, 0.2]))
    assert not has_log_axis(only([1.0, 0.5, 0.0]))
    assert not has_log_axis(drawn(tmp_path, [{"train_loss": 10.0**-place} for place in range(5)]))


@pytest.mark.parametrize(
    "rows",
    [
        epochs(1),
        epochs(2),
        epochs(11, every=5),
        without(epochs(), "epoch"),
        [{"epoch": 1}, *epochs()[1:]],
        epochs(validation_ncmi=math.inf),
        epochs(validation_ncmi=math.nan),
        [{**row, "train_loss": math.nan if row["epoch"] == 4 else 1.0} for row in epochs()],
        {"ce": epochs(3), "ncmi": epochs(30)},
        {f"run {number}": epochs(4, pace=0.1 * number) for number in range(1, 16)},
        {"ce": without(epochs(), "validation_ncmi"), "ncmi": epochs()},
        {"alone": epochs()},
        {"ce": [], "ncmi": epochs()},
    ],
    ids=range(13),
)
def test_rows_of_every_shape(tmp_path, rows):
    words = drawn(tmp_path, rows)
    assert "loss" in words
    if isinstance(rows, dict) and len(rows) > 1:
        assert rows.keys() <= set(words)


def test_equal_rows_give_equal_bytes(tmp_path):
    rows = {"ce": epochs(pace=0.2), "ncmi": epochs()}
    for ending in ("svg", "png"):
        one, other = tmp_path / f"one.{ending}", tmp_path / f"other.{ending}"
        draw_curves(rows, one, "title")
        # Another process, with another style, order of hashes and day.
        (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\nfont.size: 20\nsvg.hashsalt: other\n")
        code = (
            "import json, sys; from ncmi.report.curves import draw_curves; "
            "draw_curves(json.loads(sys.argv[1]), sys.argv[2], 'title')"
        )
        environment = {"MPLCONFIGDIR": str(tmp_path), "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "1000000000"}
        command = [sys.executable, "-c", code, json.dumps(rows), str(other)]
        subprocess.run(command, check=True, env=environment, cwd=tmp_path)
        assert one.read_bytes() == other.read_bytes()
    draw_curves({"ce": epochs(pace=0.2), "ncmi": epochs(pace=0.31)}, one, "title")
    assert one.read_bytes() != other.read_bytes()


def test_a_drawing_changes_no_settings(tmp_path):
    import matplotlib

    with matplotlib.rc_context({"font.size": 23}):
        before = dict(matplotlib.rcParams)
        draw_curves(epochs(), tmp_path / "curves.svg")
        assert dict(matplotlib.rcParams) == before


def test_refusals(tmp_path, monkeypatch):
    with pytest.raises(
        ValueError, match=r"draw_curves: validation_top1 must be a fraction, .*; got 91\.5\. Divide by 100"
    ):
        draw_curves(epochs(validation_top1=91.5), tmp_path / "curves.svg")
    with pytest.raises(ValueError, match=r"draw_curves: the name must end in \.svg or \.png; got 'curves\.gif'"):
        draw_curves(epochs(), tmp_path / "curves.gif")
    for nothing in ([], {}, {"ce": []}, [{"epoch": 1}]):
        with pytest.raises(ValueError, match=r"the picture would be empty, because no row holds a value"):
            draw_curves(nothing, tmp_path / "curves.svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"need the package matplotlib: `pip install matplotlib`"):
        draw_curves(epochs(), tmp_path / "curves.svg")
    assert not list(tmp_path.iterdir())


def written(tmp_path, content):
    path = tmp_path / "log.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_rows_are_read(tmp_path):
    rows = epochs(3, note="Γ")
    whole = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    assert read_rows(written(tmp_path, whole)) == rows
    assert read_rows(str(written(tmp_path, whole))) == rows
    assert read_rows(written(tmp_path, "")) == []


def test_a_log_torn_at_any_byte(tmp_path):
    rows = [{"epoch": 1, "note": "Γ"}, {"epoch": 2, "note": "Γ"}]
    first, second = (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
    for length in range(len(second) + 1):
        # Without its line break alone, a row is whole.
        expected = rows if length >= len(second) - 1 else rows[:1]
        assert read_rows(written(tmp_path, first + second[:length])) == expected
    assert read_rows(written(tmp_path, first + bytes(100))) == rows[:1]  # room that the disk gave, and nothing in it


@pytest.mark.parametrize("line", [b'{"epoch": 2', b"", b"[1]", b"3", b'{"note": "\xce"}', b"<<<<<<< ours"])
def test_a_damaged_line_is_named(tmp_path, line):
    path = written(tmp_path, b'{"epoch": 1}\n' + line + b'\n{"epoch": 3}\n')
    with pytest.raises(ValueError, match=r"read_rows: .*log\.jsonl, line 2 is damaged: it must be a JSON object"):
        read_rows(path)
    # At the end as well, since its writer had finished it.
    with pytest.raises(ValueError, match=r"line 1 is damaged"):
        read_rows(written(tmp_path, line + b"\n"))


def test_no_log(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"read_rows: .*log\.jsonl is not a file\. Check the path"):
        read_rows(tmp_path / "log.jsonl")
