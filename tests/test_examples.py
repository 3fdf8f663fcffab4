"""The integrations of examples/, run for real: the centroids move, agree between processes, and come back from disk."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ncmi import NCMILoss

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def example(name):
    """The names that an example's file defines."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def moved(loss):
    """Whether the centroids are no longer where they start."""
    start = NCMILoss(loss.num_classes, loss.num_features).centroids.xi
    return not torch.allclose(loss.centroids.xi, start, atol=1e-3) and bool(loss.centroids.xi.isfinite().all())


def accuracies(text):
    """The numbers that a program printed after the word."""
    return [float(number) for number in re.findall(r"accuracy.*? (\d\.\d+)", text)]


def program(name, *arguments, launcher=()):
    """What an example prints as a program of its own."""
    command = [sys.executable, *launcher, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    finished = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_bare_loop(tmp_path, capsys):
    assert moved(example("bare_loop")["main"](str(tmp_path)))
    assert min(accuracies(capsys.readouterr().out)) > 0.8


def test_scikit_learn(capsys):
    assert moved(example("with_scikit_learn")["main"]().criterion_)
    assert min(accuracies(capsys.readouterr().out)) > 0.9


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # Lightning's, of torch's trees
@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning")
@pytest.mark.filterwarnings("ignore:.*The number of training batches:UserWarning")
def test_lightning(tmp_path, capsys):
    module = example("with_lightning")["main"](str(tmp_path))
    assert moved(module.loss)
    saved = torch.load(tmp_path / "digits.ckpt", weights_only=True)
    assert saved["state_dict"]["loss.centroids.xi"].equal(module.loss.centroids.xi)
    assert min(accuracies(capsys.readouterr().out)) > 0.8


def test_lightning_in_two_processes(tmp_path):
    assert min(accuracies(program("with_lightning", 2, tmp_path))) > 0.8
    saved = torch.load(tmp_path / "digits.ckpt", weights_only=True)
    loss = NCMILoss(10, 64)
    loss.load_state_dict({key[5:]: value for key, value in saved["state_dict"].items() if key.startswith("loss.")})
    assert moved(loss)


def test_accelerate(tmp_path, capsys):
    loss = example("with_accelerate")["main"](str(tmp_path))
    assert moved(loss)
    saved = torch.load(tmp_path / "custom_checkpoint_0.pkl", weights_only=True)
    assert saved["centroids.xi"].equal(loss.centroids.xi)
    assert min(accuracies(capsys.readouterr().out)) > 0.8


def test_accelerate_in_two_processes(tmp_path):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    printed = program("with_accelerate", tmp_path, launcher=launcher)
    assert "2 process(es), which differ by 0.0" in printed
    assert min(accuracies(printed)) > 0.8


def test_skorch(tmp_path, capsys):
    net = example("with_skorch")["main"](str(tmp_path))
    assert moved(net.criterion_)
    groups = net.optimizer_.param_groups
    assert [group["lr"] for group in groups] == [1.0, 0.3]
    assert groups[0]["params"][0] is net.criterion_.centroids.xi
    assert min(accuracies(capsys.readouterr().out)) > 0.8


def test_metric_learning(tmp_path):
    loss, precision = example("with_metric_learning")["main"](str(tmp_path))
    assert moved(loss)
    assert precision > 0.8


def test_torchmetrics(tmp_path):
    loss, values = example("with_torchmetrics")["main"](str(tmp_path))
    assert moved(loss)
    assert set(values) == {"accuracy", "cmi", "gamma", "ncmi"}
    assert values["accuracy"] > 0.8
    assert torch.allclose(values["ncmi"], values["cmi"] / values["gamma"])


def test_hub_mixin(tmp_path):
    model, restored = example("with_hub_mixin")["main"](str(tmp_path))
    assert moved(restored.loss)
    assert restored.loss.centroids.xi.equal(model.loss.centroids.xi)
    assert restored.loss.center.mean.equal(model.loss.center.mean)
    assert {path.name for path in tmp_path.iterdir()} >= {"model.safetensors", "config.json"}


# torchvision registers kernels for these operators when it is imported, and its own library may not fit the build of torch.
FIRST = """
import runpy, sys, torch
operators = torch.library.Library("torchvision", "DEF")
operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
loss = runpy.run_path(sys.argv[1])["main"]()
torch.save(loss.state_dict(), sys.argv[2])
"""


def test_timm_in_an_environment_of_its_own(tmp_path):
    # Beside a torchvision that does not fit torch, torchmetrics cannot be imported: so not in the environment of the tests.
    # --no-deps: what timm needs besides is here.
    own = tmp_path / "packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(own)]
    pip += ["--constraint", str(ROOT / "constraints.txt"), "timm", "torchvision"]
    installed = subprocess.run(pip, capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{own}"}
    command = [sys.executable, "-c", FIRST, str(EXAMPLES / "with_timm.py"), str(tmp_path / "loss.pt")]
    finished = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.startswith("512 features; accuracy")
    loss = NCMILoss(10, 512)
    loss.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
    assert moved(loss)
