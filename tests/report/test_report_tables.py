"""Tables: the numbers of the summaries, columns that have something to say, settings that differ."""

import json

import pytest

from ncmi.report.records import RunRecord, read_runs
from ncmi.report.tables import compare_settings, decision_table, summary_columns


def by_title(records):
    return {column.title: column for column in summary_columns(records)}


def test_numbers_are_those_of_the_summary(runs):
    records = read_runs([runs.ncmi, runs.ce])
    columns = by_title(records)
    tops = [json.loads((path / "summary.json").read_text())["evaluation"] for path in (runs.ncmi, runs.ce)]
    expected = [record["decisions"][0]["parts"]["test"]["top1"] for record in tops]
    assert [cell.value for cell in columns["test top-1, %"].cells] == expected
    assert [cell.text for cell in columns["test top-1, %"].cells] == [f"{100 * value:.2f}" for value in expected]
    assert columns["test top-1, %"].best == (max(expected) if len(set(expected)) > 1 else None)
    assert [cell.value for cell in columns["NCMI"].cells] == [top["information"]["test"]["ncmi"] for top in tops]
    assert columns["NCMI"].best is None, "a low NCMI is not a high accuracy"
    assert [cell.text for cell in columns["loss"].cells] == ["ncmi", "ce"]
    areas = [record["decisions"][0]["parts"]["test"]["macro_auc"] for record in tops]
    assert [cell.value for cell in columns["macro AUC, %"].cells] == areas
    assert "data" not in columns, "it is the same in both"


def test_a_stopped_run_has_the_numbers_of_its_last_epoch(runs):
    columns = by_title(read_runs([runs.ce, runs.stopped]))
    assert [cell.text for cell in columns["decision"].cells] == ["head", "not finished"]
    assert columns["test top-1, %"].cells[1] == ("–", None)
    first, second = columns["validation top-1, %"].cells
    assert first == second
    assert by_title(read_runs([runs.stopped])).keys() >= {"loss", "validation top-1, %", "epochs"}


def run_with(test, name="a"):
    decision = {"name": "own", "source": "head", "parts": {"test": test}}
    return RunRecord(name, None, {}, summary={"headline": "own", "evaluation": {"decisions": [decision]}})


def test_metrics_of_slides_have_columns_where_a_run_has_them():
    columns = by_title([run_with({"n": 9, "top1": 0.5, "macro_f1": 0.25, "macro_auc": 0.75})])
    assert columns["macro AUC, %"].cells == [("75.00", 0.75)]
    assert "balanced accuracy, %" not in columns


def test_intervals_over_patients_stand_beside_the_numbers():
    intervals = {"macro_auc": [0.5, 0.875], "top1": [0.25, 0.75]}
    run = run_with({"top1": 0.5, "macro_f1": 0.25, "macro_auc": 0.75, "intervals": intervals})
    columns = by_title([run])
    assert columns["macro AUC, %"].cells == [("75.00 [50.00, 87.50]", 0.75)]
    assert "over patients" in columns["macro AUC, %"].meaning
    assert columns["macro F1, %"].cells == [("25.00", 0.25)]
    assert "patients" not in columns["macro F1, %"].meaning
    assert decision_table([run]).rows[0][1][1] == ("50.00 [25.00, 75.00]", 0.5)


def test_top5_of_five_classes_or_fewer_is_left_out():
    assert "test top-5, %" in by_title([run_with({"top1": 0.5, "top5": 1.0}), run_with({"top1": 0.5, "top5": 0.9})])
    assert "test top-5, %" not in by_title([run_with({"top1": 0.5, "top5": 1.0})])
    assert decision_table([run_with({"top1": 0.5, "top5": 1.0})]).titles == ["test top-1, %"]


def test_the_best_is_marked_where_numbers_differ():
    def run(name, top1, ece):
        return run_with({"top1": top1, "ece": ece}, name)

    columns = by_title([run("a", 0.5, 0.1), run("b", 0.75, 0.1), RunRecord("c", None, {})])
    assert columns["test top-1, %"].best == 0.75
    assert columns["ECE, %"].best is None
    other = RunRecord("d", None, {"data": {"name": "other"}})
    assert all(column.best is None for column in summary_columns([run("a", 0.5, 0.1), run("b", 0.75, 0.2), other]))


def test_every_decision_of_a_run(runs):
    table = decision_table(read_runs([runs.stopped, runs.ncmi]))
    assert table.titles[0] == "test top-1, %"
    assert [(place, row[0].text) for place, row in table.rows] == [(1, "learned q"), (1, "class means")]
    assert all(len(row) == 6 and row[1].value is not None for _, row in table.rows)


def test_without_a_test_part_its_columns_are_left_out(untested, runs):
    (run,) = records = read_runs([untested])
    assert run.notes == ["The data have no test part: what is decided is shown for the validation part."]
    assert decision_table(records).titles == ["validation top-1, %", "train top-1, %"]
    assert summary_columns(records)[0].title == "validation top-1, %"
    together = decision_table(read_runs([untested, runs.ce]))
    assert [cell.text for cell in together.rows[0][1][:2]] == ["head", "–"]


def test_the_first_number_stands_beside_the_names(runs):
    """A phone shows two columns: the run and its accuracy."""
    titles = [column.title for column in summary_columns(read_runs([runs.ncmi, runs.ce]))]
    assert titles[:4] == ["test top-1, %", "loss", "decision", "seed"]


def test_settings_that_differ():
    table = compare_settings([{"a": {"b": 1, "c": None}, "d": [1]}, {"a": {"b": 1.5, "c": None}, "e": {}}])
    assert table.different == [("a.b", ["1", "1.5"]), ("d", ["[1]", "–"]), ("e", ["–", "{}"])]
    assert table.shared == [("a.c", "null")]


@pytest.mark.parametrize("settings", [[{}], [{}, {}]])
def test_no_settings(settings):
    assert compare_settings(settings) == ([], [])
