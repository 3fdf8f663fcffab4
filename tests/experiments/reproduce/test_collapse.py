"""The item on NSF and centring: runs that are looked at, numbers with known values, and words that follow from the rows."""

import math

import pytest
import torch
from training.quick_runs import QUICK, start

from ncmi.evaluation import LabelledFeatures
from ncmi.experiments.reproduce import collapse
from ncmi.experiments.reproduce.collapse import (
    ITEM,
    Setting,
    choose_samples,
    describe,
    follow_setting,
    measure,
    settings,
)
from ncmi.experiments.reproduce.followed_run import Look, follow
from ncmi.experiments.reproduce.item import SCALES, Place
from ncmi.experiments.reproduce.measured import MeasuredRows
from ncmi.training.config import make_config
from ncmi.training.monitor import Diverged
from ncmi.training.run_folder import RunFolder

CENTRED = Setting("harmonic", "nsf", "ema")


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "out", tmp_path / "runs", "smoke", say=lambda line: None)


@pytest.fixture(scope="module")
def rows():
    """Both centrings of one objective, really followed."""
    return [
        row
        for setting in (CENTRED, CENTRED._replace(center="none"))
        for row in follow_setting(setting, setting.config("smoke"))
    ]


def made_rows(**changes):
    """The last epoch of four settings, in which all claims show; ``changes`` by simplex and centre, as ``nsf_ema``."""
    found = []
    for simplex in ("nsf", "softmax"):
        for center in ("ema", "none"):
            setting = Setting("released", simplex, center)
            row = {
                **setting._asdict(), "title": setting.title, "epoch": 3, "epochs": 3, "rate": 0.1, "cmi": 0.1, "gamma": 0.5,
                "ncmi": 0.2, "top1": 0.9 if (simplex, center) == ("nsf", "ema") else 0.5,
                "feature_center": [1.0, 0.1 if center == "ema" else 1.0],
                "loss_center": [1.0, 0.0] if center == "ema" else None,
                "entries": 0.9 if simplex == "nsf" else 0.2, "classes": ["a", "b", "c"], "labels": [0, 1, 2],
                "points": [[0, 0], [1, 1], [2, 0], [3, 3], [4, 4]],
            }  # fmt: skip
            found.append({**row, **changes.get(f"{simplex}_{center}", {})})
    return found


def test_a_followed_run_is_the_run_that_training_does(tmp_path):
    start(tmp_path / "run")
    log = RunFolder(tmp_path / "run").rows()
    looks = list(follow(make_config(QUICK)))
    assert len(looks) == len(log) == 2
    for look, row in zip(looks, log, strict=True):
        for name in ("train_loss", "validation_top1", "validation_ncmi"):
            assert look.row[name] == row[name]
    assert looks[0].features.features.shape == (287, 16)
    assert looks[0].center is not None
    assert not torch.equal(looks[0].center, looks[1].center), "each look keeps its own centre"


@pytest.mark.parametrize("override", ["loss=ce", "data.validation=0"])
def test_what_cannot_be_followed_is_refused(override):
    with pytest.raises(ValueError, match=r"Set loss=ncmi and data\.validation"):
        next(follow(make_config(QUICK, [override])))


def test_rows_have_numbers_for_every_epoch_and_points_for_three(rows):
    assert [row["epoch"] for row in rows] == [1, 2, 3, 1, 2, 3]
    assert all(0 < row["entries"] <= 1 and 0 <= row["top1"] <= 1 for row in rows)
    assert [row["loss_center"] is None for row in rows] == [False] * 3 + [True] * 3
    for row in rows:
        assert len(row["points"]) == len(row["labels"]) + 2
        assert sorted(set(row["labels"])) == [0, 1, 2]


def test_numbers_of_features_that_are_constant_vectors(rows):
    look = next(follow(CENTRED.config("smoke")))
    width = look.features.num_features
    constant = LabelledFeatures(torch.full((4, width), 2.0), torch.arange(4))
    row = {f"validation_{name}": 0.0 for name in ("cmi", "gamma", "ncmi", "top1")}
    criterion = look.criterion
    criterion.loss.center.mean.zero_()
    found = describe(Look(row, constant, torch.zeros(width), look.class_names, criterion))
    assert found["feature_center"] == [pytest.approx(2 * math.sqrt(width), abs=1e-4), 0.0]
    assert found["loss_center"] == [0.0, 0.0]
    assert found["entries"] == 1.0


def test_samples_are_of_three_classes():
    features = LabelledFeatures(torch.randn(300, 4), torch.arange(300) % 10)
    part, classes = choose_samples(features)
    assert len(classes) == 3
    assert len(part) == 60
    assert choose_samples(features)[1] == classes


def test_a_run_that_diverges_keeps_its_epochs_and_its_sentence(place, monkeypatch):
    looks = list(follow(CENTRED.config("smoke")))[:1]

    def diverging(config):
        yield from looks
        raise Diverged("training diverged: the loss is nan in epoch 2, step 9.")

    monkeypatch.setattr(collapse, "follow", diverging)
    rows = follow_setting(CENTRED, CENTRED.config("smoke"))
    assert [row.get("failed") is None for row in rows] == [True, False]
    MeasuredRows(place.out).add(rows)
    text = ITEM.piece(place).markdown
    assert "the loss is nan in epoch 2" in text
    assert "0 of 4 settings came to their last epoch" in text


def test_measure_skips_settings_with_rows(place):
    for setting in settings("smoke"):
        MeasuredRows(place.out).add([{**setting._asdict(), "epoch": 3}])
    before = MeasuredRows(place.out).path.read_text()
    measure(place)
    assert MeasuredRows(place.out).path.read_text() == before


def test_piece_of_real_rows_has_three_pictures(place, rows):
    assert "Nothing is measured yet" in ITEM.piece(place).markdown
    MeasuredRows(place.out).add(rows)
    piece = ITEM.piece(place)
    assert set(piece.figures) == {"curves", "clusters", "centers"}
    assert "2 of 4 settings came to their last epoch" in piece.markdown
    for name in piece.figures:
        assert f"({name}.svg)" in piece.markdown


def test_piece_says_which_claims_show(place):
    MeasuredRows(place.out).add(made_rows())
    text = ITEM.piece(place).markdown
    assert "NSF with centring is the most accurate of the four, as the paper claims (90.00 %)" in text
    assert "near the constant direction shows (NSF 6° with and 45° without" in text
    assert "fewer entries than those of NSF shows: 20.0 % of the entries against 90.0 %" in text


def test_piece_says_which_claims_do_not_show(place):
    better = {"top1": 0.95, "feature_center": [1.0, 0.1], "entries": 0.99}
    MeasuredRows(place.out).add(made_rows(softmax_none=better))
    text = ITEM.piece(place).markdown
    assert "does not show here: softmax, without centring is, with 95.00 % against 90.00 %" in text
    assert "near the constant direction shows for NSF alone" in text
    assert "fewer entries than those of NSF does not show" in text


@pytest.mark.parametrize("scale", SCALES)
def test_every_setting_has_a_config(scale):
    for setting in settings(scale):
        config = setting.config(scale)
        assert config.data.validation > 0
        assert config.loss.options["simplex"] == setting.simplex
        assert ("centroids" in config.loss.options) == (setting.objective == "released")


def test_needs_say_what_is_trained():
    assert ITEM.needs("smoke") == ["Its 8 runs of 3 epochs are trained by the measurements, one after the other."]
    assert "4 runs of 200 epochs" in ITEM.needs("full")[0]
