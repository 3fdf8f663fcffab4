"""Cross-entropy.

Shapes: B samples, C classes.
"""

import torch.nn.functional as F
from torch import Tensor

from ncmi.baselines.base import LogitsLoss
from ncmi.baselines.sums import own_class


class CrossEntropy(LogitsLoss):
    r"""Cross-entropy :math:`-z_y + \ln\sum_j e^{z_j}`, equal to ``nn.CrossEntropyLoss`` on the global batch.

    Args: those of :class:`ncmi.baselines.base.Baseline`.

    >>> import torch
    >>> CrossEntropy(num_classes=4)(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss (B,) of each sample, before weights."""
        return own_class(-F.log_softmax(logits, dim=1), targets)
