"""Classifiers of trained runs: the numbers that the run's own evaluation found."""

import pytest
import torch
from PIL import Image

from ncmi.data import load_data
from ncmi.export import classifier_of
from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.processes import join_processes
from ncmi.training.run import load_task
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup

QUICK = {
    "epochs": 2,
    "batch_size": 64,
    "data": {"name": "digits", "validation": 0.2, "train_size": 256},
    "model": {"name": "mlp", "options": {"hidden": [32, 16]}},
}


def trained(tmp_path, *overrides):
    """The classifier of a quick run, its description, and the run's evaluation."""
    folder = RunFolder(tmp_path / "run")
    config = make_config(QUICK, overrides)
    summary = train(config, folder, quiet=True)
    with join_processes("cpu") as processes:
        setup = Setup(config, processes)
        classifier, description = classifier_of(setup, load_task(setup, folder))
    rows = {row["name"]: row["parts"]["test"] for row in summary["evaluation"]["decisions"]}
    return classifier, description, rows


@pytest.mark.parametrize(
    ("overrides", "decision", "name", "source"),
    [
        (["decisions=[own]"], "learned q", "own", "fitted on the validation part, 287 samples"),
        (["decisions=[own]", "data.validation=0"], "learned q", "own", "fitted on the train part, 256 samples"),
        (
            ["decisions=[own]", "loss=ce", "engine.precision=float64"],
            "head",
            "own",
            "not needed: the scores are logits",
        ),
        (["decisions=[linear probe]", "loss=supcon", "data.crop=1"], "linear probe", "linear probe", "not needed"),
    ],
    ids=["ncmi", "no validation part", "ce in float64", "supcon"],
)
def test_the_probabilities_are_those_of_the_evaluation(tmp_path, overrides, decision, name, source):
    classifier, description, rows = trained(tmp_path, *overrides)
    assert (description.decision, description.takes, description.shape) == (decision, "images", (1, 8, 8))
    assert description.classes == tuple(map(str, range(10)))
    assert description.temperature_source.startswith(source)
    assert description.crop == "none"
    test = load_data("digits").test
    scores, probabilities = classifier(test.images)
    own = probabilities.double().gather(1, test.targets.unsqueeze(1))
    assert (scores.argmax(dim=1) == test.targets).double().mean().item() == pytest.approx(rows[name]["top1"])
    assert -own.log().mean().item() == pytest.approx(rows[name]["nll"], rel=1e-4)


def test_photographs_are_cropped_as_in_evaluation(tmp_path):
    for part in ("train", "val"):
        for label, name in enumerate(("dark", "light")):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(4):
                Image.new("RGB", (30, 20), (200 * label + number,) * 3).save(tmp_path / part / name / f"{number}.png")
    config = make_config(
        {"data": {"name": f"folder:{tmp_path}", "test_resolution": 16, "workers": 0}, "model": "resnet8_slim"}
    )
    with join_processes("cpu") as processes:
        setup = Setup(config, processes)
        classifier, description = classifier_of(setup, setup.make_task().eval())
    assert (description.shape, description.crop, description.classes) == ((3, 16, 16), "center", ("dark", "light"))
    assert classifier(torch.zeros(2, 3, 16, 16, dtype=torch.uint8))[1].shape == (2, 2)
