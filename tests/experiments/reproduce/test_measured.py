"""Rows that items measure themselves: whole or not there, with what they depend on."""

from ncmi.experiments.reproduce.measured import MeasuredRows, machine_sentence


def test_rows_come_back_with_machine_and_commit(tmp_path):
    file = MeasuredRows(tmp_path / "item")
    assert file.rows() == []
    file.add([{"loss": "ce", "round": 0}])
    file.add([{"loss": "ncmi", "round": 0}])
    assert [row["loss"] for row in file.rows()] == ["ce", "ncmi"]
    assert {"version", "commit", "processor", "threads", "torch"} <= file.rows()[0].keys()
    assert file.has(loss="ncmi", round=0)
    assert not file.has(loss="ncmi", round=1)


def test_a_torn_line_is_dropped_before_the_next_row(tmp_path):
    file = MeasuredRows(tmp_path)
    file.add([{"loss": "ce"}])
    with file.path.open("a") as torn:
        torn.write('{"loss": "nc')
    file.add([{"loss": "focal"}])
    assert [row["loss"] for row in file.rows()] == ["ce", "focal"]


def test_machine_sentence_names_every_commit_once():
    rows = [{"commit": "c0ffee0123", "uncommitted_changes": True}, {"commit": "decaf00123"}, {"commit": "decaf00123"}]
    assert "commits c0ffee0-dirty, decaf00." in machine_sentence(rows)
