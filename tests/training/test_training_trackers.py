"""Values reach TensorBoard and Weights & Biases, also over a kill and a resume; what is missing is said."""

import math
import os
import subprocess
import sys

import pytest

from ncmi.training.trackers import Trackers, make_trackers

CONFIG = {"loss": {"name": "ncmi", "temperature": 0.2}, "data": "digits", "seed": None}


def curves(folder):
    """Every curve that TensorBoard shows for a run, as step → value."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    scalars = {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]}
    return scalars, events


def test_no_tracker_at_all(tmp_path):
    trackers = make_trackers([], tmp_path, CONFIG)
    trackers.log(1, {"loss": 1.0})
    trackers.close()
    assert not list(tmp_path.iterdir())


def test_tensorboard(tmp_path):
    trackers = make_trackers(["tensorboard"], tmp_path / "run", CONFIG)
    for step in range(1, 6):
        trackers.log(step, {"train_loss": 1 / step, "validation_ncmi": math.nan if step == 3 else 0.1 * step})
    # Whole before it is closed: a killed run closes nothing.
    assert curves(tmp_path / "run")[0]["train_loss"] == pytest.approx({step: 1 / step for step in range(1, 6)})
    trackers.close()
    found, events = curves(tmp_path / "run")
    assert found.keys() == {"train_loss", "validation_ncmi"}
    assert math.isnan(found["validation_ncmi"][3])
    (config,) = events.Tensors("config/text_summary")
    assert '"temperature": 0.2' in config.tensor_proto.string_val[0].decode()


def test_tensorboard_forgets_what_is_done_again(tmp_path):
    first = make_trackers(["tensorboard"], tmp_path, CONFIG)
    for step in range(1, 8):
        first.log(step, {"loss": 1.0})
    # Killed after step 7, with a checkpoint of step 4.
    second = make_trackers(["tensorboard"], tmp_path, CONFIG, start_step=4)
    for step in (5, 6):
        second.log(step, {"loss": 2.0})
    assert curves(tmp_path)[0]["loss"] == {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 5: 2.0, 6: 2.0}
    # And once more, from the beginning.
    third = make_trackers(["tensorboard"], tmp_path, CONFIG)
    third.log(1, {"loss": 3.0})
    for trackers in (first, second, third):
        trackers.close()
    assert curves(tmp_path)[0]["loss"] == {1: 3.0}


def test_unknown_trackers(tmp_path):
    with pytest.raises(ValueError, match=r"a tracker must be one of 'tensorboard', 'wandb'; got 'mlflow'\.$"):
        make_trackers(["tensorboard", "mlflow"], tmp_path, CONFIG)
    assert not list(tmp_path.iterdir())  # nothing was started before the name was seen


@pytest.mark.parametrize("package", ["tensorboard", "wandb"])
def test_a_missing_package(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(ImportError, match=rf"make_trackers: '{package}' cannot be imported .*`pip install {package}`"):
        make_trackers([package], tmp_path, CONFIG)


def test_a_tracker_that_cannot_start_closes_the_others(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    closed = []
    monkeypatch.setattr("ncmi.training.trackers._TensorBoard.close", lambda self: closed.append(self._writer.close()))
    with pytest.raises(ImportError, match="wandb"):
        make_trackers(["tensorboard", "wandb"], tmp_path, CONFIG)
    assert len(closed) == 1


def test_close_is_the_end():
    class Tracker:
        closed = 0

        def log(self, step, values):
            raise AssertionError("closed")

        def close(self):
            self.closed += 1

    tracker = Tracker()
    trackers = Trackers([tracker])
    trackers.close()
    trackers.close()
    trackers.log(1, {})
    assert tracker.closed == 1


WANDB = """
import sys
from ncmi.training.trackers import make_trackers

trackers = make_trackers(["wandb", "tensorboard"], sys.argv[1], {"loss": {"name": "ncmi"}}, start_step=int(sys.argv[2]))
for step in range(int(sys.argv[2]) + 1, int(sys.argv[2]) + 4):
    trackers.log(step, {"validation_ncmi": 0.5 / step, "train_loss": 1.0 * step})
trackers.close()
"""


def run_wandb(folder, start_step=0, **variables):
    given = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    environment = {**given, "HOME": str(folder.parent), "WANDB_SILENT": "true", **variables}
    command = [sys.executable, "-c", WANDB, str(folder), str(start_step)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_weights_and_biases_offline(tmp_path):
    pytest.importorskip("wandb", reason="wandb is not installed")
    folder = tmp_path / "first run"
    for start_step in (0, 2):  # killed after step 3, with a checkpoint of step 2
        process = run_wandb(folder, start_step, WANDB_MODE="offline")
        assert process.returncode == 0, process.stderr
    name = (folder / "wandb_id").read_text()
    written = sorted(folder.glob(f"wandb/offline-run-*/run-{name}.wandb"))
    assert len(written) == 2  # two parts of one run
    for file in written:
        content = file.read_bytes()
        for word in (b"validation_ncmi", b"train_loss", b"first run", b"ncmi"):
            assert word in content
    assert (folder / "tensorboard").is_dir()
    assert not list(tmp_path.glob("wandb"))


def test_weights_and_biases_without_a_key(tmp_path):
    pytest.importorskip("wandb", reason="wandb is not installed")
    process = run_wandb(tmp_path / "run")
    assert process.returncode == 1
    assert "RuntimeError: make_trackers: Weights & Biases could not start (" in process.stderr
    assert "Run `wandb login`, or set WANDB_MODE=offline." in process.stderr
