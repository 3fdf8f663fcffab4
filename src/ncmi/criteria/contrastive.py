"""Supervised contrastive training as a criterion: two views, a projection head, and a probe afterwards.

Shapes: B samples, V views, C classes, D feature width.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ncmi.baselines import ProjectionHead, SupCon
from ncmi.criteria.base import MeasuredCriterion
from ncmi.distributed import sum_over_ranks
from ncmi.loss import full_precision


class ContrastiveCriterion(MeasuredCriterion):
    """SupCon on projections of two views. It has no decision of its own: a linear probe on frozen features is its headline.

    The projection is a part of the network, dropped after training, and runs in its autocast mode; the loss casts what it gets.
    To watch it train, the mean direction of each class is tracked, and the nearest one decides.
    """

    views = 2
    headline = "linear probe"
    decision = "tracked directions"
    probabilities_need_temperature = True

    directions: Tensor

    def __init__(self, loss: SupCon, num_classes: int, num_features: int):
        super().__init__(num_classes, num_features)
        self.loss = loss
        self.projection = ProjectionHead(num_features)
        self.register_buffer("directions", torch.zeros(num_classes, num_features))

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of features (B, V, D); in evaluation one view (B, D) stands for both, and the loss says little."""
        if features.ndim == 2:
            features = features.unsqueeze(1).expand(-1, self.views, -1)
        loss = self.loss(self.projection(features), targets)
        valid = targets != self.loss.weighting.ignore_index
        self.track(features.flatten(0, 1), valid.repeat_interleave(features.shape[1]))
        if self.training:
            self._follow(features, targets, valid)
        return loss

    def scores(self, features: Tensor) -> Tensor:
        """Cosine (B, C) of the angle to each class's mean direction."""
        features = features.to(torch.promote_types(features.dtype, self.directions.dtype))
        with full_precision(features):
            return F.normalize(features, dim=1) @ F.normalize(self.directions.to(features.dtype), dim=1).T

    def own_parameters(self) -> Iterator[nn.Parameter]:
        """None."""
        return iter(())

    @torch.no_grad()
    def _follow(self, features: Tensor, targets: Tensor, valid: Tensor) -> None:
        """Add the batch's unit features to their classes, ignored samples left out; older batches fade."""
        units = F.normalize(features.detach().to(self.directions.dtype), dim=-1).sum(dim=1) * valid.unsqueeze(1)
        classes = torch.where(valid, targets, 0).long()
        (total,) = sum_over_ranks(torch.zeros_like(self.directions).index_add_(0, classes, units))
        self.directions.mul_(0.99).add_(total)
