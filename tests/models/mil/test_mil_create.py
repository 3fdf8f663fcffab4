"""Names, sizes and options; the numbers of parameters of the published models."""

import pytest
import torch

from ncmi.models.mil import AEM, ASMIL, create_bag_model, list_bag_models


def count(model):
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def head(num_features, num_classes):
    return num_features * num_classes + num_classes


@pytest.mark.parametrize(
    ("name", "in_features", "num_features", "num_classes", "parameters"),
    [
        ("abmil", 384, 128, 4, 82_821),
        ("abmil", 512, 256, 4, 198_021),
        ("abmil", 1024, 512, 4, 657_797),
        ("abmil_clam_small", 1024, 512, 2, 788_739),
        ("transmil", 1024, 512, 2, 2_672_146),
        ("transmil", 384, 128, 4, 193_556),
        ("transmil", 512, 256, 4, 681_492),
        ("transmil", 1024, 512, 4, 2_673_172),
        ("aem", 384, 128, 4, 116_100),
        ("aem", 512, 256, 4, 396_036),
    ],
)
def test_published_numbers_of_parameters(name, in_features, num_features, num_classes, parameters):
    model = create_bag_model(name, in_features)
    assert model.num_features == num_features
    assert count(model) + head(num_features, num_classes) == parameters


@pytest.mark.parametrize("released", [False, True])
def test_published_number_of_parameters_of_asmil(released):
    model = create_bag_model("asmil", 384, num_tokens=8, released=released)
    # The published network holds two things that no loss of its code reaches, and that are left out here: a LayerNorm in
    # the projection, and one classifier for each of the eight tokens.
    unused = 2 * 128 + 8 * head(128, 4)
    assert count(model) + head(128, 4) + unused == 651_940
    anchor = sum(parameter.numel() for parameter in model.anchor.parameters())
    assert anchor == count(model)


def test_every_listed_name_can_be_created():
    for name in list_bag_models():
        with torch.device("meta"):
            assert create_bag_model(name, 192).num_features == (512 if "clam" in name else 128)


def test_sizes_of_clam():
    small, big = create_bag_model("abmil_clam_small", 1024), create_bag_model("abmil_clam_big", 1024)
    assert (small.attention.gate.out_features, big.attention.gate.out_features) == (256, 384)
    assert big.projection.bias is not None
    assert {module.p for module in big.modules() if isinstance(module, torch.nn.Dropout)} == {0.25}


def test_options_reach_the_base_of_aem():
    model = create_bag_model("aem", 6, base="asmil", weight=0.3, total_steps=7, num_features=16, num_tokens=3)
    assert isinstance(model, AEM)
    assert isinstance(model.model, ASMIL)
    assert (model.weight, model.total_steps, model.model.model.num_tokens) == (0.3, 7, 3)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("abmill", {}, r"create_bag_model: name must be one of 'abmil', .*got 'abmill'\. Did you mean 'abmil'"),
        (
            "abmil",
            {"witdh": 3},
            r"an option of 'abmil' must be one of 'num_features', 'attention_width', .*got 'witdh'",
        ),
        ("aem", {"base": "aem"}, r"base must be one of 'abmil', .*got 'aem'"),
        ("aem", {"totl_steps": 3}, r"an option of 'aem' on 'cross_attention' must be .*Did you mean 'total_steps'"),
        ("abmil", {"num_features": 0}, r"num_features must be at least 1; got 0\. Leave it out"),
        ("transmil", {"num_features": 20}, r"TransMIL: num_features must be a multiple of num_heads=8.*got 20\. .*=16"),
        ("transmil", {"num_features": 9, "num_heads": 3}, r"must be even, .*landmarks; got 9\. Pass num_features=10"),
        ("cross_attention", {"num_features": 3}, r"a multiple of num_heads=8, .*got 3\. Pass num_features=8"),
        (
            "asmil",
            {"num_tokens": 4, "num_dropped": 4},
            r"TokenMIL: num_dropped must lie in \[0, 3\] because num_tok.*got 4",
        ),
        ("asmil", {"decay": 1.5}, r"ASMIL: decay must lie in \[0, 1\]; got 1\.5"),
    ],
)
def test_what_cannot_be_built(name, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        create_bag_model(name, 6, **options)


@pytest.mark.parametrize("width", [0, 2.0, None, True])
def test_a_width_that_is_none(width):
    with pytest.raises(
        ValueError, match=r"in_features must be a whole number of at least 1; got .*Pass bag\.shape\[1\]"
    ):
        create_bag_model("abmil", width)
