"""A batch in blocks; tests/test_distributed.py has the same over several ranks."""

import pytest
import torch
from batches import hard_labels, normal, soft_labels

from ncmi import NCMILoss, rivalry
from ncmi.functional import (
    harmonic_logits,
    rival_level,
    rival_losses,
    rivals_of_classes,
    rivals_of_samples,
)

B, C, D = 10, 4, 6


@pytest.mark.parametrize("make", [hard_labels, soft_labels])
def test_samples_see_their_block_and_centroids_see_the_batch(monkeypatch, make):
    monkeypatch.setattr(rivalry, "_BLOCK", 4)
    loss = NCMILoss(C, D, center="none", reduction="none").double().eval()
    features, targets = normal(B, D).requires_grad_(), make(B, C)
    found = loss(features, targets)
    (grad,) = torch.autograd.grad(found.sum(), features)

    points, centroids = loss.points(features), loss.centroids(dtype=torch.float64)
    logits, among = harmonic_logits(points, centroids), harmonic_logits(points, points)
    levels = [
        rival_level(rivals_of_samples(among[rows, rows], targets[rows], targets[rows]), C)
        for rows in (slice(0, 3), slice(3, 6), slice(6, 10))
    ]
    class_level = rival_level(rivals_of_classes(logits, targets), C)
    expected = rival_losses(logits, targets, class_level, torch.cat(levels))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(grad, torch.autograd.grad(expected.sum(), features)[0])

    monkeypatch.setattr(rivalry, "_BLOCK", 256)
    assert float((loss(features, targets) - found).detach().abs().min()) > 0, "a whole batch has more rivals"
