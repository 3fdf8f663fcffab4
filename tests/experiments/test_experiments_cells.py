"""From a comparison to configs: equal budgets, fingerprints, names, and the sentences for what cannot work."""

import json

import pytest
from made_up_rows import RECIPE

from ncmi.baselines import BASELINES
from ncmi.criteria import create_criterion, list_criteria
from ncmi.experiments.cells import Cell, Comparison, fingerprint
from ncmi.experiments.losses import loss_notes, loss_overrides, loss_views, resolved_options, split_variant
from ncmi.recipes import LOSS_OPTIONS, list_recipes
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


def test_variants_of_a_loss_are_other_cells_with_its_options(recipe):
    variants = ["ncmi", "ncmi:objective=theorem1:center=batch", "focal:gamma=3", "cmic:cmi_weight=0.2"]
    comparison = Comparison(recipe, {"loss": variants}, 1, [0.1])
    losses = [comparison.config(Cell({"loss": variant}, 0.1, 0)).loss for variant in variants]
    assert losses[1].options == {"temperature": 0.5, "objective": "theorem1", "center": "batch"}
    assert (losses[2].name, losses[2].options) == ("focal", {"gamma": 3})
    assert losses[3].options == {**LOSS_OPTIONS["cmic"], "cmi_weight": 0.2}
    assert len({comparison.cell_name(Cell({"loss": variant}, 0.1, 0)) for variant in variants}) == 4


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        ("ncmy:objective=theorem1", "a loss must be one of .* Did you mean 'ncmi'"),
        ("ncmi:objectve=theorem1", "an option of 'ncmi' must be one of .* Did you mean 'objective'"),
        ("ncmi:objective", "written as ncmi:option=value"),
        ("ncmi:objective=", "written as ncmi:option=value"),
    ],
)
def test_a_variant_that_cannot_be_gets_a_sentence(loss, sentence):
    with pytest.raises(ValueError, match=sentence):
        split_variant(loss)


def test_losses_with_required_options_get_them_and_a_note(recipe):
    comparison = Comparison(recipe, {"loss": list_criteria()}, 1)
    for group in comparison.groups:
        name = group["loss"]
        options = comparison.config(Cell(group, 0.1, 0)).loss.options
        assert loss_views(name) == create_criterion(name, 10, 8, **options).views
        assert ("a guess; its paper" in " ".join(loss_notes(name, comparison.base))) == (name in LOSS_OPTIONS)
        create_criterion(name, 10, 8, **resolved_options(name, options))  # defaults written out are still its options
    assert comparison.config(Cell({"loss": "cmic"}, 0.1, 0)).loss.options == LOSS_OPTIONS["cmic"]


def test_two_views_get_half_the_epochs():
    base = make_config({"epochs": 5, "schedule": {"name": "step", "milestones": [2.5, 4], "warmup_epochs": 1}})
    config = make_config(base.to_dict(), loss_overrides("supcon", base))
    assert config.epochs == 3
    assert config.schedule.milestones == pytest.approx([1.5, 2.4])
    assert config.schedule.warmup_epochs == pytest.approx(0.6)
    assert loss_notes("supcon", base) == [
        "supcon sees 2 views of each image in an epoch and gets 3 of 5 epochs: 1.20 times the images of the others."
    ]
    assert "gets 4 of 8 epochs: equal images seen." in loss_notes("supcon", Config(epochs=8))[0]


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


def test_cells_of_other_factors_are_other_cells(recipe):
    comparison = Comparison(recipe, {"model": ["mlp", "resnet8_slim"], "loss": ["ce"]}, 1, [0.1])
    cells = [Cell(group, rate, seed) for group in comparison.groups for rate in (0.1, 0.1000001) for seed in (0, 1)]
    assert len({comparison.fingerprint(cell) for cell in cells}) == len(cells)
    assert [comparison.config(cell).optimizer.lr for cell in cells[:3]] == [0.1, 0.1, 0.1000001]


