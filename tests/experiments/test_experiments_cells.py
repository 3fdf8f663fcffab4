"""From a comparison to configs: equal budgets, fingerprints, names, and the sentences for what cannot work."""

import json

import pytest
from made_up_rows import RECIPE

from ncmi.criteria import create_criterion, list_criteria
from ncmi.experiments.cells import Cell, Comparison, fingerprint
from ncmi.experiments.losses import loss_overrides, loss_settings
from ncmi.recipes import LOSS_OPTIONS
from ncmi.training.config import Config, make_config


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps({**RECIPE, "loss": {"name": "ncmi", "options": {"temperature": 0.5}}}))
    return str(path)


def test_cells_differ_in_loss_rate_and_seed_alone(recipe):
    comparison = Comparison(recipe, {"loss": ["ce", "focal"]}, 2, [0.1], ["epochs=3"])
    first, second = (comparison.config(Cell({"loss": loss}, 0.3, 1)).to_dict() for loss in ("ce", "focal"))
    assert first.pop("loss") == {"name": "ce", "options": {}}
    assert second.pop("loss") == {"name": "focal", "options": {}}
    assert first == second
    assert (first["epochs"], first["seed"], first["optimizer"]["lr"]) == (3, 1, 0.3)


def test_the_recipes_own_loss_keeps_its_options(recipe):
    comparison = Comparison(recipe, {"loss": ["ncmi"]}, 1, [0.1], ["loss.options.objective=theorem1"])
    assert comparison.config(Cell({"loss": "ncmi"}, 0.1, 0)).loss.options == {
        "temperature": 0.5,
        "objective": "theorem1",
    }
    assert comparison.config(Cell({"loss": "ce"}, 0.1, 0)).loss.options == {}


def test_losses_with_required_options_get_them_and_a_note(recipe):
    comparison = Comparison(recipe, {"loss": list_criteria()}, 1)
    for group in comparison.groups:
        name = group["loss"]
        options = comparison.config(Cell(group, 0.1, 0)).loss.options
        criterion = create_criterion(name, 10, 8, **options)
        assert loss_settings(name).views == criterion.views, "the table of losses is out of step"
        assert ("a guess" in loss_settings(name).note) == (name in LOSS_OPTIONS)
    assert comparison.config(Cell({"loss": "cmic"}, 0.1, 0)).loss.options == LOSS_OPTIONS["cmic"]


def test_two_views_get_half_the_epochs():
    base = make_config({"epochs": 5, "schedule": {"name": "step", "milestones": [2.5, 4], "warmup_epochs": 1}})
    config = make_config(base.to_dict(), loss_overrides("supcon", base))
    assert config.epochs == 3
    assert config.schedule.milestones == pytest.approx([1.5, 2.4])
    assert config.schedule.warmup_epochs == pytest.approx(0.6)


def test_a_second_factor_and_other_seed_keys_need_no_more(recipe):
    comparison = Comparison(
        recipe, {"model": ["mlp", "resnet8_slim"], "loss": ["ce"]}, 1, [0.1], seed_keys=("seed", "data.split_seed")
    )
    assert comparison.groups == [{"model": "mlp", "loss": "ce"}, {"model": "resnet8_slim", "loss": "ce"}]
    own, other = (comparison.config(Cell(group, 0.1, 4)) for group in comparison.groups)
    assert own.model.options == {"hidden": [8]}
    assert (other.model.name, other.model.options) == ("resnet8_slim", {})
    assert (own.seed, own.data.split_seed) == (4, 4)
    assert Comparison.from_dict(json.loads(json.dumps(comparison.to_dict()))) == comparison


def test_fingerprints_see_every_setting_and_forgive_new_ones():
    values = Config().to_dict()
    assert fingerprint(values) == fingerprint(json.loads(json.dumps(values)))
    assert fingerprint({**values, "batch_size": 127}) != fingerprint(values)
    assert fingerprint({**values, "loss": {"name": "ncmi", "options": {"exponent": 2}}}) != fingerprint(values)
    # A row from before a setting existed, and one with a setting that is gone.
    older = {key: value for key, value in values.items() if key != "checkpoint_minutes"}
    assert fingerprint(older) == fingerprint(values)
    assert fingerprint({**values, "gone": 1}) != fingerprint(values)


def test_names_are_readable_and_differ_with_the_config(recipe):
    names = {
        Comparison(recipe, {"loss": ["ce"]}, 1, [0.1], overrides).cell_name(Cell({"loss": "ce"}, 0.1, 0))
        for overrides in ([], ["epochs=2"])
    }
    assert len(names) == 2
    assert all(name.startswith("ce-rate0.1-seed0-") for name in names)
    odd = Cell({"model": "timm:a/b", "loss": "ce"}, 0.1, 0)
    assert Comparison(recipe, {}, 1).cell_name(odd).startswith("timm-a-b-ce-rate0.1-seed0-")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"seeds": 0}, "--seeds must be at least 1; got 0"),
        ({"rates": [0.1, -1.0]}, "--rates must be positive and finite; got -1"),
        ({"overrides": ["seed=3"]}, "sets seed itself, from 0 on; got --set seed=3. Use --seeds"),
        ({"overrides": ["epoch=3"]}, "epoch is no setting"),
    ],
)
def test_what_cannot_work_gets_a_sentence(recipe, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Comparison(**{"recipe": recipe, "factors": {"loss": ["ce"]}, "seeds": 1, **settings})
