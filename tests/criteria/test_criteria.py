"""Criteria by name: their options, precision, ignored samples, and the start from class means."""

import copy

import pytest
import torch

from ncmi.criteria import create_criterion, list_criteria
from ncmi.recipes import LOSS_OPTIONS

C = 5
SAMPLES = {"weight": [1, 2, 1, 1, 1], "ignore_index": 9}
OPTIONS = {
    "ncmi": {"temperature": 0.3, "prior": "uniform"},
    "ce": SAMPLES,
    "label-smoothing": {"smoothing": 0.2, **SAMPLES},
    "focal": {"gamma": 1.0, "alpha": [1, 2, 1, 1, 1], "ignore_index": 9},
    "poly1": {"epsilon": 1.0, **SAMPLES},
    "squentropy": SAMPLES,
    "square": {"target_value": 2.0, **SAMPLES},
    "anticlass": {"gamma": 0.1, **SAMPLES},
    "supcon": {"temperature": 0.2, "ignore_index": 9},
    "opl": {"gamma": 0.1, "ignore_index": 9},
    "cmic": {"cmi_weight": 0.1, "separation_weight": 0.1, "momentum": 0.9, "ignore_index": 9},
    "center": {"center_lr": 0.1, **SAMPLES},
    "contrastive-center": {"delta": 2.0, **SAMPLES},
}


def test_unknown_losses_and_options_are_refused():
    with pytest.raises(ValueError, match=r"loss: name must be one of 'ncmi', 'ce'.*Did you mean 'ncmi'"):
        create_criterion("nmci", C, 8)
    with pytest.raises(ValueError, match=r"an option of 'ncmi' must be one of .*Did you mean 'temperature'"):
        create_criterion("ncmi", C, 8, temprature=1)
    with pytest.raises(ValueError, match=r"'cmic' needs the option cmi_weight; set loss.options.cmi_weight"):
        create_criterion("cmic", C, 8)
    with pytest.raises(ValueError, match="exponent belongs to the objectives 'rivals' and 'harmonic'"):
        create_criterion("ncmi", C, 8, objective="theorem1", exponent=3)


@pytest.mark.parametrize("name", list_criteria())
def test_options_of_a_loss_are_taken_and_others_refused(name):
    loss = create_criterion(name, C, 8, **OPTIONS[name]).loss
    if "weight" in OPTIONS[name]:
        assert loss.weighting.weight.tolist() == [1, 2, 1, 1, 1]
    assert name == "ncmi" or loss.weighting.ignore_index == 9
    with pytest.raises(ValueError, match=f"one number a batch, so '{name}' takes the mean; leave out loss.options.red"):
        create_criterion(name, C, 8, **OPTIONS[name], reduction="sum")
    for wrong in ("settings", "temperatur"):
        with pytest.raises(ValueError, match=f"loss: an option of '{name}' must be one of .*got '{wrong}'"):
            create_criterion(name, C, 8, **{**OPTIONS[name], wrong: 1})


@pytest.mark.parametrize("name", ["ce", "center", "supcon"])
def test_autocast_ends_at_the_features(name):
    criterion = create_criterion(name, C, 8)
    untouched = copy.deepcopy(criterion)
    features, targets = torch.randn(12, 8).half().requires_grad_(), torch.arange(12) % C
    with torch.autocast("cpu", torch.float16):
        loss, scores = criterion(features, targets), criterion.scores(features)
    assert loss.dtype == scores.dtype == torch.float32
    torch.testing.assert_close(scores, criterion.scores(features.float()), rtol=0, atol=0)
    if name != "supcon":  # its projection is a part of the network
        torch.testing.assert_close(loss, untouched(features.float(), targets), rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in list_criteria() if name != "ncmi"])
def test_ignored_samples_leave_no_trace(name):
    options = LOSS_OPTIONS.get(name, {})
    one = create_criterion(name, C, 8, **options)
    other = copy.deepcopy(one)
    features, targets = torch.randn(12, *((2,) if one.views > 1 else ()), 8), torch.arange(12) % C
    targets[[1, 7]] = -100
    kept = targets >= 0
    torch.testing.assert_close(one(features, targets), other(features[kept], targets[kept]))
    torch.testing.assert_close(one.state_dict(), other.state_dict())


def test_options_of_ncmi_reach_the_loss():
    criterion = create_criterion(
        "ncmi",
        C,
        8,
        exponent=6,
        temperature=0.3,
        centroids="ema",
        center="batch",
        center_momentum=0.5,
        simplex="softmax",
    )
    loss = criterion.loss
    assert loss.objective.name == "rivals(exponent=6)"
    harmonic = create_criterion("ncmi", C, 8, objective="harmonic", exponent=6)
    assert harmonic.loss.objective.name == "harmonic(exponent=6)"
    assert (loss.temperature, loss.simplex, loss.center.momentum) == (0.3, "softmax", 0.5)
    assert type(loss.center).__name__ == "BatchCenter"
    assert criterion.decision == "tracked means"
    assert create_criterion("ncmi", C, 8, preset="released").decision == "fixed q"


def test_class_means_start_is_asked_for_and_taken():
    criterion = create_criterion("ncmi", 2, 4, centroids_start="class_means")
    assert criterion.needs_start
    features, targets = torch.randn(8, 4), torch.arange(8) % 2
    criterion.start(features, targets)
    assert bool(criterion.scores(features).isfinite().all())
    assert not create_criterion("ncmi", 2, 4).needs_start
    assert not create_criterion("ce", 2, 4).needs_start
