"""Cross-entropy with contrastive-center loss.

Shapes: B samples, C classes, D feature width.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ncmi.baselines.base import Baseline
from ncmi.baselines.inputs import check_num_features, check_number, check_rows, check_same_length
from ncmi.baselines.sums import own_class
from ncmi.distributed import equal_gradient
from ncmi.weighting import WeightedTargets


class ContrastiveCenterLoss(Baseline):
    r"""Cross-entropy plus a ratio of distances to class centres (Qi and Su, 2017).

    .. math:: \mathrm{CE} + \frac\lambda2\,\frac{\|f-c_y\|^2}{\sum_{j\ne y}\|f-c_j\|^2 + \delta}

    The published NCMI script has this shape, with divergences in place of distances and with fixed centres.

    **This loss has parameters** (the centres): give them to the optimiser with :func:`ncmi.parameter_groups`
    (``centroid_lr=loss.parameter_lr``), move the loss to the model's device, and save its ``state_dict``.

    Args:
        num_classes: C.
        num_features: D.
        center_weight: λ; 1 is the value of the usual port, named in ``docs/losses.md`` (the paper's was not found).
        delta: δ; 1 is the paper's value.
        settings: ``weight``, ``ignore_index`` and ``reduction``; see :class:`ncmi.baselines.base.Baseline`.

    Shape:
        logits (B, C), features (B, D), targets (B,) class indices; output a scalar, or (B,) for ``"none"``.

    >>> loss = ContrastiveCenterLoss(num_classes=3, num_features=8)
    >>> logits, features = torch.randn(16, 3, requires_grad=True), torch.randn(16, 8, requires_grad=True)
    >>> loss(logits, features, torch.randint(3, (16,))).backward()
    """

    takes = "logits and features"
    takes_soft_labels = False
    takes_num_features = True
    parameter_lr = 0.5  # the port's; the paper's was not found

    def __init__(
        self, num_classes: int, num_features: int, *, center_weight: float = 1.0, delta: float = 1.0, **settings: Any
    ):
        super().__init__(num_classes, **settings)
        self.num_features = check_num_features("ContrastiveCenterLoss", num_features)
        self.center_weight = check_number("ContrastiveCenterLoss", "center_weight", center_weight, at_least=0)
        self.delta = check_number("ContrastiveCenterLoss", "delta", delta, above=0)
        # Standard normal, as the port starts: centres that start equal would separate nothing at first.
        self.centers = nn.Parameter(torch.randn(num_classes, num_features))

    def forward(self, logits: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch: logits (B, C), features (B, D), targets (B,) class indices."""
        check_rows("ContrastiveCenterLoss", "logits", logits, self.num_classes, "num_classes")
        check_rows("ContrastiveCenterLoss", "features", features, self.num_features, "num_features")
        check_same_length("ContrastiveCenterLoss", logits, features)
        return self._evaluate(targets, logits, features)

    def _compute(self, labels: WeightedTargets, *inputs: Tensor) -> Tensor:
        logits, features = inputs
        centers = equal_gradient(self.centers) if self.training else self.centers
        own, others = center_distances(features, centers.to(features.dtype), labels.targets)
        cross_entropy = own_class(-F.log_softmax(logits, dim=1), labels.targets)
        return self._reduce(cross_entropy + 0.5 * self.center_weight * own / (others + self.delta), labels)


def center_distances(features: Tensor, centers: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distance (B,) of each sample to its own centre, and the sum (B,) of those to all other centres.

    Distances to many points sum to as many times the distance to their mean, plus their spread around it: O(BD + CD).

    >>> centers = torch.tensor([[0.0, 0.0], [3.0, 0.0], [1.0, 2.0], [2.0, 1.0], [2.0, 1.0]])
    >>> center_distances(torch.tensor([[1.0, 0.0]]), centers, torch.tensor([0]))
    (tensor([1.]), tensor([12.]))
    """
    others = len(centers) - 1
    mean = centers.mean(dim=0)
    offset = centers - mean
    mean_of_others = mean - offset / others
    squares = offset.square().sum(dim=1)
    # Zero for two classes, where the difference can round to less.
    spread_of_others = (squares.sum() - squares * (len(centers) / others)).clamp_min(0)
    own = (features - centers.index_select(0, targets)).square().sum(dim=1)
    to_mean = (features - mean_of_others.index_select(0, targets)).square().sum(dim=1)
    return own, others * to_mean + spread_of_others.index_select(0, targets)
