"""The Python of the documents runs, page by page; what they show of outputs is what comes out."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ncmi.cli import main
from ncmi.recipes import read_recipe
from ncmi.training.config import make_config

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

# What pages take as given.
LOADERS = """
import torch
from torch.utils.data import DataLoader, TensorDataset
images, labels = torch.randn(200, 1, 8, 8), torch.arange(200) % 10
loader = DataLoader(TensorDataset(images + labels[:, None, None, None] * images[0], labels), batch_size=50, shuffle=True)
validation_loader = DataLoader(TensorDataset(images, labels), batch_size=50)
"""
TRAINED = """
import torch
import ncmi
model = torch.nn.Linear(8, 16)
loss = ncmi.NCMILoss(num_classes=4, num_features=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
classifier, features = ncmi.CentroidClassifier.from_loss(loss), torch.randn(20, 16)
"""
INDEX = """
import torch
import ncmi
model, images, targets = torch.nn.Linear(8, 512), torch.randn(200, 8), torch.arange(200) % 100
"""
GIVEN = {
    "collapse": "",
    "cross-entropy": LOADERS,
    "extending": "",
    "faq": TRAINED,
    "index": INDEX,
    "method": "",
    "start": "",
    "training": "",
}


def run_page(page: str) -> dict:
    """Every block of a page in one namespace; a block with prompts must print what it shows."""
    names: dict = {}
    exec(GIVEN[page], names)
    blocks = BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))
    assert blocks, f"{page} has no Python left; take it out of the list"
    for number, block in enumerate(blocks):
        if not block.startswith(">>>"):
            exec(compile(block, f"{page}.md, block {number}", "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(block, names, page, None, None)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        assert runner.run(test, clear_globs=False).failed == 0
        names |= test.globs
    return names


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", sorted(set(GIVEN) - {"start", "faq"}))
def test_code_runs(page):
    run_page(page)


def test_the_first_program_learns_and_its_features_can_be_measured(capsys):
    assert run_page("start")["accuracy"] > 0.9
    assert main(["measure", "--features", "features.npz"]) == 0
    assert "1797 samples, CMI" in capsys.readouterr().out


def test_what_the_faq_says_is_seen(capsys):
    run_page("faq")
    decided, forgotten, value = capsys.readouterr().out.splitlines()
    assert decided.endswith("classes are ever decided for, of 4")
    assert (forgotten, value) == ("False", "1.8")


def test_the_program_for_several_processes_runs_in_two(tmp_path):
    (program,) = BLOCK.findall((DOCS / "scaling.md").read_text(encoding="utf-8"))
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    finished = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("NCMI ")
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["loss"]["centroids.xi"].shape == (5, 16)


def test_the_recipe_builds_on_another(tmp_path):
    (recipe,) = re.findall(
        r"^```yaml\n(.*?)^```", (DOCS / "extending.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "mine.yaml").write_text(recipe, encoding="utf-8")
    config = make_config(read_recipe("mine.yaml"))
    assert (config.model.name, config.model.options["width"], config.data.name) == ("resnet10_slim", 32, "cifar100")


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.stem)
def test_trainings_that_are_shown_have_settings_that_exist(page, capsys):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for command in re.findall(r"^(?:torchrun .* -m )?ncmi (train .*)$", text, re.MULTILINE):
        words = shlex.split(command, comments=True)
        if "…" not in words and not words[1].endswith(".yaml"):
            assert main([*words, "--dry-run"]) == 0, capsys.readouterr().err


def test_every_page_is_in_one_list():
    listed = re.findall(r"^([a-z/-]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(["api/index", *(page.stem for page in DOCS.glob("*.md") if page.stem != "index")])
