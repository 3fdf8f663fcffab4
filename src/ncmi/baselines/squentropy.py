"""Squentropy.

Shapes: B samples, C classes.
"""

import torch.nn.functional as F
from torch import Tensor

from ncmi.baselines.base import LogitsLoss
from ncmi.baselines.sums import other_classes, own_class


class Squentropy(LogitsLoss):
    r"""Squentropy :math:`-\ln p_y + \frac{1}{C-1}\sum_{j\ne y} z_j^2` (Hui, Belkin and Wright, 2023).

    The squares are those of the logits z, not of probabilities. There is nothing to tune; the optimiser's settings are
    those of cross-entropy.

    Args: those of :class:`ncmi.baselines.base.Baseline`.

    >>> import torch
    >>> Squentropy(num_classes=3)(torch.tensor([[0.0, 0.0, 2.0]]), torch.tensor([0]))
    tensor(4.2395)
    """

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss (B,) of each sample, before weights."""
        squares = other_classes(logits.square(), targets) / (self.num_classes - 1)
        return own_class(-F.log_softmax(logits, dim=1), targets) + squares
