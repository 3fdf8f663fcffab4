"""Runs of seconds, and what their tests ask of them."""

import json
import sys

import torch

from ncmi.tensor_files import read_tensors
from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.run_folder import RunFolder

QUICK = {
    "epochs": 2,
    "batch_size": 64,
    "data": {"name": "digits", "validation": 0.2, "crop": 1},
    "model": {"name": "mlp", "options": {"hidden": [32, 16]}},
    "schedule": {"name": "one-cycle"},
    "decisions": ["own"],
}


def start(folder, *overrides, values=QUICK, **settings):
    return train(make_config(values, overrides), RunFolder(folder), quiet=True, **settings)


def weights(folder):
    return read_tensors(folder / "weights.safetensors", "test")


def same(first, second):
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


def command(folder, *overrides):
    """The command line, in a process of its own that can be killed."""
    recipe = folder.parent / "recipe.yaml"
    recipe.write_text(json.dumps(QUICK))  # JSON is YAML
    return [sys.executable, "-m", "ncmi", "train", str(recipe), "--run-folder", str(folder), "--set", *overrides]
