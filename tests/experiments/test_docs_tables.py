"""``docs/tables.py``: tables in documents and folders follow the rows."""

import importlib.util
import json
from pathlib import Path

import pytest
from experiments.reproduce.filled import fill
from made_up_rows import RECIPE, made_up_row

from ncmi.experiments.cells import Comparison
from ncmi.experiments.folder import ComparisonFolder
from ncmi.experiments.reproduce import list_items
from ncmi.experiments.reproduce.run import write_piece

SCRIPT = Path(__file__).parents[2] / "docs" / "tables.py"


@pytest.fixture
def tables():
    spec = importlib.util.spec_from_file_location("docs_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_new_row_makes_every_table_stale(tables, tmp_path):
    (tmp_path / "tiny.yaml").write_text(json.dumps(RECIPE))
    (tmp_path / "docs").mkdir()
    document = tmp_path / "docs" / "a.md"
    document.write_text("Before\n<!-- table: results/compare/tiny -->\nold\n<!-- end -->\nafter\n")
    folder = ComparisonFolder(tmp_path / "results" / "compare" / "tiny")
    comparison = Comparison(str(tmp_path / "tiny.yaml"), {"loss": ["ce"]}, 2, [0.1])
    folder.join(comparison)
    folder.rows.append(made_up_row(comparison, "ce", 0.1, 0))
    places = {document, folder.path / "table.md", folder.path / "table.csv"}
    assert set(tables.stale_files(tmp_path)) == places
    for path, text in tables.stale_files(tmp_path).items():
        path.write_text(text)
    assert not tables.stale_files(tmp_path)
    assert document.read_text().startswith("Before\n<!-- table: results/compare/tiny -->\n\n| loss |")
    assert document.read_text().endswith("\n<!-- end -->\nafter\n")
    assert "Not finished: ce." in document.read_text()
    folder.rows.append(made_up_row(comparison, "ce", 0.1, 1, test=0.7))
    assert set(tables.stale_files(tmp_path)) == places
    (folder.path / "table.csv").unlink()
    assert folder.path / "table.csv" in tables.stale_files(tmp_path)


def test_an_items_piece_and_pictures_follow_its_rows(tables, tmp_path):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "a.md"
    blocks = "".join(f"<!-- item: {name} -->\nold\n<!-- end -->\n" for name in ("figure-batch-size", "theorem"))
    page.write_text(blocks)
    (tmp_path / "results").mkdir()
    item, place = fill(
        tmp_path / "results" / "reproduce" / "small", "figure-batch-size", "small", lambda *_: (0.3, 0.4)
    )
    write_piece(item, place)
    for path, text in tables.stale_files(tmp_path).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert not tables.stale_files(tmp_path)
    text = page.read_text()
    picture = "pictures/reproduction/figure-batch-size/batch-size.svg"
    assert f"]({picture})" in text
    assert (tmp_path / "docs" / picture).read_bytes() == (place.out / "batch-size.svg").read_bytes()
    assert "<!-- item: theorem -->\n\nNot run yet at scale small.\n\n<!-- end -->" in text
    (place.out / "table.md").write_text("old")
    assert set(tables.stale_files(tmp_path)) == {place.out / "table.md"}
    rows = place.part("batch-16").rows.path
    rows.write_text("".join(line.replace("0.3", "0.7") for line in rows.read_text().splitlines(keepends=True)))
    assert page in tables.stale_files(tmp_path)


def test_every_item_is_on_a_page(tables):
    pages = [page.read_text(encoding="utf-8") for page in sorted(SCRIPT.parent.glob("*.md"))]
    assert {match["name"] for page in pages for match in tables.ITEM.finditer(page)} == set(list_items())
