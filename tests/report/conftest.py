"""Runs of seconds: finished, stopped, from before there were outputs, and on data without a test part; and a Chromium."""

import shutil
from typing import NamedTuple

import pytest
import torch
from browsing import CHROMIUM
from PIL import Image

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


@pytest.fixture(scope="session")
def untested(tmp_path_factory):
    """A run on a folder of images with a training part alone."""
    folder = tmp_path_factory.mktemp("untested")
    for name, level in (("dark", 60), ("light", 190)):
        (folder / "images" / "train" / name).mkdir(parents=True)
        for number in range(20):
            pixels = torch.full((8, 8, 3), level + number, dtype=torch.uint8)
            Image.fromarray(pixels.numpy()).save(folder / "images" / "train" / name / f"{number}.png")
    data = {"name": f"folder:{folder / 'images'}", "validation": 0.3, "workers": 0}
    data |= {"train_resolution": 8, "test_resolution": 8}
    model = {"name": "mlp", "options": {"hidden": [16, 8]}}
    values = {"epochs": 2, "batch_size": 8, "data": data, "model": model, "decisions": ["own"]}
    train(make_config(values, ["loss=ce"]), RunFolder(folder / "run"), quiet=True)
    return folder / "run"


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here; `make browser` installs it")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
