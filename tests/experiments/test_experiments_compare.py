"""``ncmi compare`` from end to end: real runs on digits, once for all tests of this file."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_up_rows import RECIPE

from ncmi.cli import main
from ncmi.experiments.cells import Cell, Comparison
from ncmi.experiments.folder import ComparisonFolder
from ncmi.experiments.rows import RowFile
from ncmi.experiments.statistics import paired_difference
from ncmi.experiments.workers import Workers, count_cores

OUT = Path("results", "compare", "tiny")
RUNS = Path("runs", "compare", "tiny")
FIRST = ["compare", "tiny.yaml", "--losses", "ncmi,ce", "--seeds", "2", "--rates", "0.1", "--jobs", "2"]
RATES = ["compare", "tiny.yaml", "--losses", "ce", "--seeds", "2", "--rates", "0.001,0.1,1e9", "--out", "results/rates"]


def read(path):
    return [json.loads(line) for line in Path(path, "rows.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two losses were compared at one rate: four cells; then one of them at three rates, one of them absurd: two more."""
    path = tmp_path_factory.mktemp("compare")
    (path / "tiny.yaml").write_text(json.dumps(RECIPE))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert main(FIRST) == 0
        Path("results/rates").mkdir()
        shutil.copy(OUT / "rows.jsonl", "results/rates")
        assert main(RATES) == 0
    return path


@pytest.fixture(autouse=True)
def _inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture
def no_processes(monkeypatch):
    def start(*arguments):
        raise AssertionError("no cell may be run")

    monkeypatch.setattr(Workers, "start", start)


