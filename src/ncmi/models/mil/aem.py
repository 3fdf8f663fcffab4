"""``AEM``: attention that is spread over the bag, by a term on its entropy (Zhang et al., 2025).

Shapes: G bags, ΣN instances of all bags, D width of a bag's vector, H heads.
"""

import math

import torch
from torch import Tensor

from ncmi.models.mil.base import BagModel, BagOutput, check_bag_model
from ncmi.models.mil.pooling import at_least_single, bag_sums, log_attention
from ncmi.models.mil.updates import UpdateCounter


def negative_entropy(attention: Tensor, sizes: list[int]) -> Tensor:
    """Σ α ln α of each bag, in nats, averaged over heads and bags: a scalar between −ln N and 0.

    Args:
        attention: logits (ΣN, H).
        sizes: N of each bag.

    >>> negative_entropy(torch.zeros(4, 1), [4])
    tensor(-1.3863)
    """
    log_weights = log_attention(attention, sizes)
    return bag_sums((log_weights.exp() * log_weights).mean(dim=1), sizes).mean()


class AEM(BagModel):
    """Any bag model, with λ · Σ α ln α as its auxiliary loss term: low where attention is spread.

    The entropy is not divided by ln N; with N = 15,000 and λ = 0.1 the term is worth up to one nat.

    Args:
        model: a bag model; in the published default a :class:`~ncmi.models.mil.cross_attention.CrossAttentionMIL`.
        weight: λ; 0.1 is published for CAMELYON-17.
        total_steps: T, the optimiser steps of a run, anneals λ as λ · ½ (1 + cos(π t / T)) and leaves it at zero after
            them. The paper speaks of a cosine; the formula is our reading. ``None`` keeps λ constant, as the published
            code does.

    Shape:
        as the model's; ``auxiliary`` adds the term to the model's own.

    >>> from ncmi.models.mil.abmil import ABMIL
    >>> model = AEM(ABMIL(8, 4), weight=0.1)
    >>> bool(model(torch.randn(5, 8)).auxiliary < 0)
    True
    """

    def __init__(self, model: BagModel, weight: float = 0.1, total_steps: int | None = None):
        super().__init__()
        check_bag_model("AEM", model)
        if not 0 <= weight < math.inf:
            raise ValueError(f"AEM: weight must be a finite number of at least 0; got {weight}. The default is 0.1.")
        if total_steps is not None and total_steps < 1:
            raise ValueError(
                f"AEM: total_steps must be at least 1, the optimiser steps of the run; got {total_steps}. Leave it out "
                "for a constant weight."
            )
        self.model = model
        self.in_features = model.in_features
        self.num_features = model.num_features
        self.weight = weight
        self.total_steps = total_steps
        self.counter = UpdateCounter(model)

    def forward_bags(self, instances: Tensor, sizes: list[int]) -> BagOutput:
        """The model's output with λ times the mean negative entropy added to ``auxiliary``."""
        if self.total_steps is not None:
            self.counter(self.model)
        output = self.model.forward_bags(instances, sizes)
        term = self.current_weight() * negative_entropy(output.attention, sizes)
        return output._replace(auxiliary=output.auxiliary + term)

    def attention_logits(self, instances: Tensor, sizes: list[int]) -> Tensor:
        """The model's logits (ΣN, H)."""
        return self.model.attention_logits(instances, sizes)

    def current_weight(self) -> float | Tensor:
        """λ at the present step: a number, or a scalar tensor where it is annealed."""
        if self.total_steps is None:
            return self.weight
        phase = (at_least_single(self.counter.steps.to(self.dtype)) / self.total_steps).clamp(max=1)
        return self.weight * 0.5 * (1 + torch.cos(math.pi * phase))

    def extra_repr(self) -> str:
        """Settings for ``print(model)``."""
        return f"weight={self.weight}, total_steps={self.total_steps}"
