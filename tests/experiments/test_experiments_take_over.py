"""``take_over``: rows of the same runs are copied, and nothing else."""

import json

import pytest
from made_up_rows import RECIPE, made_up_row

from ncmi.experiments.cells import Comparison
from ncmi.experiments.folder import ComparisonFolder
from ncmi.experiments.rows import RowFile
from ncmi.experiments.take_over import read_others, row_files, take_over


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "tiny.yaml").write_text(json.dumps(RECIPE))
    return str(tmp_path / "tiny.yaml")


@pytest.fixture
def results(tmp_path, recipe):
    """Two losses at three rates, and one of them at two seeds of the best; a row that failed; one of other settings."""
    comparison = Comparison(recipe, {"loss": ["ce", "focal"]}, 2, [0.1, 0.3, 1.0])
    file = RowFile(tmp_path / "results" / "compare" / "tiny" / "rows.jsonl")
    for rate, validation in ((0.1, 0.5), (0.3, 0.8), (1.0, 0.6)):
        file.append(made_up_row(comparison, "ce", rate, 0, validation))
        file.append(made_up_row(comparison, "focal", rate, 0, validation))
    file.append(made_up_row(comparison, "ce", 0.3, 1))
    others = Comparison(recipe, {"loss": ["ce"]}, 1, [0.1], ["epochs=7"])
    RowFile(tmp_path / "results" / "study" / "a" / "rows.jsonl").append(made_up_row(others, "ce", 0.1, 0))
    return tmp_path / "results"


def test_rows_of_needed_cells_come_over_unchanged(tmp_path, recipe, results):
    comparison = Comparison(recipe, {"loss": ["ce", "ncmi"]}, 2, [0.1, 0.3, 1.0])
    folder = ComparisonFolder(tmp_path / "new")
    assert take_over(folder, comparison, row_files(results)) == 4, "the seed at the best rate follows its trials"
    source = (results / "compare" / "tiny" / "rows.jsonl").read_text().splitlines()
    copied = folder.rows.path.read_text().splitlines()
    assert sorted(copied) == sorted(line for line in source if json.loads(line)["loss"] == "ce")
    assert take_over(folder, comparison, row_files(results)) == 0, "nothing is taken twice"


def test_what_a_comparison_called_it_does_not_matter(tmp_path, recipe, results):
    comparison = Comparison(recipe, {"model": ["mlp"], "loss": ["focal:gamma=2.0"]}, 1, [0.3])
    folder = ComparisonFolder(tmp_path / "new")
    assert take_over(folder, comparison, row_files(results)) == 1
    (row,) = folder.rows.rows().values()
    assert (row["loss"], row["rate"]) == ("focal", 0.3)


def test_other_settings_are_other_runs(tmp_path, recipe, results):
    comparison = Comparison(recipe, {"loss": ["ce"]}, 1, [0.3], ["epochs=7"])
    folder = ComparisonFolder(tmp_path / "new")
    assert take_over(folder, comparison, row_files(results)) == 0
    assert not folder.rows.path.exists()


def test_a_failure_comes_over_only_where_nothing_better_is(tmp_path, recipe):
    comparison = Comparison(recipe, {"loss": ["ce"]}, 1, [0.1])
    failed, whole = (RowFile(tmp_path / name / "rows.jsonl") for name in ("failed", "whole"))
    failed.append(made_up_row(comparison, "ce", 0.1, 0, failed="training diverged."))
    whole.append(made_up_row(comparison, "ce", 0.1, 0))
    for paths in ([failed.path, whole.path], [whole.path, failed.path]):
        assert "failed" not in next(iter(read_others(paths).values()))
    folder = ComparisonFolder(tmp_path / "new")
    assert take_over(folder, comparison, [failed.path]) == 1
    assert "failed" in next(iter(folder.rows.rows().values()))


def test_rows_of_comparisons_are_found_and_no_others(tmp_path):
    wanted = ["compare/a/rows.jsonl", "study/b/rows.jsonl", "reproduce/small/table/part/rows.jsonl"]
    for name in (*wanted, "sklearn/rows.jsonl", "reproduce/small/theorem/rows.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in row_files(tmp_path)] == wanted
