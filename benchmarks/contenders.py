"""The classification heads that are compared: modules that take features and labels and return a scalar loss.

Shapes: B samples, C classes, D feature width.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ncmi
from ncmi.centroids import LearnedCentroids

REFERENCE = "cross-entropy"
AUTHORS = "authors' formula"


class CrossEntropy(nn.Module):
    """``nn.Linear`` and ``F.cross_entropy``: the head that the others replace."""

    def __init__(self, num_classes: int, num_features: int):
        super().__init__()
        self.linear = nn.Linear(num_features, num_classes)

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """Mean over the batch of −ln p_y."""
        return F.cross_entropy(self.linear(features), targets)


class Focal(CrossEntropy):
    """``nn.Linear`` and the focal loss −(1 − p_y)² ln p_y (Lin et al. 2017, γ = 2, softmax form without α)."""

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """Mean over the batch."""
        log_prob = -F.cross_entropy(self.linear(features), targets, reduction="none")
        return -((1 - log_prob.exp()).square() * log_prob).mean()


class SupCon(nn.Module):
    """The B×B part of supervised contrastive learning (Khosla et al. 2020): L_out at τ = 0.1 on normalised features.

    One view of each sample, no projection head: less than the full method needs, and no classifier comes out of it.
    """

    def __init__(self, num_classes: int, num_features: int):
        super().__init__()

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """Mean over the anchors; one without a positive counts as zero."""
        unit = F.normalize(features, dim=1)
        same = torch.eye(len(targets), dtype=torch.bool)
        log_probs = F.log_softmax((unit @ unit.T / 0.1).masked_fill(same, -torch.inf), dim=1)
        positive = (targets.unsqueeze(1) == targets) & ~same
        of_anchor = torch.where(positive, log_probs, 0.0).sum(dim=1) / positive.sum(dim=1).clamp_min(1)
        return -of_anchor.mean()


class AuthorsFormula(nn.Module):
    """The published script's objective written plainly from its definition, with tensors of shape (B, C, D).

    Mean over samples of D(p_x‖q^{c_x}) / [(1/C) Σ_{v≠c_x} D(q^v‖p_x)], with the same map, centre and learned ξ as
    ``NCMILoss``, so that every NCMI contender computes the same gradients.
    """

    center: Tensor
    tensors_at_peak = 3  # of shape (B, C, D), measured

    def __init__(self, num_classes: int, num_features: int):
        super().__init__()
        self.xi = nn.Parameter(torch.randn(num_classes, num_features))
        self.register_buffer("center", torch.zeros(num_features))

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """Mean over the batch of the per-sample ratios."""
        scaled = F.normalize(features - self.center, dim=1) / 0.2
        with torch.no_grad():
            self.center.lerp_(features.mean(dim=0), 0.001)
        sigmoid, sigmoid_q = torch.sigmoid(scaled), torch.sigmoid(self.xi)
        p = sigmoid / sigmoid.sum(dim=1, keepdim=True)
        q = sigmoid_q / sigmoid_q.sum(dim=1, keepdim=True)
        own = (p * (p.log() - q[targets].log())).sum(dim=1)
        to_all = (q.unsqueeze(0) * (q.log().unsqueeze(0) - p.log().unsqueeze(1))).sum(dim=2)
        other = 1 - F.one_hot(targets, len(self.xi)).to(to_all.dtype)
        return (own / (to_all * other).mean(dim=1)).mean()


def _ncmi(objective: str, sparse: bool = False) -> Callable[[int, int], nn.Module]:
    def build(num_classes: int, num_features: int) -> nn.Module:
        if not sparse:
            return ncmi.NCMILoss(num_classes, num_features, objective)
        start = "uniform" if objective == "theorem1" else "orthogonal"
        centroids = LearnedCentroids(num_classes, num_features, start, sparse=True)
        return ncmi.NCMILoss(num_classes, num_features, objective, centroids=centroids)

    return build


CONTENDERS: dict[str, Callable[[int, int], nn.Module]] = {
    REFERENCE: CrossEntropy,
    "focal": Focal,
    "SupCon": SupCon,
    AUTHORS: AuthorsFormula,
    "theorem1": _ncmi("theorem1"),
    "centroid": _ncmi("centroid"),
    "released": _ncmi("released"),
    "harmonic": _ncmi("harmonic"),
    "rivals": _ncmi("rivals"),
    "theorem1, sparse": _ncmi("theorem1", sparse=True),
    "centroid, sparse": _ncmi("centroid", sparse=True),
}
