"""Runs on bags: how sets are split, what is refused, resuming, and evaluation bag by bag."""

import signal

import pytest
import torch
from bag_sets import make_bags
from data.bags.conftest import real_bags  # noqa: F401
from data.bags.made_bags import made_set

from ncmi.data.bags import bracs_split, camelyon17_split, clam_split, load_bags, patient_folds
from ncmi.models.mil import Bags
from ncmi.tensor_files import read_tensors
from ncmi.training import loop
from ncmi.training.config import make_config
from ncmi.training.loop import Stopped, train
from ncmi.training.processes import Processes
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup
from ncmi.training.sources.bags import make_split

QUICK = {
    "epochs": 2,
    "batch_size": 4,
    "test_batch_size": 5,
    "data": {"name": "bags:tcga-lung", "workers": 0},
    "model": {"name": "abmil", "options": {"num_features": 16, "dropout": 0.25}},
    "optimizer": {"name": "adamw", "lr": 1e-3},
    "decisions": ["own"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_bags(tmp_path_factory.mktemp("bags"))


def config(folder, *overrides):
    return make_config(QUICK, [f"data.folder={folder}", *overrides])


def setup(folder, *overrides):
    return Setup(config(folder, *overrides), Processes(0, 1, torch.device("cpu")))


def parts(source):
    """The slides of each part; the validation part is mixed."""
    return [source.train.slides, tuple(sorted(source.validation.slides)), source.test.slides]


def named(bags, split):
    train, validation, test = (bags.subset(indices).slides for indices in split)
    return [train, tuple(sorted(validation)), test]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("camelyon17", lambda bags, fold: camelyon17_split(bags, seed=fold)),
        ("bracs", lambda bags, fold: bracs_split(bags)),
        ("bracs-7", lambda bags, fold: bracs_split(bags)),
        ("tcga-lung", clam_split),
        ("musk1", lambda bags, fold: patient_folds(bags)[fold]),
    ],
)
@pytest.mark.parametrize("fold", [0, 1])
def test_a_set_is_split_as_its_name_or_its_folder_says(folder, name, make, fold):
    bags = load_bags(name, folder)
    source = setup(folder, f"data.name=bags:{name}", f"data.fold={fold}").source
    assert parts(source) == named(bags, make(bags, fold))
    patients = [set(source.patients(getattr(source, part))) for part in ("train", "validation", "test")]
    assert sum(map(len, patients)) == len(set().union(*patients))
    assert (source.in_features, source.class_names) == (bags.in_features, bags.class_names)


def test_folds_differ_but_for_the_official_split(folder):
    for name, differ in {"camelyon17": True, "tcga-lung": True, "musk1": True, "bracs": False}.items():
        first, second = (parts(setup(folder, f"data.name=bags:{name}", f"data.fold={k}").source) for k in (0, 1))
        assert (first != second) == differ


@pytest.mark.parametrize("fold", [-1, 10])
def test_a_fold_that_is_not_there_gets_a_sentence(fold):
    with pytest.raises(ValueError, match=rf"data: fold must lie in \[0, 9\] for made; got {fold}"):
        make_split(made_set([0, 1] * 20), "made", fold)


def test_what_bags_cannot_do_gets_a_sentence(folder, tmp_path):
    with pytest.raises(ValueError, match="data: bags have one view each, and this loss wants several"):
        train(config(folder, "loss=supcon"), RunFolder(tmp_path / "run"), quiet=True)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match=r"train_size=10 is for images; bags are divided by patient\. Leave it out"):
        setup(folder, "data.train_size=10")
    with pytest.raises(FileNotFoundError, match=r"splits_7\.csv is missing"):
        setup(folder, "data.fold=7")


def test_float16_bags_reach_the_network_in_its_own_type(folder):
    for precision, dtype in {"float32": torch.float32, "float64": torch.float64}.items():
        made = setup(folder, f"engine.precision={precision}")
        assert made.source.train.bag(0).instances.dtype == torch.float16
        batch = next(iter(made.source.train_loader(made.processes)))
        stored = [made.source.train.bag(index).instances for index in batch.indices.tolist()]
        bags = made.convert(batch.images)
        assert isinstance(bags, Bags)
        assert bags.instances.dtype == dtype
        assert torch.equal(bags.instances, torch.cat(stored).to(dtype))
        assert bags.lengths.tolist() == [len(bag) for bag in stored]
        assert torch.equal(batch.targets, made.source.train.targets[batch.indices])


