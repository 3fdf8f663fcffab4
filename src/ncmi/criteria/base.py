"""``Criterion``: what turns features into a loss, and into a decision.

Shapes: B samples, C classes, D feature width.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ncmi.baselines import Baseline
from ncmi.center import EMACenter
from ncmi.functional import SimplexPoint, feature_point
from ncmi.loss import full_precision


class Criterion(nn.Module):
    """The loss of features, with the decision it was trained for."""

    views: int = 1
    """Augmented views of each image that the loss wants; with several, features come as (B, V, D)."""
    num_classes: int
    num_features: int
    decision: str
    """Name of the decision in tables, such as ``"learned q"`` or ``"head"``."""
    headline: str = "own"
    """The decision that the loss is judged by; ``"linear probe"`` for a loss without one of its own."""
    own_lr: float = 1.0
    """The learning rate that :meth:`own_parameters` want from SGD."""
    probabilities_need_temperature: bool
    """Whether scores are divergences, whose softmax needs a fitted temperature, rather than logits."""

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch; in training that of the global batch, the same number on every rank."""
        raise NotImplementedError

    def scores(self, features: Tensor) -> Tensor:
        """Scores (B, C); the largest decides."""
        raise NotImplementedError

    def points(self, features: Tensor) -> SimplexPoint:
        """Features as points of the simplex, with the centre as it stands; what CMI, Γ and NCMI are measured on."""
        raise NotImplementedError

    def own_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters with a learning rate of their own and no weight decay, such as centroids."""
        raise NotImplementedError

    @property
    def centroids(self) -> Tensor | None:
        """The centroids that it decides by, as log-densities ln(D·q) (C, D); ``None`` where something else decides."""
        return None

    @property
    def needs_start(self) -> bool:
        """Whether :meth:`start` must be called with features of the training set before the first step."""
        return False

    def start(self, features: Tensor, targets: Tensor) -> None:
        """Start from the features (N, D) of the training set; under DDP each rank passes its share."""


class MeasuredCriterion(Criterion):
    """A criterion without a map to the simplex of its own.

    Its centre is tracked only so that CMI, Γ and NCMI can be measured under NCMI's default map; it changes nothing in
    training.
    """

    loss: Baseline

    def __init__(self, num_classes: int, num_features: int, temperature: float = 0.2):
        super().__init__()
        self.num_classes, self.num_features = num_classes, num_features
        self.temperature = temperature
        self.center = EMACenter(num_features, momentum=0.99)

    def valid(self, targets: Tensor) -> Tensor | None:
        """Which samples (B,) the loss does not ignore; ``None`` for soft labels, which all count."""
        return None if targets.is_floating_point() else targets != self.loss.weighting.ignore_index

    def track(self, features: Tensor, valid: Tensor | None) -> None:
        """Let the centre follow the valid ones of features (B, D) in training mode."""
        if self.training:
            with full_precision(features):
                self.center(features.detach().to(self.center.mean.dtype), valid)

    def points(self, features: Tensor) -> SimplexPoint:
        """Features as points of the simplex, under NCMI's default map."""
        features = features.to(torch.promote_types(features.dtype, torch.float32))
        return feature_point(features, self.center.mean.to(features.dtype), self.temperature, "nsf")
