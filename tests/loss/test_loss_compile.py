"""``torch.compile(fullgraph=True)``: one graph, forward and backward, equal to eager."""

import shutil
import warnings

import pytest
import torch
from batches import OBJECTIVES, hard_labels, normal

from ncmi import NCMILoss

B, D = 6, 16


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    with warnings.catch_warnings():
        # The compiler's own imports warn about things that are not ours.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield
    torch.compiler.reset()


def make(objective, num_classes, **settings):
    torch.manual_seed(0)
    return NCMILoss(num_classes, D, objective, **settings)


def compare(objective, num_classes, targets, backend, **settings):
    """Three training steps in both modes: values, gradients and all state; one graph serves all three."""
    eager, other = make(objective, num_classes, **settings), make(objective, num_classes, **settings)
    compiled = torch.compile(other, fullgraph=True, backend=backend)
    for step in range(3):
        features = [normal(B, D, seed=step, dtype=torch.float32).requires_grad_() for _ in range(2)]
        with torch.compiler.set_stance("fail_on_recompile" if step else "default"):
            values = eager(features[0], targets), compiled(features[1], targets)
        torch.testing.assert_close(values[1], values[0], rtol=1e-4, atol=1e-6)
        for value in values:
            value.backward()
        torch.testing.assert_close(features[1].grad, features[0].grad, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(other.state_dict(), eager.state_dict(), rtol=1e-4, atol=1e-5)
    for (name, a), (_, b) in zip(other.named_parameters(), eager.named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_compiled_equals_eager(objective):
    compare(objective, 4, hard_labels(B, 4), "aot_eager")


@pytest.mark.parametrize(
    ("objective", "num_classes", "targets", "settings"),
    [
        ("theorem1", 40, torch.tensor([3, 39, 3, 0, 17, 39]), {}),  # more classes than samples
        ("centroid", 4, torch.softmax(normal(B, 4), dim=1).float(), {"centroids": "ema", "center": "batch"}),
        ("harmonic", 4, torch.tensor([0, 1, -100, 3, 2, -100]), {"weight": torch.tensor([1.0, 2.0, 0.5, 1.0])}),
        ("rivals", 4, torch.tensor([0, 1, -100, 3, 2, -100]), {"weight": torch.tensor([1.0, 2.0, 0.5, 1.0])}),
        ("released", 4, hard_labels(B, 4), {"prior": "uniform", "centroids": "fixed", "simplex": "softmax"}),
    ],
    ids=["compact", "soft", "ignored", "rivals", "prior"],
)
def test_compiled_equals_eager_with_settings(objective, num_classes, targets, settings):
    compare(objective, num_classes, targets, "aot_eager", **settings)


@pytest.mark.skipif(shutil.which("g++") is None and shutil.which("clang++") is None, reason="needs a C++ compiler")
def test_inductor_equals_eager():
    compare("theorem1", 4, hard_labels(B, 4), "inductor")


def test_compiled_step_counts_fallbacks_without_waiting():
    loss = make("theorem1", 4, temperature=2.0, center="none")
    with torch.no_grad():
        loss.centroids.xi.copy_(40 * torch.eye(4, D) - 20)
    features, targets = normal(B, D, dtype=torch.float32), hard_labels(B, 4)
    value = torch.compile(loss, fullgraph=True, backend="aot_eager")(features, targets)
    assert int(loss.fallback_steps) == 1
    torch.testing.assert_close(value, loss(features, targets), rtol=1e-4, atol=0)
    assert int(loss.fallback_steps) == 2
