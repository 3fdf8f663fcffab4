"""Half precision around the loss, float32 inside it."""

import pytest
import torch
from batches import OBJECTIVES, hard_labels, normal

from ncmi import NCMILoss

B, C, D = 32, 10, 64
HALVES = [torch.bfloat16, torch.float16]


def make(objective, **settings):
    torch.manual_seed(0)
    return NCMILoss(C, D, objective, **settings)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_autocast_does_not_reach_the_loss(objective, dtype):
    # The network is a scale and no matrix product: virtual machines claim bfloat16 tiles that they may not execute.
    network, targets = torch.full((D,), 1.5, requires_grad=True), hard_labels(B, C)
    inputs, loss = normal(B, D, dtype=torch.float32), make(objective)
    with torch.autocast("cpu", dtype=dtype):
        features = (inputs * network).to(dtype)
        features.retain_grad()
        value = loss(features, targets)
    assert value.dtype == torch.float32
    exact = make(objective)(features.detach().float(), targets)
    torch.testing.assert_close(value, exact, rtol=1e-4, atol=0)
    value.backward()
    for gradient in (network.grad, features.grad, loss.centroids.xi.grad):
        assert gradient is not None
        assert bool(gradient.isfinite().all())
        assert float(gradient.float().abs().max()) > 0
    reference = features.detach().float().requires_grad_()
    make(objective)(reference, targets).backward()
    assert reference.grad is not None
    torch.testing.assert_close(
        features.grad.float(), reference.grad, rtol=2e-2, atol=2e-2 * float(reference.grad.abs().max())
    )


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_half_features_without_autocast(objective, dtype):
    features, targets = normal(B, D).to(dtype), hard_labels(B, C)
    for labels in (targets, torch.eye(C, dtype=dtype)[targets]):
        value = make(objective)(features, labels)
        torch.testing.assert_close(value, make(objective)(features.float(), targets), rtol=1e-4, atol=0)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_soft_labels_under_autocast(objective):
    labels = torch.softmax(3 * normal(B, C), dim=1).bfloat16()
    labels = labels / labels.sum(dim=1, keepdim=True)
    features = normal(B, D).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = make(objective)(features, labels)
    torch.testing.assert_close(value, make(objective)(features.float(), labels.float()), rtol=1e-4, atol=0)


@pytest.mark.parametrize("num_features", [512, 2048])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_float32_loss_is_close_to_float64(objective, num_features):
    targets = torch.arange(256) % 20
    features = (normal(20, num_features)[targets] + normal(256, num_features, seed=1)).float().requires_grad_()
    torch.manual_seed(0)
    single = NCMILoss(20, num_features, objective)
    torch.manual_seed(0)
    double = NCMILoss(20, num_features, objective).double()
    value, exact = single(features, targets), double(features.double(), targets)
    assert float(value.detach()) == pytest.approx(float(exact.detach()), rel=2e-4)
    (found,), (expected,) = torch.autograd.grad(value, features), torch.autograd.grad(exact, features)
    assert float((found - expected).norm() / expected.norm()) < 2e-3


def test_float64_features_keep_float64_with_a_float32_loss():
    loss = make("harmonic")
    assert loss(normal(B, D), hard_labels(B, C)).dtype == torch.float64
    assert loss.centroids.xi.dtype == torch.float32
