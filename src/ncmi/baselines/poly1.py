"""PolyLoss with one coefficient.

Shapes: B samples, C classes.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ncmi.baselines.base import LogitsLoss
from ncmi.baselines.inputs import check_number
from ncmi.baselines.sums import own_class


class Poly1(LogitsLoss):
    r"""Poly-1 loss :math:`-\ln p_y + \varepsilon_1 (1-p_y)` (Leng et al., 2022).

    The first Taylor coefficient of −ln p_y in 1 − p_y becomes 1 + ε₁. With soft labels the second term is
    :math:`\varepsilon_1\sum_j t_j(1-p_j)`; p_y is never taken from exp(−CE), which is wrong for soft labels and weights.
    Class weights multiply both terms.

    Args:
        num_classes: C.
        epsilon: ε₁; 2 is the paper's value for ImageNet classification. Some ports take 1.
        settings: ``weight``, ``ignore_index`` and ``reduction``; see :class:`ncmi.baselines.base.Baseline`.

    >>> Poly1(num_classes=2)(torch.tensor([[0.0, 0.0]]), torch.tensor([0]))
    tensor(1.6931)
    """

    def __init__(self, num_classes: int, *, epsilon: float = 2.0, **settings: Any):
        super().__init__(num_classes, **settings)
        self.epsilon = check_number("Poly1", "epsilon", epsilon)

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss (B,) of each sample, before weights."""
        log_probs = F.log_softmax(logits, dim=1)
        return own_class(-log_probs - self.epsilon * torch.expm1(log_probs), targets)
