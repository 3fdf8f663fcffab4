"""Runs that are killed or stopped and go on to the same bits, and whose folder nobody else takes."""

import os
import signal
import subprocess
import time

import pytest
from quick_runs import QUICK, command, same, start, weights

from ncmi.tensor_files import read_tensors
from ncmi.training.config import make_config
from ncmi.training.loop import Stopped, train
from ncmi.training.monitor import Diverged
from ncmi.training.run_folder import RunFolder


@pytest.mark.parametrize("loss", ["ncmi", "ce"])
@pytest.mark.parametrize("moment", ["checkpoint", "anywhere"])
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, loss, moment):
    overrides = [f"loss={loss}", "epochs=4", "engine.ema=0.9", "optimizer.clip_norm=1.0"]
    start(tmp_path / "whole", *overrides)
    folder = tmp_path / "killed"
    last = folder / "checkpoints" / "last.pt"
    # Saving all the time makes it likely that the kill hits the middle of a write.
    saving = "checkpoint_minutes=1e-9" if moment == "anywhere" else "checkpoint_minutes=15"
    process = subprocess.Popen(command(folder, *overrides, saving), stderr=subprocess.PIPE)
    while not last.is_file():
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.01)
    time.sleep(0.15 if moment == "anywhere" else 0.0)
    process.kill()
    process.wait()
    process.stderr.close()
    assert not (folder / "summary.json").exists(), "it was too fast to be killed"
    step = read_tensors(last, "test")["state"]["step"]
    assert 0 < step < 4 * 17
    start(folder, *overrides, saving, resume=True)
    assert same(weights(folder), weights(tmp_path / "whole"))
    timeless = [
        [
            {key: value for key, value in row.items() if key not in ("seconds", "images_per_second")}
            for row in RunFolder(path).rows()
        ]
        for path in (folder, tmp_path / "whole")
    ]
    assert timeless[0] == timeless[1]
    assert len(RunFolder(folder).read_json(folder / "environment.json")["resumed"]) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_leave(tmp_path, number):
    overrides = ["epochs=10"]
    folder = tmp_path / "stopped"
    process = subprocess.Popen(command(folder, *overrides), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder / "checkpoints" / "last.pt").is_file():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"and saved. Go on with `ncmi train {folder} --resume`." in errors
    assert "Traceback" not in errors
    start(folder, *overrides, resume=True)
    start(tmp_path / "whole", *overrides)
    assert same(weights(folder), weights(tmp_path / "whole"))


def test_a_signal_in_this_process_is_a_stop(tmp_path, monkeypatch):
    from ncmi.training import loop

    def step_and_stop(run, batch, look, step=loop.step):
        if run.state.step == 20:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(run, batch, look)

    monkeypatch.setattr(loop, "step", step_and_stop)
    with pytest.raises(Stopped, match="stopped in epoch 2 after step 4 of 17") as stopped:
        start(tmp_path / "run")
    assert stopped.value.number == signal.SIGTERM
    assert RunFolder(tmp_path / "run").read_checkpoint()["state"]["step"] == 21


def test_divergence_ends_with_a_sentence_and_keeps_the_last_checkpoint(tmp_path):
    with pytest.raises((Diverged, ValueError), match=r"diverged|must be finite"):
        start(tmp_path / "run", "loss=ce", "optimizer.lr=1e9", "schedule=constant", "epochs=3")
    assert not (tmp_path / "run").exists(), "nothing was saved, so nothing is left to go on with"


def test_a_finished_run_is_left_alone(tmp_path):
    start(tmp_path / "run")
    before = weights(tmp_path / "run")
    with pytest.raises(FileExistsError, match=r"holds a finished run. Name another folder with --run-folder"):
        start(tmp_path / "run")
    assert start(tmp_path / "run", resume=True) == RunFolder(tmp_path / "run").read_json(
        tmp_path / "run" / "summary.json"
    )
    assert same(before, weights(tmp_path / "run"))


def test_an_unfinished_run_wants_resume_and_its_own_settings(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(make_config(QUICK), {})
    with pytest.raises(FileExistsError, match="a run that can go on: add --resume"):
        start(folder.path)
    with pytest.raises(ValueError, match=r"other settings: optimizer.lr was 0.1 and is now 0.2"):
        start(folder.path, "optimizer.lr=0.2", resume=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    with pytest.raises(FileExistsError, match="is not an empty folder"):
        start(tmp_path / "full")
    with pytest.raises(FileNotFoundError, match="holds no run to go on with"):
        train(None, RunFolder(tmp_path / "none"), resume=True, quiet=True)


def test_a_corrupted_checkpoint_is_refused(tmp_path):
    start(tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    folder.summary.unlink()
    content = bytearray(folder.last.read_bytes())
    content[len(content) // 2] ^= 1
    folder.last.write_bytes(content)
    with pytest.raises(ValueError, match=r"last.pt is damaged"):
        start(folder.path, resume=True)
    folder.last.write_bytes(content[:1000])
    with pytest.raises(ValueError, match=r"last.pt is damaged"):
        start(folder.path, resume=True)


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    with RunFolder(tmp_path / "run").locked():
        other = subprocess.run(command(tmp_path / "run", "epochs=1"), capture_output=True, text=True)
    assert other.returncode == 1
    assert "is in use: another process trains there" in other.stderr
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_another_run_is_not_taken_over(tmp_path):
    start(tmp_path / "first")
    folder = tmp_path / "second"
    (folder / "checkpoints").mkdir(parents=True)
    (tmp_path / "first" / "checkpoints" / "last.pt").rename(folder / "checkpoints" / "last.pt")
    with pytest.raises(FileExistsError, match="is not an empty folder"):
        start(folder, "seed=5")


def test_best_is_never_behind_what_last_says(tmp_path, monkeypatch):
    from ncmi.training import run_folder

    calls = []

    def save_and_die(path, content, save=run_folder.save_checkpoint):
        save(path, content)
        calls.append(path.name)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(run_folder, "save_checkpoint", save_and_die)
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "run", "epochs=3")
    monkeypatch.undo()
    start(tmp_path / "run", "epochs=3", resume=True)
    folder = RunFolder(tmp_path / "run")
    best = folder.read_checkpoint("best")["state"]
    assert best["epoch"] == best["best_epoch"] == folder.read_json(folder.summary)["best_epoch"]
