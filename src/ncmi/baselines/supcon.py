"""Supervised contrastive loss.

Shapes: B samples of this rank, V views, P projection width, A = B·V anchors, N vectors of all ranks.
"""

from typing import Literal

import torch
from torch import Tensor

from ncmi.baselines.base import Baseline
from ncmi.baselines.inputs import check_number, check_views
from ncmi.checks import choose
from ncmi.distributed import gather_rows
from ncmi.functional import scale_features
from ncmi.weighting import WeightedTargets

Scale = Literal["none", "temperature", "base_temperature"]


class SupCon(Baseline):
    r"""Supervised contrastive loss of two or more augmented views (Khosla et al., 2020), the mean over all anchors i of

    .. math:: -\frac{1}{|P(i)|}\sum_{p\in P(i)}\left[\frac{v_i\cdot v_p}{\tau} - \ln\sum_{a\ne i} e^{v_i\cdot v_a/\tau}\right]

    The vectors v are the projections, scaled here to length one; P(i) are the other vectors of i's label, among them its
    other views. Under a process group the vectors of all ranks take part, each with its gradient.

    Projections come from a :class:`ncmi.baselines.ProjectionHead`, which is dropped after training: then the encoder is
    frozen and a linear probe decides. The loss forms a matrix of A×N products.

    Args:
        num_classes: C, to check labels with.
        temperature: τ; 0.1 as in the authors' CIFAR command and all of Google's configurations (the authors' constructor
            has 0.07).
        scale: a factor before the loss. ``"none"`` (default): 1, the formula; ``"temperature"``: τ, as in Google's code;
            ``"base_temperature"``: τ/base_temperature, as in the authors' PyTorch code. It acts like a learning rate.
        base_temperature: 0.07 in the authors' PyTorch code; used by ``scale="base_temperature"`` alone.
        summation: ``"outside"`` (default): the sum over positives stands outside the logarithm, the paper's L_out;
            ``"inside"``: its L_in, which the paper finds worse.
        ignore_index: label of samples to leave out.

    Shape:
        projections (B, V, P) with V ≥ 2; targets (B,) class indices; output a scalar.

    >>> first, second = torch.randn(16, 8, requires_grad=True), torch.randn(16, 8, requires_grad=True)
    >>> SupCon(num_classes=3)(torch.stack((first, second), dim=1), torch.randint(3, (16,))).backward()
    """

    takes = "views"
    takes_soft_labels = False

    def __init__(
        self,
        num_classes: int,
        *,
        temperature: float = 0.1,
        scale: Scale = "none",
        base_temperature: float = 0.07,
        summation: Literal["outside", "inside"] = "outside",
        ignore_index: int = -100,
    ):
        super().__init__(num_classes, ignore_index=ignore_index)
        self.temperature = check_number("SupCon", "temperature", temperature, above=0)
        self.scale = choose("SupCon", "scale", scale, ("none", "temperature", "base_temperature"))
        self.base_temperature = check_number("SupCon", "base_temperature", base_temperature, above=0)
        self.summation = choose("SupCon", "summation", summation, ("outside", "inside"))

    @property
    def factor(self) -> float:
        """What ``scale`` multiplies the loss by."""
        if self.scale == "none":
            return 1.0
        return self.temperature if self.scale == "temperature" else self.temperature / self.base_temperature

    def forward(self, projections: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch: projections (B, V, P), targets (B,) class indices."""
        check_views("SupCon", projections)
        return self._evaluate(targets, projections)

    def _compute(self, labels: WeightedTargets, *inputs: Tensor) -> Tensor:
        (projections,) = inputs
        num_views = projections.shape[1]
        vectors = scale_features(projections.flatten(0, 1), None, 1.0)
        targets = labels.targets if labels.valid is None else labels.targets.where(labels.valid, -1)
        targets = targets.repeat_interleave(num_views)
        everyone, their_targets, own = vectors, targets, slice(0, len(targets))
        if self.training:
            everyone, their_targets, own = gather_rows(vectors, targets)
        positions = torch.arange(len(their_targets), device=targets.device)
        # An anchor is no partner of its own, and ignored samples are nobody's: both leave before the logarithm.
        excluded = (positions[own].unsqueeze(1) == positions) | (their_targets < 0)
        similarity = (vectors @ everyone.T / self.temperature).masked_fill(excluded, -torch.inf)
        positive = (targets.unsqueeze(1) == their_targets) & ~excluded
        losses = similarity.logsumexp(dim=1) - self._positives(similarity, positive, excluded)
        (total,) = self._over_ranks((losses * (targets >= 0)).sum())
        return self.factor * total / (num_views * labels.total)

    def _positives(self, similarity: Tensor, positive: Tensor, excluded: Tensor) -> Tensor:
        """What each anchor's positives (A,) add: their mean similarity, or the logarithm of their mean exponential."""
        count = positive.sum(dim=1)
        if self.summation == "outside":
            return torch.where(positive, similarity, 0.0).sum(dim=1) / count.clamp_min(1)
        # Ignored anchors have no positives; any finite number will do for them, as they count nothing.
        among = positive | ((count == 0).unsqueeze(1) & ~excluded)
        return (
            torch.where(among, similarity, -torch.inf).logsumexp(dim=1) - among.sum(dim=1, dtype=similarity.dtype).log()
        )
