"""``python -m benchmarks.head`` writes complete rows, and ``benchmarks.table`` turns them into the README's table."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.estimators import measure, render
from benchmarks.head import machine

ROOT = Path(__file__).parents[1]
HEADS = [
    "cross-entropy",
    "focal",
    "SupCon",
    "authors' formula",
    "theorem1",
    "centroid",
    "released",
    "harmonic",
    "rivals",
]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *(str(argument) for argument in arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", env={**os.environ, "PYTHONIOENCODING": "utf-8"}
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("benchmarks") / "head.jsonl"
    finished = run("benchmarks.head", "--quick", "--out", out)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, out


def test_rows_are_complete(quick: tuple[str, Path]):
    rows = {row["contender"]: row for row in map(json.loads, quick[1].read_text(encoding="utf-8").splitlines())}
    assert list(rows) == HEADS
    for row in rows.values():
        assert (row["batch"], row["features"], row["classes"]) == (128, 512, 100)
        assert row["median_ms"] > 0
        assert row["peak_mb"] > 0
        assert row["ratio"] == pytest.approx(row["median_ms"] / rows["cross-entropy"]["median_ms"], rel=1e-2)
        assert row["repeats"] == 5
        assert row["threads"] == 1
        for key in ("date", "commit", "ncmi", "torch", "python", "cpu"):
            assert row[key]
    # The (B, C, D) tensors of the plain formula, 26 MB each; ours never forms one.
    assert rows["authors' formula"]["peak_mb"] > 2 * 26
    assert all(rows[name]["peak_mb"] < 26 for name in HEADS if name != "authors' formula")


def test_each_bar_of_the_shape_gets_a_verdict(quick: tuple[str, Path]):
    verdicts = [line for line in quick[0].splitlines() if line.strip().startswith(("met", "MISSED"))]
    assert len(verdicts) == 6


def test_table_is_made_checked_and_remade(quick: tuple[str, Path], tmp_path: Path):
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- benchmark:start -->\nold\n<!-- benchmark:end -->\nafter\n", encoding="utf-8")
    command = ("benchmarks.table", document, "--rows", quick[1])
    stale = run(*command, "--check")
    assert stale.returncode == 1
    assert "out of step" in stale.stderr
    assert run(*command).returncode == 0
    assert run(*command, "--check").returncode == 0
    text = document.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert all(f"| {head} | " in text for head in HEADS)


def test_table_shows_the_newest_run_and_what_does_not_fit(tmp_path: Path):
    about = {"commit": "0" * 40, "ncmi": "0.1.0", "torch": "2", "python": "3", "cpu": "c", "threads": 1, "repeats": 1}
    shape = {"batch": 1, "features": 2, "classes": 3}
    rows = [
        {"contender": "gone", "median_ms": 1.0, "ratio": 1.0, "peak_mb": 1.0, "date": "2026-01-01T00"},
        {"contender": "cross-entropy", "median_ms": 2.0, "ratio": 1.0, "peak_mb": 1.0, "date": "2026-01-02T00"},
        {"contender": "large", "median_ms": None, "ratio": None, "peak_mb": None, "date": "2026-01-02T00"},
    ]
    source, document = tmp_path / "rows.jsonl", tmp_path / "page.md"
    source.write_text("\n".join(json.dumps(row | shape | about) for row in rows), encoding="utf-8")
    document.write_text("<!-- benchmark:start --><!-- benchmark:end -->", encoding="utf-8")
    assert run("benchmarks.table", document, "--rows", source).returncode == 0
    text = document.read_text(encoding="utf-8")
    assert "| large | does not fit |" in text
    assert "gone" not in text
    assert "2026-01-02" in text


def test_a_document_without_markers_gets_a_sentence(tmp_path: Path):
    document = tmp_path / "page.md"
    document.write_text("no markers", encoding="utf-8")
    finished = run("benchmarks.table", document)
    assert finished.returncode == 1
    assert "benchmark:start" in finished.stderr


def test_the_loop_is_measured_and_told_in_a_sentence(quick: tuple[str, Path], tmp_path: Path):
    rows = tmp_path / "loop.jsonl"
    finished = run("benchmarks.loop", "--recipe", "digits", "--rounds", 1, "--steps", 2, "--threads", 1, "--out", rows)
    assert finished.returncode == 0, finished.stderr
    found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert [row["loss"] for row in found] == ["ce", "ncmi"]
    assert all(row["ratio"] > 0 and row["recipe"] == "digits" and row["commit"] for row in found)
    document = tmp_path / "page.md"
    document.write_text("<!-- benchmark:start -->\n<!-- benchmark:end -->\n", encoding="utf-8")
    assert run("benchmarks.table", document, "--rows", quick[1], "--loop-rows", rows).returncode == 0
    assert "The training loop of `digits` (mlp)" in document.read_text(encoding="utf-8")


def test_a_step_on_a_large_bag_is_measured_and_told_in_a_sentence(quick: tuple[str, Path], tmp_path: Path):
    rows = tmp_path / "bags.jsonl"
    finished = run("benchmarks.bags", "--instances", 500, "--width", 32, "--steps", 1, "--out", rows)
    assert finished.returncode == 0, finished.stderr
    found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert [row["model"] for row in found] == ["abmil", "transmil"]
    assert all(0 < row["peak_gb"] <= row["limit_gb"] and row["commit"] for row in found)
    document = tmp_path / "page.md"
    document.write_text("<!-- benchmark:start -->\n<!-- benchmark:end -->\n", encoding="utf-8")
    assert run("benchmarks.table", document, "--rows", quick[1], "--bag-rows", rows).returncode == 0
    text = document.read_text(encoding="utf-8")
    assert "One training step on a bag of 500 × 32 float16 numbers, 1 thread: abmil " in text
    assert "transmil with activation checkpointing " in text


def test_estimators_are_measured_fold_by_fold():
    rows = [row for name in ("LogisticRegression", "NearestCentroid") for row in measure(name, "iris")]
    assert [row["fold"] for row in rows] == [*range(10), *range(10)]
    table = render([row | {"sklearn": "1"} | machine() for row in rows])
    first = [100 * row["accuracy"] for row in rows[:10]]
    assert f"| LogisticRegression | {sum(first) / 10:.2f} ±" in table
    assert "- LogisticRegression minus NearestCentroid: iris +" in table
