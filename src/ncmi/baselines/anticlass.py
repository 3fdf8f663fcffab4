"""Cross-entropy with the one-cold cross-entropy of the anti-classes.

Shapes: B samples, C classes.
"""

import math
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ncmi.baselines.base import LogitsLoss
from ncmi.baselines.inputs import check_number
from ncmi.baselines.sums import other_classes, own_class


class AntiClass(LogitsLoss):
    r"""Cross-entropy plus one-cold cross-entropy (Katsikas, Passalis and Tefas, 2025).

    .. math:: w\,\mathrm{CE} + \gamma\,\mathrm{OCCE},\qquad
              \mathrm{OCCE} = -\frac{1}{C-1}\sum_{j\ne y} \ln r_j - \ln(C-1),\quad r = \mathrm{softmax}(-z)

    OCCE is added to cross-entropy and does not replace it. Its smallest value is zero.

    Args:
        num_classes: C.
        gamma: γ; 1 is the authors' default, and they advise a search over (0.01, 1).
        ce_weight: w; 1 is the authors' default.
        epsilon: 0 (default) is the formula. The published code takes ln((C−1)·r + 1e-7) instead, which bounds OCCE and stops
            the gradient of classes whose r is smaller; ``epsilon=1e-7`` does the same.
        settings: ``weight``, ``ignore_index`` and ``reduction``; see :class:`ncmi.baselines.base.Baseline`.

    >>> import torch
    >>> AntiClass(num_classes=4, ce_weight=0.0)(torch.tensor([[50.0, 0.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.)
    """

    def __init__(
        self,
        num_classes: int,
        *,
        gamma: float = 1.0,
        ce_weight: float = 1.0,
        epsilon: float = 0.0,
        **settings: Any,
    ):
        super().__init__(num_classes, **settings)
        self.gamma = check_number("AntiClass", "gamma", gamma, at_least=0)
        self.ce_weight = check_number("AntiClass", "ce_weight", ce_weight, at_least=0)
        self.epsilon = check_number("AntiClass", "epsilon", epsilon, at_least=0)

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss (B,) of each sample, before weights."""
        others = self.num_classes - 1
        log_ratio = F.log_softmax(-logits, dim=1) + math.log(others)
        if self.epsilon:
            log_ratio = (log_ratio.exp() + self.epsilon).log()
        one_cold = other_classes(-log_ratio, targets) / others
        return self.ce_weight * own_class(-F.log_softmax(logits, dim=1), targets) + self.gamma * one_cold
