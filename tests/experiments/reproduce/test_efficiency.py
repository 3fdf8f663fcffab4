"""The item on time and memory: processes that measure, ratios within a round, and words that follow from the rows."""

import pytest

from ncmi.experiments.reproduce.efficiency import (
    HARMONIC,
    ITEM,
    LOSSES,
    RELEASED,
    SETTINGS,
    Setting,
    measure,
    memory_of,
    time_ratios,
)
from ncmi.experiments.reproduce.epoch_cost import cost, cost_in_process
from ncmi.experiments.reproduce.item import SCALES, Place
from ncmi.experiments.reproduce.measured import MeasuredRows

SMOKE = SETTINGS["smoke"][0]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "out", tmp_path / "runs", "smoke", say=lambda line: None)


def made_rows(seconds, size=None, recipe="digits"):
    """Rows with these seconds an image by loss, one a round, and these bytes."""
    size = dict.fromkeys(LOSSES, 100) if size is None else size
    common = {"recipe": recipe, "model": "mlp", "data": "digits", "timed_steps": 3, "batch_size": 64}
    return [
        {**common, "loss": loss, "round": number, "seconds_per_image": value}
        | ({} if number else {"tensor_bytes": size[loss]})
        for loss, values in seconds.items()
        for number, value in enumerate(values)
    ]


def test_memory_counts_weights_gradients_momentum_and_activations():
    config = SMOKE.config("ce")
    found = cost(config, memory=True)
    # 64 → 128 → 64 and a head of 10 classes; the optimiser's momentum and the gradients are as large again.
    weights = 4 * (64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10)
    assert found["tensor_bytes"] > 3 * weights
    assert found["tensor_bytes"] < 10 * weights
    assert found["timed_steps"] == 3
    assert found["seconds_per_image"] > 0
    assert "tensor_bytes" not in cost(config, memory=False)


def test_memory_of_a_step_is_the_same_each_time():
    assert len({cost(SMOKE.config("ncmi"), memory=True)["tensor_bytes"] for _ in range(2)}) == 1


def test_two_views_need_more_memory():
    assert cost(SMOKE.config("supcon"), True)["tensor_bytes"] > 1.5 * cost(SMOKE.config("ce"), True)["tensor_bytes"]


def test_one_step_is_not_enough():
    with pytest.raises(ValueError, match="must have two steps"):
        cost(Setting("digits", timed=0, rounds=1).config("ce"), memory=False)


def test_a_process_that_fails_says_why():
    with pytest.raises(ValueError, match=r"mlp with ce failed: .*must have two steps"):
        cost_in_process(Setting("digits", timed=0, rounds=1).config("ce"), memory=False)


def test_ratios_are_those_within_a_round():
    rows = made_rows({"ce": [1.0, 2.0], "ncmi": [1.5, 2.0]}, {"ce": 100, "ncmi": 120})
    assert time_ratios(rows, "ncmi") == [1.5, 1.0]
    assert memory_of(rows, "ncmi") == 120


def test_piece_says_which_claims_show(place):
    assert "Nothing is measured yet" in ITEM.piece(place).markdown
    seconds = {"ce": [1.0], "focal": [1.0], "supcon": [2.0], HARMONIC: [1.02], RELEASED: [2.5]}
    MeasuredRows(place.out).add(made_rows(seconds, {**dict.fromkeys(LOSSES, 100), "supcon": 200}))
    text = ITEM.piece(place).markdown
    assert "NCMI, harmonic: on par with CE (within 10 % in time and memory), as the paper claims, shows here" in text
    assert "NCMI, released: on par with CE (within 10 % in time and memory), as the paper claims, does not show" in text
    assert "less time and memory than SupCon does not show: 125 % of its time and 50 % of its memory" in text
    assert "68 % and 60 % in the paper" in text
    assert "CE 399 s and 102.29 Gb" in text


def test_measure_does_only_what_no_row_has(place):
    MeasuredRows(place.out).add(made_rows({loss: [1.0] for loss in LOSSES}))
    before = MeasuredRows(place.out).path.read_text()
    measure(place)
    assert MeasuredRows(place.out).path.read_text() == before


@pytest.mark.parametrize("scale", SCALES)
def test_every_loss_has_a_config(scale):
    for setting in SETTINGS[scale]:
        for loss in LOSSES:
            config = setting.config(loss)
            assert config.epochs == 1
            assert config.loss.name == loss.partition(":")[0]
    assert SETTINGS["small"][1].config(RELEASED).loss.options == {"preset": "released"}
    assert len(ITEM.needs("full")) == 2


@pytest.mark.parametrize("scale", SCALES)
def test_one_epoch_has_a_schedule_that_fits_it(scale):
    # Recipes of many epochs fall at milestones that a run of one epoch does not reach, and are refused then.
    assert {setting.config("ce").schedule.name for setting in SETTINGS[scale]} == {"constant"}
