import pytest
import torch

from ncmi import PRESETS, NCMILoss
from ncmi.center import EMACenter, PrintedCenter
from ncmi.centroids import FixedCentroids, LearnedCentroids
from ncmi.functional import released, theorem1


def test_released_is_the_published_script():
    loss = NCMILoss.from_preset("released", num_classes=10, num_features=16)
    assert loss.objective.function is released
    assert loss.temperature == 0.2
    assert loss.simplex == "nsf"
    assert type(loss.center) is EMACenter
    assert (loss.center.momentum, loss.center.start) == (0.999999, "first_batch")
    assert type(loss.centroids) is FixedCentroids
    assert torch.equal(loss.centroids.xi, 10 * torch.eye(10, 16))
    training = PRESETS["released"].training
    assert (training["lr"], training["batch_size"]) == (0.1, 128)
    assert "×0.2 at epochs 60, 120, 160 of 200" in training["schedule"]
    assert "warm-up" in training["schedule"]
    assert "momentum 0.9, weight decay 5e-4" in training["optimizer"]
    assert "15°" in training["augmentation"]


def test_paper_is_the_papers_text():
    loss = NCMILoss.from_preset("paper", num_classes=10, num_features=16)
    assert loss.objective.function is theorem1
    assert type(loss.center) is PrintedCenter
    assert type(loss.centroids) is LearnedCentroids
    assert bool((loss.centroids.xi == 0).all())
    training = PRESETS["paper"].training
    assert (training["lr"], training["batch_size"]) == (0.1, 64)
    assert "×0.1 at epochs 60, 120, 160 of 200" in training["schedule"]
    assert "momentum 0.9, weight decay 5e-4" in training["optimizer"]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_train(name):
    loss = NCMILoss.from_preset(name, 4, 8)
    features = torch.randn(12, 8, requires_grad=True)
    for _ in range(3):
        loss(features, torch.arange(12) % 4).backward()
    assert bool(features.grad.isfinite().all())


@pytest.mark.parametrize("name", PRESETS)
def test_settings_can_be_overridden(name):
    loss = NCMILoss.from_preset(name, 4, 8, temperature=0.5, centroids="ema", center="none")
    assert loss.temperature == 0.5
    assert list(loss.parameters()) == []
    # The paper's ablation: softmax in place of NSF, all else equal.
    softmax = NCMILoss.from_preset(name, 4, 8, simplex="softmax")
    assert softmax.centroids.simplex == "softmax"


def test_what_is_overridden_is_not_built():
    # The released start needs num_features >= num_classes; other centroids do not.
    assert NCMILoss.from_preset("released", 100, 64, centroids="learned").num_classes == 100


def test_presets_list_what_they_build():
    for name, preset in PRESETS.items():
        loss = NCMILoss.from_preset(name, 4, 8)
        assert all(getattr(loss.center, key) == value for key, value in preset.center_settings.items())
        assert loss.centroids.start == preset.centroids_start


def test_unknown_preset_lists_its_neighbour():
    with pytest.raises(
        ValueError, match=r"preset must be one of 'paper', 'released'; got 'relased'\. Did you mean 'released'"
    ):
        NCMILoss.from_preset("relased", 4, 8)


def test_released_needs_a_coordinate_for_each_class():
    with pytest.raises(ValueError, match=r"Use start='orthogonal'"):
        NCMILoss.from_preset("released", num_classes=20, num_features=8)
