"""Several processes and machines: the weights and numbers of one process, and restarts that go on where a worker died."""

import json
import os
import signal
import sys

import nodes_program
import pytest
import torch
import torchrun

from ncmi.tensor_files import read_tensors
from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.run_folder import RunFolder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are found through /proc")

# Shards are uneven everywhere: 63 samples a step, 1001 in training, 287 in validation; evaluation takes several steps.
VALUES = {
    "epochs": 3,
    "batch_size": 63,
    "test_batch_size": 100,
    "data": {"name": "digits", "validation": 287, "train_size": 1001, "crop": 1},
    "model": {"name": "mlp", "options": {"hidden": [32, 16]}},
    "schedule": {"name": "one-cycle"},
    "engine": {"precision": "float64"},
}
CASES = {
    "harmonic": {},
    "theorem1": {"loss": {"name": "ncmi", "options": {"objective": "theorem1"}}},
    "ce": {"loss": {"name": "ce"}, "optimizer": {"clip_norm": 0.5}},
    "averaged": {"engine": {"precision": "float64", "ema": 0.9}},
    "class means": {"loss": {"name": "ncmi", "options": {"centroids_start": "class_means"}}},
    "frozen": {
        "loss": {"name": "ncmi", "options": {"centroids_start": "class_means"}}, "optimizer": {"backbone_lr": 0},
    },
}  # fmt: skip
NUMBERS = {"rtol": 0, "atol": 1e-9}
TIMES = ("seconds", "images_per_second")


def weights(folder):
    return read_tensors(folder / "weights.safetensors", "test")


def assert_same_weights(folder, expected):
    torch.testing.assert_close(weights(folder), weights(expected), **NUMBERS)


def read(folder):
    return RunFolder(folder).read_json(folder / "summary.json")


def flat(content, path=""):
    """Every number of nested lists and dictionaries by its path, without times."""
    if isinstance(content, dict):
        items = ((key, value) for key, value in content.items() if key not in TIMES)
    elif isinstance(content, list):
        items = enumerate(content)
    else:
        return {path: content}
    return {name: number for key, value in items for name, number in flat(value, f"{path}.{key}").items()}


def assert_same_numbers(found, expected, without=()):
    found, expected = flat(found), flat(expected)
    assert found.keys() == expected.keys()
    for name in found:
        if not name.endswith(without or "never"):
            assert found[name] == pytest.approx(expected[name], rel=1e-9, abs=1e-9), name


def recipe(folder, **values):
    path = folder / "recipe.yaml"
    path.write_text(json.dumps({**VALUES, **values}))  # JSON is YAML
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Every case in this process."""
    folder = tmp_path_factory.mktemp("alone")
    for name, values in CASES.items():
        train(make_config({**VALUES, **values}), RunFolder(folder / name), quiet=True)
    return folder


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Every case on two machines: the first through the command line, the others in one launch."""
    folder = tmp_path_factory.mktemp("together")
    first, *others = CASES
    command = ["-m", "ncmi", "train", recipe(folder, **CASES[first]), "--run", folder / first]
    with torchrun.agents(*torchrun.nodes(2, *command)) as started:
        (folder / "printed.json").write_text(json.dumps(torchrun.finish(*started)))
    plan = folder / "plan.json"
    plan.write_text(json.dumps({str(folder / name): {**VALUES, **CASES[name]} for name in others}))
    with torchrun.agents(*torchrun.nodes(2, nodes_program.__file__, plan)) as started:
        torchrun.finish(*started)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_two_machines_train_the_weights_of_one_process(alone, together, name):
    assert_same_weights(together / name, alone / name)
    environment = RunFolder(together / name).read_json(together / name / "environment.json")
    assert environment["started"]["world_size"] == 2
    assert environment["resumed"] == []


@pytest.mark.parametrize("name", CASES)
def test_two_machines_log_and_evaluate_every_sample_once(alone, together, name):
    found, expected = read(together / name), read(alone / name)
    sizes = {"train": 1001, "validation": 287, "test": 360}
    evaluation = found["evaluation"]
    assert {part: values["n"] for part, values in evaluation["information"].items()} == sizes
    for decision in evaluation["decisions"]:
        assert {part: values["n"] for part, values in decision["parts"].items()} == sizes
    assert_same_numbers(evaluation, expected["evaluation"])
    rows, others = RunFolder(together / name).rows(), RunFolder(alone / name).rows()
    # A ratio of means has a value for each batch; a set is cut into other batches by two ranks, and this is their mean.
    assert_same_numbers(rows, others, without=("validation_loss",) if name == "theorem1" else ())
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert found["steps"] == expected["steps"] == 3 * (1001 // 63)


def test_the_cases_are_not_trivial(alone):
    states = [weights(alone / name) for name in CASES if name not in ("ce", "frozen")]
    assert len({float(state["network.layers.0.weight"].sum()) for state in states}) == len(states)
    assert read(alone / "harmonic")["last"]["validation_top1"] > 0.5


def test_only_the_first_machine_speaks(together):
    printed = json.loads((together / "printed.json").read_text())
    assert ["epoch 3/3" in text for text in printed] == [True, False]
    assert "| learned q" in printed[0]
    assert "s an epoch. Curves, weights and numbers are in" in printed[0]


def start_long_run(folder, *program):
    """A launch of two workers on a run of some seconds, and its command."""
    path = recipe(folder, epochs=40, decisions=["own"])
    command = ["-m", "ncmi", "train", path, "--run", folder / "run"]
    return torchrun.agents(["--standalone", "--nproc-per-node", 2, *program, *command])


def reference(folder):
    train(make_config({**VALUES, "epochs": 40, "decisions": ["own"]}), RunFolder(folder), quiet=True)
    return folder


def epochs_done(folder):
    return len(RunFolder(folder).rows()) if (folder / "checkpoints" / "last.pt").is_file() else 0


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker_is_started_again_and_the_run_goes_on(tmp_path, rank):
    with start_long_run(tmp_path, "--max-restarts", 2) as (agent,):
        torchrun.wait_for(lambda: epochs_done(tmp_path / "run") > 0, agent)
        victim = torchrun.workers(agent.pid)[rank]
        os.kill(victim, signal.SIGKILL)
        assert not (tmp_path / "run" / "summary.json").exists(), "it was too fast to be killed"
        torchrun.finish(agent)
    assert_same_weights(tmp_path / "run", reference(tmp_path / "alone"))
    environment = RunFolder(tmp_path / "run").read_json(tmp_path / "run" / "environment.json")
    assert [record["world_size"] for record in environment["resumed"]] == [2]
    assert [row["epoch"] for row in RunFolder(tmp_path / "run").rows()] == list(range(1, 41))


def test_a_terminated_launch_saves_and_one_process_goes_on(tmp_path):
    with start_long_run(tmp_path) as (agent,):
        torchrun.wait_for(lambda: epochs_done(tmp_path / "run") > 0, agent)
        agent.send_signal(signal.SIGTERM)
        printed, _ = agent.communicate(timeout=torchrun.PATIENCE)
    assert agent.returncode != 0
    assert f"and saved. Go on with `ncmi train {tmp_path / 'run'} --resume`." in printed
    saved = RunFolder(tmp_path / "run").read_checkpoint()["state"]
    assert 0 < saved["step"] < 40 * 15
    train(None, RunFolder(tmp_path / "run"), resume=True, quiet=True)
    assert_same_weights(tmp_path / "run", reference(tmp_path / "alone"))
