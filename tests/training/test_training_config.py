"""Configs: typed, overridden by keys, and refused with a sentence."""

import pytest

from ncmi.training.config import Config, LossConfig, make_config


def test_defaults_are_the_dataclass():
    assert make_config({}) == Config()


def test_a_config_survives_the_way_through_plain_values():
    config = make_config(
        {"epochs": 3, "loss": {"name": "ncmi", "options": {"temperature": 0.1}}, "schedule": {"milestones": [1, 2]}},
        ["optimizer.clip_norm=1.5", "data.options.labels=coarse", "trackers=[tensorboard]"],
    )
    assert config.schedule.milestones == [1.0, 2.0]
    assert config.optimizer.clip_norm == 1.5
    assert config.data.options == {"labels": "coarse"}
    assert make_config(config.to_dict()) == config


def test_a_bare_name_replaces_the_loss_and_its_options():
    config = make_config({"loss": {"name": "ncmi", "options": {"temperature": 0.1}}}, ["loss=ce"])
    assert config.loss == LossConfig("ce", {})


def test_a_bare_name_keeps_the_rest_of_a_section_without_options():
    config = make_config({"optimizer": {"name": "sgd", "lr": 0.3}}, ["optimizer=adamw", "data=cifar10"])
    assert (config.optimizer.name, config.optimizer.lr, config.data.name) == ("adamw", 0.3, "cifar10")


def test_overrides_come_in_order_and_reach_below_a_new_loss():
    config = make_config({}, ["loss=ncmi", "loss.options.objective=theorem1", "optimizer.lr=1", "optimizer.lr=2"])
    assert config.loss.options == {"objective": "theorem1"}
    assert config.optimizer.lr == 2.0


def test_the_order_of_overrides_does_not_matter_for_names():
    config = make_config({}, ["loss.options.temperature=0.1", "model.init_from=a.pt", "loss=ncmi", "model=resnet18"])
    assert config.loss.options == {"temperature": 0.1}
    assert config.model.init_from == "a.pt"


def test_a_recipe_may_use_bare_names():
    config = make_config({"loss": "cmic", "data": "cifar10"}, ["data=cifar100"])
    assert config.loss.options == {"cmi_weight": 0.1, "separation_weight": 0.1}
    assert config.data.name == "cifar100"


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", "0.001", "1E-3"])
def test_numbers_are_numbers_however_they_are_written(text):
    assert make_config({}, [f"optimizer.weight_decay={text}"]).optimizer.weight_decay == 1e-3
    assert make_config({"optimizer": {"weight_decay": text}}).optimizer.weight_decay == 1e-3


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["epochs"], r"--set: needs key=value"),
        (["=3"], r"--set: needs key=value"),
        (["epochs=[1"], r"--set: the value of 'epochs' cannot be read as YAML"),
        (["epochs.more=1", "epochs=2", "epochs.less=1"], r"goes below 'epochs'"),
        (["epoch=3"], r"epoch is no setting; .* Did you mean epochs\?"),
        (["optimizer.learning_rate=3"], r"optimizer.learning_rate is no setting of optimizer"),
        (["engine=fast"], r"engine is a section with settings of its own; got 'fast'"),
        (["epochs=many"], r"epochs must be int; got many"),
        (["schedule=triangle"], r"schedule.name must be one of \['constant'.*; got triangle"),
        (["epochs=0"], r"epochs must be positive; got 0"),
        (["optimizer.weight_decay=-1"], r"optimizer.weight_decay must be 0 or more; got -1"),
        (["engine.ema=1"], r"engine.ema must lie in \[0, 1\); got 1"),
        (["decisions=[own, guess]"], r"decisions"),
    ],
)
def test_what_cannot_be_meant_is_refused(overrides, sentence):
    values = {"epochs": 1} if overrides[0].startswith("epochs.more") else {}
    with pytest.raises(ValueError, match=sentence):
        make_config(values, overrides, owner="recipe x")


def test_messages_name_the_recipe():
    with pytest.raises(ValueError, match=r"^recipe cifar100/small: epoch is no setting"):
        make_config({"epoch": 3}, owner="recipe cifar100/small")