def test_groups_have_two_classes_and_balanced_ones_as_many_of_each(folder):
    made = setup(folder, "data.name=bags:camelyon17", "batch_size=8")
    groups = list(made.source.train_loader(made.processes))
    assert all(len(group.targets.unique()) > 1 for group in groups)
    assert sorted(torch.cat([group.indices for group in groups]).tolist()) == list(range(len(made.source.train)))
    assert torch.bincount(made.source.train.targets).max() > 2 * torch.bincount(made.source.train.targets).min()
    made = setup(folder, "data.name=bags:camelyon17", "batch_size=8", "data.balanced=true")
    drawn = torch.bincount(torch.cat([group.targets for group in made.source.train_loader(made.processes)]))
    assert int(drawn.max() - drawn.min()) <= 1


@pytest.mark.parametrize("model", ["abmil", "transmil", "aem", "asmil"])
def test_evaluation_one_by_one_is_that_in_groups(folder, model):
    features = []
    for size in (1, 5):
        made = setup(folder, f"model={model}", f"test_batch_size={size}", "engine.precision=float64")
        task = made.make_task().eval()
        features.append(made.own_features(task, made.source.test))
    assert torch.equal(features[0].targets, features[1].targets)
    torch.testing.assert_close(features[0].features, features[1].features, rtol=1e-12, atol=1e-13)


MEMORY = ("batch_size=1", "loss.options={objective: theorem1, memory: 8}")
CASES = {
    "abmil": ("loss=ncmi",),
    "abmil with micro-batches": ("optimizer.micro_batch=2",),
    "abmil with a memory": MEMORY,
    "abmil with a memory and an average": (*MEMORY, "engine.ema=0.9"),
    "annealed aem": ("model=aem", "model.options={num_features: 16, total_steps: 12}", "data.balanced=true"),
    "asmil": ("model=asmil", "model.options={num_features: 16, decay: 0.5}"),
    "transmil": ("model=transmil", "model.options={num_features: 16}", "loss=ce"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, folder, monkeypatch, case):
    chosen = config(folder, *CASES[case])
    train(chosen, RunFolder(tmp_path / "whole"), quiet=True)
    made = []

    def step_then_signal(run, batch, look, step=loop.step):
        values = step(run, batch, look)
        made.append(run.state.step)
        if len(made) == len(run.batches) + 2:  # in the middle of the second epoch
            signal.raise_signal(signal.SIGTERM)
        return values

    with monkeypatch.context() as patch:
        patch.setattr(loop, "step", step_then_signal)
        with pytest.raises(Stopped, match="stopped in epoch 2 after step 2"):
            train(chosen, RunFolder(tmp_path / "stopped"), quiet=True)
    train(chosen, RunFolder(tmp_path / "stopped"), resume=True, quiet=True)
    whole, stopped = (
        read_tensors(tmp_path / name / "checkpoints" / "last.pt", "test")["task"] for name in ("whole", "stopped")
    )
    assert whole.keys() == stopped.keys()
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)
    assert any("memory" in name for name in whole) == ("memory" in case)


def test_equal_seeds_repeat_and_others_differ(tmp_path, folder):
    weights = []
    for number, seed in enumerate((0, 0, 1)):
        train(config(folder, f"seed={seed}", "epochs=1"), RunFolder(tmp_path / str(number)), quiet=True)
        weights.append(read_tensors(tmp_path / str(number) / "weights.safetensors", "test"))
    first, again, other = (list(found.values()) for found in weights)
    assert all(map(torch.equal, first, again))
    assert not all(map(torch.equal, first, other))


@pytest.mark.parametrize("loss", ["ncmi", "ce"])
def test_two_epochs_on_the_real_lung_slides_beat_chance(tmp_path, request, loss):
    place = request.getfixturevalue("real_bags")("tcga")
    chosen = make_config(
        QUICK,
        [f"data.folder={place}", f"loss={loss}", "batch_size=16", "test_batch_size=32", "model=abmil"],
    )
    summary = train(chosen, RunFolder(tmp_path), quiet=True)
    (own,) = summary["evaluation"]["decisions"]
    assert own["parts"]["test"]["top1"] > 0.7
