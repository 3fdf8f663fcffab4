"""Recipes: each one runs to its end, says what it is, and holds the numbers of the paper."""

import pytest
import torch
import yaml
from made_data import make_data
from realdata import real_data

from ncmi.cli import main
from ncmi.models import create_model
from ncmi.recipes import list_recipes, read_recipe
from ncmi.tensor_files import read_tensors
from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.run_folder import RunFolder

NARROW = ["model.options.width=4", "model.options.blocks=[1, 1, 1, 1]"]
# What makes a recipe small enough for a test, beside one epoch, batches of 16 and the cheapest decisions.
SHRUNK = {
    "cifar10/resnet18": [*NARROW, "data.train_size=48"],
    "cifar10/small": [*NARROW, "data.train_size=48", "data.validation=20"],
    "cifar100/resnet18": [*NARROW, "data.train_size=100"],
    "cifar100/resnet34": [*NARROW, "data.train_size=100"],
    "cifar100/resnet50": [*NARROW, "data.train_size=100"],
    "cifar100/resnet101": [*NARROW, "data.train_size=100"],
    "cifar100/small": [*NARROW, "data.train_size=200", "data.validation=100"],
    "cifar100/medium": [*NARROW, "data.train_size=200", "data.validation=100"],
    "digits": ["data.train_size=100"],
    "fashion-mnist/resnet": [*NARROW, "data.train_size=48", "data.validation=20"],
    "fashion-mnist/small": ["data.train_size=48", "data.validation=20", "model.options.hidden=[16, 8]"],
    "folder": [*NARROW, "schedule.warmup_epochs=0.5", "data.workers=1"],
    "imagenet/resnet50": [*NARROW, "data.workers=0"],
    "imagenet/resnet101": [*NARROW, "data.workers=0"],
}

# Those of bags have tests of their own.
IMAGES = [name for name in list_recipes() if not name.startswith(("mil/", "wsi/"))]


def recipe(name):
    return make_config(read_recipe(name), owner=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("data"))


def shrunk(name, folder):
    overrides = ["epochs=1", "batch_size=16", "decisions=[own]", *SHRUNK[name]]
    if read_recipe(name)["schedule"]["name"] == "step":
        overrides += ["schedule.milestones=[0.5]"]
    if recipe(name).data.name.startswith("folder:"):
        overrides += [f"data.name=folder:{folder / 'images'}", "data.train_resolution=32", "data.test_resolution=40"]
        overrides += ["engine.precision=float32"]  # some processors have no bfloat16 matrix product
    elif name != "digits":
        overrides += [f"data.folder={folder}", "data.options.check=false"]
    return make_config(read_recipe(name), overrides, owner=name)


def test_the_recipes_of_the_issue_are_there():
    assert sorted(SHRUNK) == IMAGES


@pytest.mark.parametrize("name", IMAGES)
def test_every_recipe_runs_to_its_end(tmp_path, folder, name):
    config = shrunk(name, folder)
    assert recipe(name).schedule.name == config.schedule.name
    summary = train(config, RunFolder(tmp_path), quiet=True)
    assert summary["steps"] == summary["train_samples"] // 16 >= 1
    validation = config.data.validation > 0
    parts = {"train", "validation", "test"} if validation else {"train", "test"}
    assert set(summary["evaluation"]["information"]) == parts
    assert (summary["last"].get("validation_top1") is not None) == validation
    for tensor in read_tensors(tmp_path / "weights.safetensors", "test").values():
        assert bool(tensor.isfinite().all())
    assert (tmp_path / "curves.svg").stat().st_size > 0


@pytest.mark.parametrize("loss", ["ce", "paper"])
def test_a_recipe_takes_another_loss(tmp_path, folder, loss):
    overrides = ["loss.options.preset=paper"] if loss == "paper" else ["loss=ce"]
    config = make_config(shrunk("cifar100/resnet18", folder).to_dict(), overrides)
    summary = train(config, RunFolder(tmp_path), quiet=True)
    assert summary["evaluation"]["decisions"][0]["source"] == {"ce": "head", "paper": "learned q"}[loss]


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_says_what_it_is(name):
    values = read_recipe(name)
    assert values["scale"] in ("full", "small")
    description = values["description"]
    assert description.endswith(".")
    assert description.count(". ") == 0, "one sentence"
    assert len(description) <= 110
    assert "extends" not in values


