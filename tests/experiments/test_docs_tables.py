"""``docs/tables.py``: tables in documents and folders follow the rows."""

import importlib.util
import json
from pathlib import Path

import pytest
from made_up_rows import RECIPE, made_up_row

from ncmi.experiments.cells import Comparison
from ncmi.experiments.folder import ComparisonFolder

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
