"""Every difference that the page names is shown: by tests that exist and are collected, or by rows that are there."""

import ast
import json
import re
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROWS = re.compile(r"`((?:benchmarks/)?results/[\w./-]+)`")


def collected(path: Path) -> set[str]:
    """The tests of a file that pytest would collect, without importing it."""
    if not path.is_file() or not path.name.startswith("test_"):
        return set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {each.name for each in body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")}


def problems(text: str) -> list[str]:
    """What a page about differences claims and the repository does not hold."""
    found = [f"{path}::{name} is no test" for path, name in NAMED.findall(text) if name not in collected(ROOT / path)]
    found += [f"{path} is not there" for path in ROWS.findall(text) if not (ROOT / path).exists()]
    for entry in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        if not NAMED.search(entry) and not ROWS.search(entry):
            found.append(f"{entry.splitlines()[0]} names neither test nor rows")
    return found


def test_every_difference_is_shown_by_a_test_or_by_rows():
    assert problems(PAGE) == []
    assert len(re.findall("^### ", PAGE, re.MULTILINE)) > 30


def test_the_check_sees_what_is_missing():
    page = "### One\n`tests/test_layers.py::test_nothing`\n### Two\n`results/none.jsonl`\n### Three\nWords.\n"
    page += "### Four\n`tests/oracle.py::test_imports_point_down`\n"
    assert problems(page) == [
        "tests/test_layers.py::test_nothing is no test",
        "tests/oracle.py::test_imports_point_down is no test",
        "results/none.jsonl is not there",
        "Three names neither test nor rows",
    ]


def test_every_name_of_a_test_is_seen_by_the_check():
    assert PAGE.count("::") == len(NAMED.findall(PAGE))


def test_the_numbers_on_class_means_are_those_of_the_rows():
    rows = [json.loads(line) for line in (ROOT / "results/compare/cifar100-small/rows.jsonl").read_text().splitlines()]
    assert f"are {gap(rows, 'rivals'):.1f} points below learned centroids" in " ".join(PAGE.split())
    assert f"with `harmonic` {gap(rows, 'harmonic'):.1f}" in " ".join(PAGE.split())


def gap(rows, objective):
    """Points by which learned centroids are ahead of class means, at the rate that seed 0 chose."""
    ours = [row for row in rows if row["loss"] == "ncmi" and row["options"]["objective"] == objective]
    rate = next(row["rate"] for row in ours if row["seed"] > 0)
    chosen = [row["decisions"] for row in ours if row["rate"] == rate]
    return 100 * mean(each["own"]["test"]["top1"] - each["class means"]["test"]["top1"] for each in chosen)