def test_rows_are_whole(folder):
    rows = read(OUT)
    assert sorted((row["loss"], row["rate"], row["seed"]) for row in rows) == [
        ("ce", 0.1, 0), ("ce", 0.1, 1), ("ncmi", 0.1, 0), ("ncmi", 0.1, 1),
    ]  # fmt: skip
    for row in rows:
        assert set(row) == {
            "recipe", "loss", "options", "rate", "seed", "scale", "overrides", "fingerprint", "commits", "processor", "torch",
            "threads", "epochs", "seconds", "peak_memory_bytes", "images_per_second", "train_samples", "headline",
            "decisions", "information", "config",
        }  # fmt: skip
        assert set(row["decisions"]) == {"own", "class means", "linear probe"}
        for parts in row["decisions"].values():
            assert set(parts) == {"validation", "test"}
            assert all({"n", "top1", "top5", "nll", "ece"} <= set(scores) for scores in parts.values())
        assert row["information"]["ncmi"] == pytest.approx(row["information"]["cmi"] / row["information"]["gamma"])
        assert row["overrides"][-2:] == ["optimizer.lr=0.1", f"seed={row['seed']}"]
        assert (row["epochs"], row["train_samples"], row["headline"], row["scale"]) == (1, 1150, "own", "small")
        assert row["threads"] == max(1, count_cores() // 2)
        assert row["seconds"] > 0
    assert len({row["fingerprint"] for row in rows}) == 4


def test_the_table_is_in_step_with_the_rows(capsys):
    for out, command in ((OUT, FIRST), (Path("results/rates"), RATES)):
        text = (out / "table.md").read_text()
        assert ComparisonFolder(out).table().markdown() == text
        assert ComparisonFolder(out).table().csv() == (out / "table.csv").read_text()
        assert main(command) == 0
        assert text in capsys.readouterr().out
    own = {(row["loss"], row["seed"]): row["decisions"]["own"]["test"]["top1"] for row in read(OUT)}
    by_seed = {loss: {seed: own[loss, seed] for seed in (0, 1)} for loss in ("ce", "ncmi")}
    difference = paired_difference(by_seed["ncmi"], by_seed["ce"])
    assert ComparisonFolder(OUT).table().lines[0].results["own", "top1"].difference == difference
    assert f"{100 * abs(difference.mean):.2f} [" in (OUT / "table.md").read_text().splitlines()[2]


def test_the_same_command_runs_nothing_again(tmp_path, monkeypatch, capsys, no_processes):
    before = (OUT / "rows.jsonl").read_bytes()
    assert main(FIRST) == 0
    # Nor in a fresh clone, which has the rows alone; fewer seeds are among them.
    shutil.copytree("results", tmp_path / "results")
    shutil.copy("tiny.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(FIRST) == 0
    assert (OUT / "rows.jsonl").read_bytes() == before
    assert main([*FIRST, "--seeds", "1"]) == 0
    capsys.readouterr()
    assert main([*FIRST, "--dry-run"]) == 0
    assert capsys.readouterr().out.count(": done · validation ") == 4


def test_a_lost_row_comes_back_from_its_run_folder(tmp_path, no_processes):
    rows = read(OUT)
    assert main([*FIRST, "--out", str(tmp_path / "elsewhere")]) == 0
    assert sorted(map(json.dumps, read(tmp_path / "elsewhere"))) == sorted(map(json.dumps, rows))


def test_the_rate_is_the_best_on_validation_and_failures_are_kept():
    rows = {(row["rate"], row["seed"]): row for row in read("results/rates") if row["loss"] == "ce"}
    assert set(rows) == {(0.001, 0), (0.1, 0), (1e9, 0), (0.1, 1)}
    validation = {
        rate: row["decisions"]["own"]["validation"]["top1"]
        for (rate, seed), row in rows.items()
        if rate < 1 and seed == 0
    }
    line = ComparisonFolder("results/rates").table().lines[0]
    assert line.rate == max(validation, key=validation.__getitem__) == 0.1
    assert line.n == 2
    assert "decisions" not in rows[1e9, 0]
    assert "must be finite" in rows[1e9, 0]["failed"] or "diverged" in rows[1e9, 0]["failed"]
    assert rows[1e9, 0]["torch"], "a failed run still says where it ran"


def test_what_failed_is_run_again_when_asked_to(tmp_path, capsys):
    before = next(row for row in read("results/rates") if "failed" in row)
    command = ["compare", "tiny.yaml", "--losses", "ce", "--seeds", "1", "--rates", "1e9", "--out", str(tmp_path)]
    # As if it had failed for another reason: this one is remembered until a newer row says otherwise.
    (tmp_path / "rows.jsonl").write_text(json.dumps({**before, "failed": "training diverged: once."}) + "\n")
    assert main(command) == 0
    assert "failed: training diverged: once." in (tmp_path / "table.md").read_text()
    # What is left of it is of no use: it starts anew.
    comparison = Comparison("tiny.yaml", {"loss": ["ce"]}, 1, [1e9])
    run = RUNS / comparison.cell_name(Cell({"loss": "ce"}, 1e9, 0))
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.yaml").write_text("epochs: 7\n")
    assert main([*command, "--retry-failed"]) == 0
    assert [row["failed"] for row in read(tmp_path)] == ["training diverged: once.", before["failed"]]
    assert "once" not in (tmp_path / "table.md").read_text()
    assert not run.exists()
    assert capsys.readouterr().out.count("ce · rate 1e+09 · seed 0 · failed: ") == 1


def test_another_comparison_of_the_folder_stays_in_its_table(tmp_path, capsys, no_processes):
    for name in ("rows.jsonl", "comparison.json"):
        shutil.copy(OUT / name, tmp_path)
    table, comparison = ComparisonFolder(tmp_path).table().markdown(), (tmp_path / "comparison.json").read_text()
    command = ["compare", "tiny.yaml", "--losses", "ce", "--out", str(tmp_path), "--rates", "0.1"]
    assert main([*command, "--seeds", "1"]) == 0
    assert (tmp_path / "table.md").read_text() == table
    assert (tmp_path / "comparison.json").read_text() == comparison
    assert main([*command, "--set", "batch_size=32"]) == 1
    assert "overrides [] there, ['batch_size=32'] here. Name another folder with --out." in capsys.readouterr().err
    assert (tmp_path / "comparison.json").read_text() == comparison


def test_models_are_a_factor(capsys):
    command = [
        "compare",
        "tiny.yaml",
        "--losses",
        "ce,ncmi",
        "--models",
        "mlp,resnet8_slim",
        "--rates",
        "0.1",
        "--seeds",
        "1",
    ]
    Path("results/models").mkdir()
    shutil.copy(OUT / "rows.jsonl", "results/models")
    assert main([*command, "--out", "results/models", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mlp · ce · rate 0.1 · seed 0: done"), "it is the recipe's own network"
    assert lines[3] == "resnet8_slim · ncmi · rate 0.1 · seed 0: to run"
    assert main([*command, "--dry-run"]) == 1, "the folder's comparison has no models"
    assert "factors ['loss'] there, ['model', 'loss'] here. Name another folder with --out." in capsys.readouterr().err


def test_another_failure_ends_with_its_sentence(tmp_path, capsys):
    command = ["compare", "tiny.yaml", "--losses", "ce", "--seeds", "1", "--out", str(tmp_path), "--set", "model=mpl"]
    assert main([*command, "--rates", "0.1"]) == 1
    assert "ce · rate 0.1 · seed 0: " in (errors := capsys.readouterr().err)
    assert "Did you mean 'mlp'" in errors
    assert "the same command goes on" in errors
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--losses", "ce,fcal"], "Did you mean 'focal'"),
        (["--losses", ","], "--losses needs names with commas between them, such as ce,ncmi; or all."),
        (["--losses", "ce", "--models", " "], "--models needs names"),
        (["--losses", "ce", "--models", "mlp,resnet8_slm"], "Did you mean 'resnet8_slim'"),
        (["--losses", "ce", "--rates", "0.1;0.3"], "--rates needs numbers with commas"),
        (["--losses", "ce", "--jobs", "0"], "--jobs must be at least 1; got 0"),
        (
            ["--losses", "ce", "--set", "data.validation=0"],
            "rates are chosen on a validation part, and digits has none",
        ),
    ],
)
def test_wrong_arguments_get_a_sentence(capsys, arguments, sentence):
    assert main(["compare", "tiny.yaml", *arguments]) == 1
    assert sentence in capsys.readouterr().err


def test_all_are_all(capsys):
    assert main(["compare", "tiny.yaml", "--losses", "all", "--out", "results/none", "--dry-run"]) == 0
    assert "contrastive-center · rate 0.3 · seed 0: to run" in capsys.readouterr().out


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_an_interrupted_comparison_goes_on_and_runs_nothing_twice(tmp_path, no_processes):
    command = ["compare", "tiny.yaml", "--losses", "ce", "--seeds", "1", "--rates", "0.1", "--set", "epochs=60"]
    command += ["--out", str(tmp_path)]
    cell = Cell({"loss": "ce"}, 0.1, 0)
    comparison = Comparison("tiny.yaml", {"loss": ["ce"]}, 1, [0.1], ["epochs=60"])
    run = RUNS.absolute() / comparison.cell_name(cell)
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}

    # SIGTERM: it saves, and leaves no process behind; one that were left would still have the lock.
    process = subprocess.Popen([sys.executable, "-m", "ncmi", *command], **pipes)
    wait_for((run / "checkpoints" / "last.pt").is_file, process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped. Finished in this call: 0; what was still running is saved, and the same command goes on." in errors
    workers = Workers(RUNS, 1)
    lock = workers.claim(run.name)
    assert lock is not None
    lock.close()
    assert "Not finished: ce." in (tmp_path / "table.md").read_text()

    # SIGKILL: its run lives on, and the next call waits for it.
    process = subprocess.Popen([sys.executable, "-m", "ncmi", *command], **pipes)
    wait_for(lambda: len(json.loads((run / "environment.json").read_text())["resumed"]) == 1, process)
    process.kill()
    process.communicate()
    assert workers.claim(run.name) is None, "the run was too fast to be left behind"
    assert main(command) == 0
    row = RowFile(tmp_path / "rows.jsonl").rows()[comparison.fingerprint(cell)]
    assert row["epochs"] == 60
    assert len((run / "log.jsonl").read_text().splitlines()) == 60
    records = json.loads((run / "environment.json").read_text())
    assert len(row["commits"]) == len(
        {record["commit"] for record in (records["started"], *records["resumed"])} - {None}
    )
