"""Cross-entropy with center loss.

Shapes: B samples, C classes, D feature width.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ncmi.baselines.base import Baseline
from ncmi.baselines.inputs import check_num_features, check_number, check_rows, check_same_length
from ncmi.baselines.sums import class_counts, class_sums, own_class
from ncmi.buffers import set_buffers
from ncmi.weighting import WeightedTargets


class CenterLoss(Baseline):
    r"""Cross-entropy plus :math:`\frac\lambda2\|f - c_y\|^2` (Wen et al., 2016), with a centre c for each class.

    **This loss has state** (the centres, a buffer): move it to the model's device and save its ``state_dict``. It needs no
    optimiser: after each training step's loss the centres take the paper's own step,

    .. math:: c_j \leftarrow c_j - \alpha\,\frac{\sum_{x: y_x=j}(c_j - f_x)}{1 + n_j}

    over the n_j samples of class j in the global batch; absent classes stay. A sample of weight 2 counts as two.

    Args:
        num_classes: C.
        num_features: D.
        center_weight: λ; 0.003 is the paper's value (recalled, not checked again).
        center_lr: α; 0.5 is the paper's value (recalled, not checked again).
        settings: ``weight``, ``ignore_index`` and ``reduction``; see :class:`ncmi.baselines.base.Baseline`.

    Shape:
        logits (B, C), features (B, D), targets (B,) class indices; output a scalar, or (B,) for ``"none"``.

    >>> loss = CenterLoss(num_classes=3, num_features=8)
    >>> logits, features = torch.randn(16, 3, requires_grad=True), torch.randn(16, 8, requires_grad=True)
    >>> loss(logits, features, torch.randint(3, (16,))).backward()
    """

    takes = "logits and features"
    takes_soft_labels = False
    takes_num_features = True
    centers: Tensor

    def __init__(
        self,
        num_classes: int,
        num_features: int,
        *,
        center_weight: float = 0.003,
        center_lr: float = 0.5,
        **settings: Any,
    ):
        super().__init__(num_classes, **settings)
        self.num_features = check_num_features("CenterLoss", num_features)
        self.center_weight = check_number("CenterLoss", "center_weight", center_weight, at_least=0)
        self.center_lr = check_number("CenterLoss", "center_lr", center_lr, at_least=0)
        # Any start will do: at α = 0.5 a class's first batches take its centre most of the way.
        self.register_buffer("centers", torch.zeros(num_classes, num_features))

    def forward(self, logits: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch: logits (B, C), features (B, D), targets (B,) class indices."""
        check_rows("CenterLoss", "logits", logits, self.num_classes, "num_classes")
        check_rows("CenterLoss", "features", features, self.num_features, "num_features")
        check_same_length("CenterLoss", logits, features)
        return self._evaluate(targets, logits, features)

    def _compute(self, labels: WeightedTargets, *inputs: Tensor) -> Tensor:
        logits, features = inputs
        own = self.centers.index_select(0, labels.targets).to(features.dtype)
        distances = (features - own).square().sum(dim=1)
        cross_entropy = own_class(-F.log_softmax(logits, dim=1), labels.targets)
        loss = self._reduce(cross_entropy + 0.5 * self.center_weight * distances, labels)
        if self.training:
            self._update(features.detach(), labels)
        return loss

    @torch.no_grad()
    def _update(self, features: Tensor, labels: WeightedTargets) -> None:
        sums, counts = self._over_ranks(
            class_sums(features, labels, self.num_classes), class_counts(labels, self.num_classes, features.dtype)
        )
        counts = counts.unsqueeze(1)
        centers = self.centers.to(features.dtype)
        step = self.center_lr * (counts * centers - sums) / (1 + counts)
        set_buffers(self, centers=(centers - step).to(self.centers.dtype))
