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
    "epochs": 6,
    "batch_size": 63,
    "test_batch_size": 100,
    "data": {"name": "digits", "validation": 287, "train_size": 1001, "crop": 1},
    "model": {"name": "mlp", "options": {"hidden": [32, 16]}},
    "schedule": {"name": "one-cycle"},
    "engine": {"precision": "float64"},
    "decisions": ["own", "class means", "knn"],
}
CASES = {
    "default": {},
    "theorem1": {"loss": {"name": "ncmi", "options": {"objective": "theorem1"}}},
    "ce": {"loss": {"name": "ce"}, "optimizer": {"clip_norm": 0.5}},
    "averaged": {"engine": {"precision": "float64", "ema": 0.9}},
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
    """Everything in nested lists and dictionaries by its path, without times."""
    if isinstance(content, dict):
        items = ((key, value) for key, value in content.items() if key not in TIMES)
    elif isinstance(content, list):
        items = enumerate(content)
    else:
        return {path: content}
    return {name: number for key, value in items for name, number in flat(value, f"{path}/{key}").items()}


def differences(found, expected):
    """Paths at which two records are not equal; numbers may differ in their last digits."""
    found, expected = flat(found), flat(expected)
    assert found.keys() == expected.keys()
    return {
        name: (found[name], expected[name])
        for name in found
        if found[name] != expected[name]
        and not (isinstance(found[name], float) and abs(found[name] - expected[name]) < 1e-9)
    }


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
    command = ["-m", "ncmi", "train", recipe(folder, **CASES[first]), "--run-folder", folder / first]
    with torchrun.agents(*torchrun.nodes(2, *command)) as started:
        (folder / "printed.json").write_text(json.dumps(torchrun.finish(*started)))
    plan = folder / "plan.json"
    plan.write_text(json.dumps({str(folder / name): {**VALUES, **CASES[name]} for name in others}))
    with torchrun.agents(*torchrun.nodes(2, nodes_program.__file__, plan)) as started:
        torchrun.finish(*started)
    return folder


def test_two_machines_train_the_weights_of_one_process(alone, together):
    # One test for all cases: spread over workers, each would start machines of its own.
    for name in CASES:
        assert_same_weights(together / name, alone / name)
        environment = RunFolder(together / name).read_json(together / name / "environment.json")
        assert environment["started"]["world_size"] == 2
        assert environment["resumed"] == []


def test_two_machines_log_and_evaluate_every_sample_once(alone, together):
    sizes = {"train": 1001, "validation": 287, "test": 360}
    for name in CASES:
        found, expected = read(together / name), read(alone / name)
        evaluation = found["evaluation"]
        assert {part: values["n"] for part, values in evaluation["information"].items()} == sizes
        for decision in evaluation["decisions"]:
            assert {part: values["n"] for part, values in decision["parts"].items()} == sizes
        assert differences(evaluation, expected["evaluation"]) == {}, name
        outputs = [read_tensors(folder / name / "outputs.pt", "test") for folder in (together, alone)]
        for key in ("targets", "decisions", "sample"):
            assert outputs[0][key].equal(outputs[1][key]), (name, key)
        rows = RunFolder(together / name).rows()
        different = differences(rows, RunFolder(alone / name).rows())
        # Rivals and ratios of means have a value for each batch; two ranks cut a set into others, and this is their mean.
        epochs = VALUES["epochs"]
        by_batch = {f"/{place}/validation_loss" for place in range(epochs)} if name != "ce" else set()
        assert different.keys() == by_batch, (name, different)
        assert [row["epoch"] for row in rows] == list(range(1, epochs + 1))
        assert found["steps"] == expected["steps"] == epochs * (1001 // 63)


def test_the_cases_are_not_trivial(alone):
    states = [weights(alone / name) for name in CASES]
    assert len({float(state["network.layers.0.weight"].sum()) for state in states}) == len(states)
    assert read(alone / "default")["last"]["validation_top1"] > 0.5


def test_only_the_first_machine_speaks(together):
    printed = json.loads((together / "printed.json").read_text())
    assert ["epoch 6/6" in text for text in printed] == [True, False]
    assert "| learned q" in printed[0]
    assert "s an epoch. Curves, weights and numbers are in" in printed[0]


LONG = {**VALUES, "epochs": 20, "decisions": ["own"]}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    train(make_config(LONG), RunFolder(folder), quiet=True)
    return folder


def start_long_run(folder, *options):
    """A launch of two workers on a run of some seconds."""
    command = ["-m", "ncmi", "train", recipe(folder, **LONG), "--run-folder", folder / "run"]
    return torchrun.agents(["--standalone", "--nproc-per-node", 2, *options, *command])


def epochs_done(folder):
    return len(RunFolder(folder).rows()) if (folder / "checkpoints" / "last.pt").is_file() else 0


def test_a_killed_worker_is_started_again_and_the_run_goes_on(tmp_path, uninterrupted):
    folder = RunFolder(tmp_path / "run")
    with start_long_run(tmp_path, "--max-restarts", 2) as (agent,):
        agent.wait_until(lambda: epochs_done(folder.path) > 0)
        # The one that writes the checkpoints. The other then finds its address in torchrun's store, and must not use it.
        os.kill(agent.workers()[0], signal.SIGKILL)
        assert not folder.finished, "it was too fast to be killed"
        torchrun.finish(agent)
    assert_same_weights(folder.path, uninterrupted)
    assert [record["world_size"] for record in folder.read_json(folder.environment)["resumed"]] == [2]
    different = differences(folder.rows(), RunFolder(uninterrupted).rows())
    assert all(key.endswith("/validation_loss") for key in different), different  # of other batches


def test_a_terminated_launch_saves_and_one_process_goes_on(tmp_path, uninterrupted):
    folder = RunFolder(tmp_path / "run")
    with start_long_run(tmp_path) as (agent,):
        agent.wait_until(lambda: epochs_done(folder.path) > 0)
        os.kill(agent.process.pid, signal.SIGTERM)
        code, printed = agent.wait()
    assert code != 0
    assert f"and saved. Go on with `ncmi train {folder.path} --resume`." in printed
    assert 0 < folder.read_checkpoint()["state"]["step"] < 20 * 15
    train(None, folder, resume=True, quiet=True)
    assert_same_weights(folder.path, uninterrupted)
    different = differences(folder.rows(), RunFolder(uninterrupted).rows())
    assert all(key.endswith("/validation_loss") for key in different), different  # of other batches
