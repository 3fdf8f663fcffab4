"""The item on accuracy and NCMI: features of published networks and of runs, halves that stay apart, words by rule."""

import math

import oracle
import pytest
import torch
from training.made_data import make_cifar10
from training.quick_runs import QUICK, start

from ncmi.evaluation import LabelledFeatures
from ncmi.experiments.reproduce import accuracy_vs_ncmi, penultimate
from ncmi.experiments.reproduce.accuracy_vs_ncmi import CIFAR10, ITEM, correlation, measure
from ncmi.experiments.reproduce.item import SCALES, Place
from ncmi.experiments.reproduce.measured import MeasuredRows
from ncmi.experiments.reproduce.penultimate import family_features, run_features, separation
from ncmi.models import create_model


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "out", tmp_path / "runs", "smoke", say=lambda line: None)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A place with CIFAR-10 of random images and resnet20 with random weights."""
    make_cifar10(tmp_path / "data" / "cifar-10-batches-bin")
    (tmp_path / "data" / "cifar10_resnets").mkdir()
    torch.save(
        create_model("resnet20", num_classes=10).state_dict(), tmp_path / "data" / "cifar10_resnets" / "resnet20.pt"
    )
    monkeypatch.setenv("NCMI_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))  # with a cache that is empty
    load = penultimate.load_data
    monkeypatch.setattr(penultimate, "load_data", lambda name: load(name, check=False))


def made_row(ncmi, accuracy, label="1 epoch", network="mlp", family="own runs"):
    values = {"cmi": 0.1, "gamma": 0.1 / ncmi, "ncmi": ncmi, "accuracy": accuracy}
    about = {"family": family, "network": network, "label": label, "data": "digits", "samples": 180, "epochs": 1}
    return {**about, "softmax": values, "method": values}


def test_separation_is_the_equations_on_one_half_by_means_of_the_other():
    targets = torch.arange(24) % 3
    features = torch.randn(3, 5)[targets] + 0.5 * torch.randn(24, 5)
    found = separation(LabelledFeatures(features, targets))
    halves = penultimate.split_off(targets, 0.5, 0)
    half, other = (features[rows].double().softmax(dim=1) for rows in (halves.held_out, halves.kept))
    mass, other_mass = (oracle.one_hot(targets[rows], 3) for rows in (halves.held_out, halves.kept))
    expected = oracle.cmi(half, mass) / oracle.gamma(half, mass)
    assert found["softmax"]["ncmi"] == pytest.approx(float(expected), rel=1e-9)
    means = oracle.class_means(other, other_mass)
    right = [
        int(torch.stack([oracle.kl(p, s) for s in means]).argmin()) == int(label)
        for p, label in zip(half, targets[halves.held_out], strict=True)
    ]
    assert found["softmax"]["accuracy"] == pytest.approx(sum(right) / len(right))
    assert found["samples"] == 12


def test_a_family_gives_features_of_the_test_images(data):
    features = family_features(CIFAR10, "resnet20")
    assert features.features.shape == (20, 64)
    assert features.targets.tolist() == [index % 10 for index in range(20)]


def test_missing_weights_are_named(data):
    with pytest.raises(FileNotFoundError, match=r"resnet56.pt is in none of .* in the folder cifar10_resnets"):
        family_features(CIFAR10, "resnet56")


def test_networks_without_weights_are_left_out(data, tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(accuracy_vs_ncmi, "comparisons", lambda scale: {})
    place = Place(tmp_path / "out", tmp_path / "runs", "small", say=lines.append)
    measure(place)
    assert [row["network"] for row in MeasuredRows(place.out).rows()] == ["resnet20"]
    assert sum("there are no weights" in line for line in lines) == 3


def test_runs_are_measured_once_and_only_when_finished(place, monkeypatch):
    parts = {name: part for name, part in ITEM.comparisons("smoke").items() if name == "epochs-1"}
    monkeypatch.setattr(accuracy_vs_ncmi, "comparisons", lambda scale: parts)
    measure(place)
    assert MeasuredRows(place.out).rows() == []
    comparison = parts["epochs-1"]
    cell = accuracy_vs_ncmi.Cell(comparison.groups[0], comparison.rates[0], 0)
    folder = place.runs / "epochs-1" / comparison.cell_name(cell)
    start(folder, "epochs=1", values={**QUICK, "loss": {"name": "ce"}})
    measure(place)
    measure(place)
    (row,) = MeasuredRows(place.out).rows()
    assert (row["network"], row["epochs"], row["samples"]) == ("mlp", 1, 180)
    assert row["softmax"]["accuracy"] > 0.1
    assert run_features(folder).features.shape == (360, 16)


@pytest.mark.parametrize(("values", "word"), [((0.9, 0.8, 0.7), "shows"), ((0.7, 0.9, 0.7), "does not show")])
def test_piece_says_whether_the_relation_shows(place, values, word):
    rows = [made_row(ncmi, value) for ncmi, value in zip((0.1, 0.2, 0.3), values, strict=True)]
    MeasuredRows(place.out).add(rows)
    piece = ITEM.piece(place)
    assert f"softmax: the paper's inverse linear relation {word} (r = " in piece.markdown
    assert "beyond −0.997" in piece.markdown
    assert list(piece.figures) == ["accuracy-vs-ncmi"]


def test_correlation_needs_three_networks_that_differ(place):
    assert correlation([made_row(0.1, 0.9), made_row(0.2, 0.8)], "softmax") is None
    assert correlation([made_row(0.1, 0.9)] * 3, "softmax") is None
    found = correlation([made_row(0.1, 0.9), made_row(0.2, 0.8), made_row(0.3, 0.7)], "softmax")
    assert found is not None
    assert math.isclose(found, -1)
    assert "Nothing is measured yet" in ITEM.piece(place).markdown


@pytest.mark.parametrize("scale", SCALES)
def test_trainings_of_every_scale_can_be_made(scale):
    for name, comparison in ITEM.comparisons(scale).items():
        assert name == f"epochs-{comparison.base.epochs}"
        assert comparison.base.decisions == ["own"]
    assert len(ITEM.needs(scale)) == SCALES.index(scale)
