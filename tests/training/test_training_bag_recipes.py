"""Recipes on bags: each one runs to its end on a set in its layout, with every bag model, and holds the published numbers."""

import pytest
from bag_sets import make_bags

from ncmi.recipes import list_recipes, read_recipe
from ncmi.tensor_files import read_tensors
from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.processes import Processes
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup

NAMES = (
    "mil/elephant", "mil/fox", "mil/musk1", "mil/musk2", "mil/tiger", "mil/ucsb-breast",
    "wsi/bracs", "wsi/camelyon17", "wsi/tcga-brca", "wsi/tcga-lung",
)  # fmt: skip
CLASSES = {"wsi/bracs": 3, "wsi/camelyon17": 4}
MODELS = ("abmil", "transmil", "aem", "asmil")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_bags(tmp_path_factory.mktemp("bags"))


def recipe(name, *overrides):
    return make_config(read_recipe(name), overrides, owner=name)


def test_the_recipes_of_the_issue_are_there():
    assert tuple(name for name in list_recipes() if name.startswith(("mil/", "wsi/"))) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_runs_to_its_end_on_bags_in_its_layout(tmp_path, folder, name):
    config = recipe(name, "epochs=2", f"data.folder={folder}", "decisions=[own, linear probe]")
    summary = train(config, RunFolder(tmp_path), quiet=True)
    evaluation = summary["evaluation"]
    assert set(evaluation["information"]) == {"train", "validation", "test"}
    assert evaluation["decisions"][0]["source"] == "learned q"
    size = config.batch_size
    assert summary["steps"] == 2 * -(-summary["train_samples"] // size)
    for tensor in read_tensors(tmp_path / "weights.safetensors", "test").values():
        assert bool(tensor.isfinite().all())
    assert summary["last"]["train_loss"] > 0


@pytest.mark.parametrize("name", ["wsi/camelyon17", "wsi/tcga-lung"])
@pytest.mark.parametrize("model", MODELS)
def test_a_recipe_takes_every_bag_model_by_its_name(tmp_path, folder, name, model):
    config = recipe(name, f"model={model}", "epochs=1", f"data.folder={folder}", "decisions=[own]")
    assert config.model.options == {}
    summary = train(config, RunFolder(tmp_path), quiet=True)
    assert summary["last"]["validation_top1"] is not None


@pytest.mark.parametrize(
    ("name", "model"), [*((name, "abmil") for name in NAMES), *(("wsi/tcga-lung", m) for m in MODELS[1:])]
)
def test_the_width_follows_that_of_the_instances(folder, name, model):
    setup = Setup(recipe(name, f"model={model}", f"data.folder={folder}"), Processes(0, 1, "cpu"))
    assert setup.source.num_classes == CLASSES.get(name, 2)
    assert setup.make_task().network.num_features == 128


def test_a_recipe_takes_cross_entropy(tmp_path, folder):
    config = recipe("wsi/camelyon17", "loss=ce", "epochs=1", f"data.folder={folder}", "decisions=[own]")
    summary = train(config, RunFolder(tmp_path), quiet=True)
    assert summary["evaluation"]["decisions"][0]["source"] == "head"


@pytest.mark.parametrize("name", ["wsi/camelyon17", "wsi/bracs"])
def test_the_published_benchmark_to_the_letter(name):
    config = recipe(name)
    optimizer, schedule = config.optimizer, config.schedule
    assert (optimizer.name, optimizer.lr, optimizer.weight_decay, optimizer.clip_norm) == ("adamw", 1e-4, 1e-5, None)
    assert (schedule.name, schedule.warmup_epochs, config.epochs, config.batch_size) == ("cosine", 0, 50, 1)
    assert (config.data.balanced, optimizer.micro_batch, config.engine.ema) == (False, None, 0)
    assert (config.model.name, config.model.options, config.scale) == ("abmil", {}, "full")
    assert config.data.name == f"bags:{name.removeprefix('wsi/')}"


@pytest.mark.parametrize("name", ["wsi/tcga-lung", "wsi/tcga-brca"])
def test_tcga_as_measured_before(name):
    config = recipe(name)
    assert (config.epochs, config.batch_size, config.scale) == (20, 16, "small")
    assert (config.optimizer.name, config.optimizer.lr, config.optimizer.centroid_lr) == ("adamw", 1e-3, None)
    assert config.loss.options == {"center_momentum": 0.99}
