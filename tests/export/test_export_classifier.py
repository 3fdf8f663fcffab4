"""Classifiers: the bits of evaluation from raw pixels, probabilities by the temperature, and refusals."""

import pytest
import torch
from torch import nn

from ncmi import CentroidClassifier, NCMILoss
from ncmi.data import Normalize, load_data
from ncmi.export import BagClassifier, Description, ImageClassifier
from ncmi.models import create_model
from ncmi.models.mil import create_bag_model


@pytest.fixture(scope="module")
def images():
    return load_data("digits").test.images[:20]


def make(temperature=0.01, **changes):
    torch.manual_seed(0)
    network = create_model("mlp", in_features=64, hidden=(32, 16))
    decision = CentroidClassifier.from_loss(NCMILoss(10, 16))
    settings = {"shape": (1, 8, 8), "mean": (0.3,), "std": (0.4,), **changes}
    return ImageClassifier(network, decision, temperature, **settings)


def test_raw_pixels_give_the_bits_of_evaluation(images):
    classifier = make()
    scores, probabilities = classifier(images)
    features = classifier.network(Normalize((0.3,), (0.4,))(images))
    assert scores.equal(classifier.decision(features))
    assert probabilities.equal((scores / 0.01).softmax(dim=1))
    assert not classifier.training
    assert not any(parameter.requires_grad for parameter in classifier.parameters())


def test_a_bag_gives_one_row():
    network = create_bag_model("abmil", 12, num_features=16).eval()
    classifier = BagClassifier(network, nn.Linear(16, 3), temperature=2.0)
    bag = torch.randn(9, 12)
    scores, probabilities = classifier(bag)
    assert scores.shape == probabilities.shape == (1, 3)
    assert scores[0].allclose(classifier.decision(network(bag).features))
    assert probabilities.allclose((scores / 2).softmax(dim=1))


def test_refusals(images):
    with pytest.raises(
        ValueError, match=r"images must be uint8 of shape \(B, 1, 8, 8\); got torch\.float32 .*\.round\(\)"
    ):
        make()(images / 255)
    with pytest.raises(ValueError, match=r"got torch\.uint8 of shape \(20, 8, 8\)"):
        make()(images[:, 0])
    with pytest.raises(ValueError, match=r"ImageClassifier: temperature must be positive; got 0"):
        make(temperature=0.0)
    with pytest.raises(ValueError, match=r"ImageClassifier: std must be positive"):
        make(std=(0.0,))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"takes": "bag"}'])
def test_a_text_that_describes_nothing(text):
    with pytest.raises(ValueError, match=r"^model\.pt2 holds no description of its inputs and classes"):
        Description.from_text(text, "model.pt2")