@pytest.mark.skipif("wsi/tcga-lung" not in list_recipes(), reason="no recipe for slides here")
def test_seeds_of_data_with_several_splits_take_one_each():
    comparison = Comparison("wsi/tcga-lung", {"model": ["abmil", "transmil"], "loss": ["ce", "ncmi"]}, 5)
    config = comparison.config(Cell({"model": "transmil", "loss": "ncmi"}, 1e-3, 4))
    assert (config.model.name, config.seed, config.data.fold) == ("transmil", 4, 4)
    with pytest.raises(ValueError, match=r"it sets data.fold itself, from 0 on; got --set data.fold=2. Use --seeds"):
        Comparison("wsi/tcga-lung", {"loss": ["ce"]}, 5, overrides=["data.fold=2"])


def test_fingerprints_see_every_setting_and_forgive_new_ones():
    values = Config().to_dict()
    own = fingerprint(values, {})
    assert own == fingerprint(json.loads(json.dumps(values)), {})
    assert own != fingerprint({**values, "batch_size": 127}, {})
    assert own != fingerprint(values, {"exponent": 2})
    # A row from before a setting existed, and one with a setting that is gone.
    older = {key: value for key, value in values.items() if key != "batch_size"}
    assert own == fingerprint(older, {})
    assert own != fingerprint({**values, "gone": 1}, {})


def test_fingerprints_leave_out_what_changes_no_number():
    inert = [
        "description=x",
        "scale=smoke",
        "test_batch_size=7",
        "data.workers=0",
        "decisions=[own]",
        "trackers=[wandb]",
        "checkpoint_minutes=1",
    ]
    assert fingerprint(make_config({}, inert).to_dict(), {}) == fingerprint({}, {})


def test_a_changed_default_of_a_loss_makes_its_rows_stale(monkeypatch):
    values = make_config({}, ["loss=focal"]).to_dict()
    written_out = resolved_options("focal", {})
    before, other = fingerprint(values, {}), fingerprint({}, {})
    assert before == fingerprint(values, written_out)
    monkeypatch.setitem(BASELINES["focal"].__init__.__kwdefaults__, "gamma", 3.0)
    assert fingerprint(values, written_out) == before, "the row is what it was"
    assert fingerprint(values, {}) != before, "and a cell of today is another"
    assert fingerprint({}, {}) == other
    # An option that is new leaves the row valid; a loss that is gone can still be read.
    del written_out["gamma"]
    assert fingerprint(values, written_out) == fingerprint(values, {})
    fingerprint({**values, "loss": {"name": "gone", "options": {}}}, {"gamma": 1.0})


def test_comparisons_join_where_all_else_is_equal(recipe):
    first = Comparison(recipe, {"loss": ["ce", "ncmi"]}, 3, [0.1])
    assert first.joined(Comparison(recipe, {"loss": ["focal", "ce"]}, 2, [0.1])) == Comparison(
        recipe, {"loss": ["ce", "ncmi", "focal"]}, 3, [0.1]
    )
    chosen = first.joined(Comparison(recipe, {"loss": ["ce"]}, 2, [0.1], rate_seeds=2))
    assert (chosen.seeds, chosen.rate_seeds) == (3, 2)
    assert chosen.joined(first) == chosen
    for settings in (
        {"rates": [0.3]},
        {"overrides": ["epochs=2"]},
        {"factors": {"model": ["mlp"], "loss": ["ce"]}},
    ):
        other = Comparison(**{"recipe": recipe, "factors": {"loss": ["ce"]}, "seeds": 3, "rates": [0.1], **settings})
        with pytest.raises(
            ValueError, match=f"holds another comparison: {next(iter(settings))} .* Name another folder with --out"
        ):
            first.joined(other)


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
        ({"seeds": 2, "rate_seeds": 3}, "--rate-seeds must lie between 1 and the number of seeds, 2; got 3"),
        ({"rate_seeds": 0}, "--rate-seeds must lie between 1 and the number of seeds"),
        ({"overrides": ["seed=3"]}, "sets seed itself, from 0 on; got --set seed=3. Use --seeds"),
        ({"overrides": ["epoch=3"]}, "epoch is no setting"),
    ],
)
def test_what_cannot_work_gets_a_sentence(recipe, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Comparison(**{"recipe": recipe, "factors": {"loss": ["ce"]}, "seeds": 1, **settings})
