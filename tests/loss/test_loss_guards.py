"""Guards against numbers that float32 cannot carry and against things that cannot work: each is seen to fire."""

import pytest
import torch
from batches import OBJECTIVES, hard_labels, normal

from ncmi import CentroidClassifier, NCMILoss, NCMIMetric
from ncmi.center import EMACenter
from ncmi.centroids import EMACentroids, LearnedCentroids
from ncmi.functional import LogDensity, harmonic, kl_divergence, released, scale_features, simplex_point, to_logits

B, C, D = 16, 4, 8
EPS = torch.finfo(torch.float32).eps


def test_harmonic_floor_is_four_epsilons_and_flat():
    # Two centroids, one at p: the floor replaces D_y = 0, and only the other pulls.
    logits = torch.tensor([[0.3, -0.2, 0.1], [2.0, -1.0, 0.5]])
    points = simplex_point(logits[:1].requires_grad_())
    other = harmonic(points, LogDensity(simplex_point(logits).log_density), torch.tensor([0]), exponent=1.0)
    distance = kl_divergence(points.log_probs, simplex_point(logits[1:]).log_probs)
    torch.testing.assert_close(other, torch.log1p(4 * EPS / distance), rtol=0.01, atol=0)
    other.sum().backward()


def test_released_has_a_rule_for_no_separation():
    centroids = LearnedCentroids(C, D, start="uniform")
    loss = NCMILoss(C, D, "released", centroids=centroids, center="none")
    features = torch.cat([normal(B - 1, D), torch.zeros(1, D)]).float().requires_grad_()
    for targets in (hard_labels(B, C), torch.eye(C)[hard_labels(B, C)]):
        value = loss(features, targets)
        value.backward()
        assert bool(value.isfinite())
        assert bool(features.grad.isfinite().all())
    uniform = simplex_point(torch.zeros(C, D))
    assert float(released(simplex_point(torch.zeros(1, D)), uniform, torch.tensor([0]))) == 0


@pytest.mark.parametrize("scale", [1e-20, 1e-12, 1e12, 1e20, 1e30])
def test_scale_of_the_features_does_not_matter_in_float32(scale):
    features = normal(B, D, dtype=torch.float32)
    torch.testing.assert_close(scale_features(scale * features), scale_features(features), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("temperature", [0.02, 0.0126, 0.0124, 0.008, 0.002])
def test_small_temperatures_are_exact_on_both_sides_of_the_fast_path(temperature):
    # 1/τ crosses the largest logit whose sigmoid is still a normal number.
    features = torch.eye(D) - 0.9
    found = NCMILoss(C, D, temperature=temperature, center="none").points(features).log_probs
    expected = NCMILoss(C, D, temperature=temperature, center="none").points(features.double()).log_probs
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equal_features_get_no_gradient(objective):
    # Their mean differs from them by rounding; that difference must not count as a direction.
    features = (normal(1, 64, dtype=torch.float32) + 3).repeat(100, 1).requires_grad_()
    loss = NCMILoss(C, 64, objective)
    if objective in ("theorem1", "centroid"):
        targets = torch.arange(100) % C
        if objective == "theorem1":
            with pytest.raises(ValueError, match="all its outputs are the same distribution"):
                loss(features, targets)
            return
    else:
        targets = torch.arange(100) % C
    loss(features, targets).backward()
    assert float(features.grad.norm()) == 0


def test_a_temperature_beyond_float32_is_announced():
    with pytest.warns(UserWarning, match=r"float32 keeps few digits\. Take a smaller temperature, or float64"):
        loss = NCMILoss(C, 512, "theorem1", temperature=100.0)
    features, targets = normal(B, 512), hard_labels(B, C)
    # In float64 it works, and the batch is not mistaken for equal outputs.
    assert 0 < float(loss.double()(features, targets).detach()) < 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_state_stays_float32_in_a_half_precision_network(dtype):
    network = torch.nn.ModuleDict({"body": torch.nn.Linear(D, D), "loss": NCMILoss(C, D)}).to(dtype)
    assert network["body"].weight.dtype == dtype
    assert all(tensor.dtype != dtype for tensor in network["loss"].state_dict().values())
    features = normal(B, D).to(dtype).requires_grad_()
    network["loss"](features, hard_labels(B, C)).backward()
    assert features.grad.dtype == dtype
    CentroidClassifier.from_loss(network["loss"])
    assert NCMILoss(C, D).double().centroids.xi.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_small_integers_are_labels_like_any_other(dtype):
    num_classes = 200 if dtype == torch.uint8 else 100
    targets = torch.arange(40) + num_classes - 50
    features = normal(40, D)
    losses = [NCMILoss(num_classes, D, centroids="fixed", center="none").double() for _ in range(2)]
    losses[1].load_state_dict(losses[0].state_dict())
    assert torch.equal(losses[0](features, targets), losses[1](features, targets.to(dtype)))
    metric = NCMIMetric(num_classes, D)
    metric.update(features, targets.to(dtype))
    assert int(metric.counts.sum()) == 40


def test_uint8_label_out_of_range_is_not_taken_for_ignored():
    with pytest.raises(ValueError, match="got 156"):
        NCMILoss(100, D)(normal(2, D).float(), torch.tensor([3, 156], dtype=torch.uint8))


def test_softmax_means_with_zeros_have_finite_logits():
    assert bool(to_logits(torch.tensor([[1.0, 0.0]]), "softmax").isfinite().all())


def test_kl_divergence_of_a_zero_probability():
    p, q = torch.tensor([1.0, 0.0]).log(), torch.tensor([0.5, 0.5]).log()
    torch.testing.assert_close(kl_divergence(p, q), torch.tensor(2.0).log())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"centroids": EMACentroids}, r"such as LearnedCentroids\(4, 8\)"),
        ({"center": EMACenter}, r"such as EMACenter\(8\)"),
        ({"center": EMACenter(9)}, r"num_features=8 numbers; got 9"),
        ({"centroids": LearnedCentroids(C, D), "temperature": 0.05}, r"Pass temperature=0\.05 to both"),
        ({"temperature": "0.2"}, r"must be positive and finite; got '0\.2'"),
    ],
)
def test_settings_that_do_not_fit(settings, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        NCMILoss(C, D, **settings)


def test_arrays_and_lists_are_told_to_become_tensors():
    loss = NCMILoss(C, D)
    with pytest.raises(TypeError, match=r"features must be a torch tensor; got ndarray"):
        loss(normal(B, D).numpy(), hard_labels(B, C))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"targets must be a torch tensor; got list"):
        loss(normal(B, D).float(), [0] * B)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"multi-label"):
        loss(normal(B, D).float(), torch.ones(B, C, dtype=torch.bool))
