"""Rows of what divergences are good for: every number with what it was measured on, and tables of them."""

import json

import pytest

from ncmi.experiments.information import measured
from ncmi.experiments.information_table import information_table
from ncmi.information import open_run
from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.run_folder import RunFolder

QUICK = {
    "epochs": 1,
    "data": {"name": "digits", "flip_labels": 0.1},
    "model": {"name": "mlp", "options": {"hidden": [32, 16]}},
    "decisions": ["own"],
}


@pytest.fixture(scope="module", params=["ncmi", "ce"])
def run(request, tmp_path_factory):
    folder = RunFolder(tmp_path_factory.mktemp("run") / request.param)
    train(make_config(QUICK, [f"loss={request.param}"]), folder, quiet=True)
    return open_run(folder.path)


@pytest.mark.parametrize(("use", "other"), [("ood", "digits"), ("mislabeled", None), ("classes", None)])
def test_rows_make_a_table(run, use, other, tmp_path):
    rows = list(measured(run, use, other))
    assert {row["use"] for row in rows} == {use}
    assert len({row["score"] for row in rows}) == len(rows) >= 1
    assert all(-1 <= row["value"] <= 1 and row["n"] > 0 and "commit" in row for row in rows)
    if use == "ood":
        assert [row["value"] for row in rows] == [0.5, 0.5]
    second = [{**row, "seed": 1, "value": row["value"] + 0.1, "commit": "0123456789"} for row in rows]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *second]))
    table = information_table(path).splitlines()
    assert len(table) == 2 + len(rows) + 2
    assert ("other data" in table[0]) == (use == "ood")
    assert f"{rows[0]['value'] + 0.05:.3f} ± 0.071 | 2 |" in "".join(table)
    assert "mlp, 1 epochs, rate 0.1, 10 % of the training labels flipped" in table[-1]


def test_no_rows(tmp_path):
    (tmp_path / "rows.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"rows\.jsonl holds no rows\. Measure a run first"):
        information_table(tmp_path / "rows.jsonl")
