"""Two finished runs of seconds, one that was stopped, and one from before there were outputs."""

import shutil
from typing import NamedTuple

import pytest

from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.run_folder import RunFolder

VALUES = {
    "epochs": 3,
    "batch_size": 64,
    "data": {"name": "digits", "validation": 0.2},
    "model": {"name": "mlp", "options": {"hidden": [32, 16]}},
    "decisions": ["own", "class means"],
}


class Runs(NamedTuple):
    """Folders of runs."""

    ncmi: object
    ce: object
    old: object
    stopped: object


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for loss in ("ncmi", "ce"):
        train(make_config(VALUES, [f"loss={loss}"]), RunFolder(folder / loss), quiet=True)
    for name, missing in (("old", ["outputs.pt"]), ("stopped", ["outputs.pt", "summary.json", "weights.safetensors"])):
        shutil.copytree(folder / "ce", folder / name)
        for file in missing:
            (folder / name / file).unlink()
    return Runs(folder / "ncmi", folder / "ce", folder / "old", folder / "stopped")
