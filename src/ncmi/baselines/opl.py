"""Cross-entropy with orthogonal projection loss.

Shapes: B samples of this rank, N samples of all ranks, C classes, D feature width.
"""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from ncmi.baselines.base import Baseline
from ncmi.baselines.inputs import check_number, check_rows, check_same_length
from ncmi.baselines.sums import class_counts, class_sums, mean_of, own_class
from ncmi.checks import choose
from ncmi.distributed import gather_rows
from ncmi.functional import scale_features
from ncmi.weighting import WeightedTargets

Negative = Literal["mean", "abs_mean", "mean_abs"]


class OPL(Baseline):
    r"""Cross-entropy plus orthogonal projection loss (Ranasinghe et al., 2021).

    .. math:: \mathrm{CE} + \lambda\,[(1 - s) + \gamma\,d]

    With features scaled to length one, s is the mean of :math:`f_i\cdot f_j` over the pairs i ≠ j of one label in the global
    batch, d that over the pairs of two labels, in one of three forms. A mean over no pairs is zero and has no gradient.

    ``"mean"`` and ``"abs_mean"`` take time O(BD); ``"mean_abs"`` needs a matrix of B×N products.

    Args:
        num_classes: C.
        opl_weight: λ; 1 is the README's default.
        gamma: γ; 0.5 is the README's default.
        negative: what d is. ``"abs_mean"`` (default): the paper's :math:`|\mathrm{mean}\,f_i\cdot f_j|`. ``"mean_abs"``:
            :math:`\mathrm{mean}\,|f_i\cdot f_j|`, as in the published CIFAR and ImageNet training code. ``"mean"``: without
            absolute value, as in the published ``loss.py``.
        ignore_index: label of samples to leave out.

    Shape:
        logits (B, C), features (B, D), targets (B,) class indices; output a scalar.

    >>> import torch
    >>> logits, features = torch.randn(16, 3, requires_grad=True), torch.randn(16, 8, requires_grad=True)
    >>> OPL(num_classes=3)(logits, features, torch.randint(3, (16,))).backward()
    """

    takes = "logits and features"
    takes_soft_labels = False

    def __init__(
        self,
        num_classes: int,
        *,
        opl_weight: float = 1.0,
        gamma: float = 0.5,
        negative: Negative = "abs_mean",
        ignore_index: int = -100,
    ):
        super().__init__(num_classes, ignore_index=ignore_index)
        self.opl_weight = check_number("OPL", "opl_weight", opl_weight, at_least=0)
        self.gamma = check_number("OPL", "gamma", gamma, at_least=0)
        self.negative = choose("OPL", "negative", negative, ("abs_mean", "mean_abs", "mean"))

    def forward(self, logits: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch: logits (B, C), features (B, D), targets (B,) class indices."""
        check_rows("OPL", "logits", logits, self.num_classes, "num_classes")
        check_rows("OPL", "features", features, None)
        check_same_length("OPL", logits, features)
        return self._evaluate(targets, logits, features)

    def _compute(self, labels: WeightedTargets, *inputs: Tensor) -> Tensor:
        logits, features = inputs
        features = scale_features(features, None, 1.0)
        sums, counts = self._over_ranks(
            class_sums(features, labels, self.num_classes), class_counts(labels, self.num_classes, features.dtype)
        )
        # Each sample meets the rest of its class: a class of one sample gives zero without rounding.
        same = (features * (sums.index_select(0, labels.targets) - features)).sum(dim=1)
        cross_entropy = own_class(-F.log_softmax(logits, dim=1), labels.targets)
        if labels.weight is not None:
            same, cross_entropy = same * labels.weight, cross_entropy * labels.weight
        if self.negative == "mean_abs":
            local = (cross_entropy.sum(), same.sum(), self._absolute_products(features, labels))
            cross_entropy, same, different = self._over_ranks(*local)
        else:
            cross_entropy, same = self._over_ranks(cross_entropy.sum(), same.sum())
            different = (sums * (sums.sum(dim=0) - sums)).sum()
        similarity = mean_of(same, (counts * (counts - 1)).sum())
        difference = mean_of(different, (counts * (counts.sum() - counts)).sum())
        if self.negative == "abs_mean":
            difference = difference.abs()
        return cross_entropy / labels.total + self.opl_weight * ((1 - similarity) + self.gamma * difference)

    def _absolute_products(self, features: Tensor, labels: WeightedTargets) -> Tensor:
        """Σ |f_i·f_j| over this rank's samples i and all samples j of other labels."""
        targets = labels.targets if labels.valid is None else labels.targets.where(labels.valid, -1)
        everyone, their_targets = gather_rows(features, targets)[:2] if self.training else (features, targets)
        differ = (targets.unsqueeze(1) != their_targets) & (targets.unsqueeze(1) >= 0) & (their_targets >= 0)
        return ((features @ everyone.T).abs() * differ).sum()
