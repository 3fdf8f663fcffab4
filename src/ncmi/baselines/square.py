"""Square loss for classification.

Shapes: B samples, C classes.
"""

from typing import Any

from torch import Tensor

from ncmi.baselines.base import LogitsLoss
from ncmi.baselines.inputs import check_number
from ncmi.baselines.sums import other_classes, own_class


class SquareLoss(LogitsLoss):
    r"""Square loss :math:`\frac1C\left[k\,(z_y-M)^2 + \sum_{j\ne y} z_j^2\right]` (Hui and Belkin, 2021).

    z are the raw outputs, without softmax; the decision is the largest of them. The scale differs much from that of
    cross-entropy (near z = 0 the loss is kM²/C), so the learning rate usually needs tuning.

    Args:
        num_classes: C.
        true_class_weight: k. ``None``: 1, from 1000 classes on 15 (``square_loss_settings``).
        target_value: M. ``None``: 1 up to 42 classes, 15 below 1000, then 30.
        settings: ``weight``, ``ignore_index`` and ``reduction``; see :class:`ncmi.baselines.base.Baseline`.

    >>> import torch
    >>> SquareLoss(num_classes=4)(torch.tensor([[0.5, 0.0, 1.0, 0.0]]), torch.tensor([0]))
    tensor(0.3125)
    """

    def __init__(
        self,
        num_classes: int,
        *,
        true_class_weight: float | None = None,
        target_value: float | None = None,
        **settings: Any,
    ):
        super().__init__(num_classes, **settings)
        k, m = square_loss_settings(num_classes)
        k = k if true_class_weight is None else true_class_weight
        m = m if target_value is None else target_value
        self.true_class_weight = check_number("SquareLoss", "true_class_weight", k, above=0)
        self.target_value = check_number("SquareLoss", "target_value", m, above=0)

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss (B,) of each sample, before weights."""
        own = own_class((logits - self.target_value).square(), targets)
        return (self.true_class_weight * own + other_classes(logits.square(), targets)) / self.num_classes


def square_loss_settings(num_classes: int) -> tuple[float, float]:
    """k and M for a number of classes, by the paper's table; more than its 1000 classes get those of 1000.

    >>> square_loss_settings(10), square_loss_settings(100), square_loss_settings(1000)
    ((1.0, 1.0), (1.0, 15.0), (15.0, 30.0))
    """
    if num_classes <= 42:
        return 1.0, 1.0
    return (1.0, 15.0) if num_classes < 1000 else (15.0, 30.0)