@pytest.mark.parametrize("name", list_recipes())
def test_a_printed_recipe_is_the_recipe(capsys, tmp_path, name):
    assert main(["recipes", "--print", name]) == 0
    printed = capsys.readouterr().out
    assert make_config(yaml.safe_load(printed)) == recipe(name)
    (tmp_path / "own.yaml").write_text(printed)
    assert make_config(read_recipe(str(tmp_path / "own.yaml"))) == recipe(name)


@pytest.mark.parametrize(
    ("model", "num_features"), [("resnet18", 512), ("resnet34", 512), ("resnet50", 2048), ("resnet101", 2048)]
)
def test_cifar100_as_in_the_paper(model, num_features):
    config = recipe(f"cifar100/{model}")
    assert (config.data.name, config.data.train_size, config.data.validation) == ("cifar100", None, 0)
    assert (config.optimizer.name, config.optimizer.momentum, config.optimizer.nesterov) == ("sgd", 0.9, False)
    assert (config.optimizer.lr, config.optimizer.weight_decay, config.batch_size) == (0.1, 0.0005, 64)
    assert (config.optimizer.clip_norm, config.optimizer.backbone_lr, config.engine.ema) == (None, 1, 0)
    assert (config.epochs, config.schedule.name, config.schedule.milestones) == (200, "step", [60, 120, 160])
    assert (config.schedule.decay, config.schedule.warmup_epochs) == (0.1, 0)
    assert (config.model.name, config.scale, config.loss.name) == (model, "full", "ncmi")
    with torch.device("meta"):
        assert create_model(config.model.name, **config.model.options).num_features == num_features
    assert config.model.options == {"stem": "cifar"}


@pytest.mark.parametrize("model", ["resnet50", "resnet101"])
def test_imagenet_as_in_the_paper(model):
    config = recipe(f"imagenet/{model}")
    assert (config.optimizer.name, config.optimizer.momentum, config.optimizer.nesterov) == ("sgd", 0.9, False)
    assert (config.optimizer.lr, config.optimizer.weight_decay, config.batch_size) == (0.5, 5e-5, 1024)
    assert (config.epochs, config.schedule.name, config.schedule.warmup_epochs) == (1000, "cosine", 0)
    assert (config.data.train_resolution, config.data.test_resolution) == (224, 280)
    assert (config.data.train_size, config.data.validation, config.data.flip) == (None, 0, True)
    assert (config.model.name, config.model.options, config.scale) == (model, {}, "full")


def test_a_recipe_of_ones_own_may_extend_one_of_the_package(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: cifar100/resnet34\nepochs: 3\noptimizer: {lr: 0.2}\n")
    config = make_config(read_recipe(str(path)))
    assert (config.model.name, config.model.options) == ("resnet34", {"stem": "cifar"})
    assert (config.epochs, config.optimizer.lr, config.optimizer.weight_decay) == (3, 0.2, 5e-4)


def test_a_shortened_recipe_with_a_longer_warm_up_is_refused(tmp_path, folder):
    config = make_config(shrunk("folder", folder).to_dict(), ["schedule.warmup_epochs=2"])
    with pytest.raises(ValueError, match=r"warmup_epochs=2.0 must be less than the run's epochs, 1"):
        train(config, RunFolder(tmp_path), quiet=True)


@pytest.mark.parametrize("loss", ["ce", "ncmi"])
def test_the_small_recipe_runs_on_the_real_cifar100(tmp_path, capsys, loss):
    settings = ["data.train_size=200", "data.validation=200", "epochs=1", "batch_size=50", "decisions=[own]"]
    # A narrow network, since the test set is whole.
    run = [
        "train",
        "cifar100/small",
        "--set",
        f"loss={loss}",
        f"data.folder={real_data('cifar100')}",
        *settings,
        *NARROW,
    ]
    run += ["--run-folder", str(tmp_path / "run")]
    assert main(run) == 0
    printed = capsys.readouterr().out
    assert f"cifar100 · resnet10_slim · {loss} · 1 epoch · seed 0" in printed
    assert "| decision (%) | test top-1 |" in printed
    assert "s an epoch. Curves, weights and numbers are in" in printed
    summary = RunFolder(tmp_path / "run").read_json(tmp_path / "run" / "summary.json")
    assert summary["evaluation"]["information"]["test"]["n"] == 10_000
    assert (tmp_path / "run" / "curves.svg").is_file()
