"""Programs of examples/, run for real, and what their tests ask of them."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def example(name):
    """The names that an example's file defines."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def printed_by(*command, path=()):
    """What a command of this Python prints, with folders that come first on the module path after the sources."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", *path)))}
    finished = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=variables)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def moved(loss):
    """Whether the centroids are no longer where they start: random directions, but always orthogonal and of length 1/τ."""
    xi = loss.centroids.xi.detach() * loss.temperature
    return not torch.allclose(xi @ xi.T, torch.eye(len(xi)), atol=1e-3) and bool(xi.isfinite().all())


def accuracies(text):
    """The numbers that a program printed after the word."""
    return [float(number) for number in re.findall(r"accuracy.*? (\d\.\d+)", text)]
