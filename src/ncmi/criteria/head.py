"""A linear head with a loss on its logits: cross-entropy and its relatives as criteria.

Shapes: B samples, C classes, D feature width.
"""

from collections.abc import Iterator

from torch import Tensor, nn

from ncmi.baselines import Baseline
from ncmi.criteria.base import MeasuredCriterion
from ncmi.loss import full_precision


class HeadCriterion(MeasuredCriterion):
    """A linear head with a loss on its logits, or on logits and features.

    Autocast ends at the features: the head is the first step of the loss, and half-precision logits of a hundred classes tie.
    """

    probabilities_need_temperature = False
    decision = "head"

    def __init__(self, loss: Baseline, num_classes: int, num_features: int):
        super().__init__(num_classes, num_features)
        self.head = nn.Linear(num_features, num_classes)
        self.loss = loss
        self.own_lr = self.own_lr if loss.parameter_lr is None else loss.parameter_lr

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch."""
        logits = self.scores(features)
        inputs = (logits,) if self.loss.takes == "logits" else (logits, features)
        loss = self.loss(*inputs, targets)
        self.track(features, self.valid(targets))
        return loss

    def scores(self, features: Tensor) -> Tensor:
        """The head's logits (B, C), in the head's own precision whatever the autocast mode."""
        with full_precision(features):
            return self.head(features.to(self.head.weight.dtype))

    def own_parameters(self) -> Iterator[nn.Parameter]:
        """What the loss itself holds, such as class centres."""
        return self.loss.parameters()
