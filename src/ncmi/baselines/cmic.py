"""Cross-entropy constrained by conditional mutual information (CMIC-DL).

Shapes: B samples, C classes. Points and centroids live in the simplex of C class probabilities.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ncmi.baselines.base import Baseline
from ncmi.baselines.inputs import check_number, check_rows
from ncmi.baselines.sums import class_counts, class_sums, mean_of, own_class
from ncmi.buffers import set_buffers
from ncmi.checks import choose
from ncmi.weighting import WeightedTargets


class CMIC(Baseline):
    r"""Cross-entropy plus λ·CMI minus β·separation, on softmax outputs P (Yang, Hamidi, Ye, Tan and Yang, 2023).

    .. math:: \frac1B\sum_x\left[\mathrm{CE}_x + \lambda D(P_x\|Q_{y_x})\right]
              - \frac{\beta}{B^2}\sum_{x,u:\,y_x\ne y_u} H(P_x, P_u)

    D is the Kullback–Leibler divergence and H the cross-entropy. Soft labels count a pair of two samples by the probability
    that their labels differ. The pairs are summed class by class, in time O(BC + C²).

    **This loss has state** (the class centroids Q and how much they rest on, two buffers): move it to the model's device and
    save its ``state_dict``. It needs no optimiser: Q is a constant of each step's gradient, and moves after it. Q_c is the
    weighted mean of the class's means :math:`\mathrm{mean}_{x\in c} P_x` in the global batches that held it; the newest has
    weight 1, and each new one multiplies the older weights by m. Before its first batch a class has a uniform Q.

    The nearest published code takes :math:`Q_c \leftarrow mQ_c + (1-m)\,\mathrm{mean}` from a uniform start. At m = 0.9999
    half of that start is left after 7000 updates, so in a shorter training the CMI term would pull towards uniform outputs
    and not towards the class. The weighted mean forgets the start at once and becomes that rule with time. (That code also
    passes eight stored images of every class through the network for the mean.)

    Args:
        num_classes: C.
        cmi_weight: λ. Required: the paper tunes it per model, and its values were not checked; 0.1 is a guess to start from.
        separation_weight: β. Required for the same reason; 0.1 is a guess to start from.
        momentum: m; 0.9999 is the nearest published code's value.
        detach_log: whether no gradient flows through ln P_u, as in that code.
        normalize: ``"batch_squared"`` (default): divide the pairs' sum by B², the paper's; ``"pairs"``: by the number of pairs
            with different labels, as in that code.
        smallest_prob: floor of P_u inside H, where it has no gradient. Without one, −β·H has no lower bound. 1e-25 is
            that code's value.
        ignore_index: label of samples to leave out.

    Shape:
        logits (B, C); targets (B,) class indices or (B, C) soft labels; output a scalar.

    >>> loss = CMIC(num_classes=3, cmi_weight=0.1, separation_weight=0.1)
    >>> loss(torch.randn(16, 3, requires_grad=True), torch.randint(3, (16,))).backward()
    """

    takes = "logits"
    centroids: Tensor
    updates: Tensor

    def __init__(
        self,
        num_classes: int,
        *,
        cmi_weight: float,
        separation_weight: float,
        momentum: float = 0.9999,
        detach_log: bool = False,
        normalize: Literal["batch_squared", "pairs"] = "batch_squared",
        smallest_prob: float = 1e-25,
        ignore_index: int = -100,
    ):
        super().__init__(num_classes, ignore_index=ignore_index)
        self.cmi_weight = check_number("CMIC", "cmi_weight", cmi_weight, at_least=0)
        self.separation_weight = check_number("CMIC", "separation_weight", separation_weight, at_least=0)
        self.momentum = check_number("CMIC", "momentum", momentum, at_least=0, below=1)
        self.detach_log = detach_log
        self.normalize = choose("CMIC", "normalize", normalize, ("batch_squared", "pairs"))
        self.smallest_prob = check_number("CMIC", "smallest_prob", smallest_prob, above=0, below=1)
        self.register_buffer("centroids", torch.full((num_classes, num_classes), 1 / num_classes))
        # How many updates each class has had, older ones counting less: 1 + m + m² + …
        self.register_buffer("updates", torch.zeros(num_classes))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch: logits (B, C), targets (B,) class indices or (B, C) soft labels."""
        check_rows("CMIC", "logits", logits, self.num_classes, "num_classes")
        return self._evaluate(targets, logits)

    def _compute(self, labels: WeightedTargets, *inputs: Tensor) -> Tensor:
        log_probs = F.log_softmax(inputs[0], dim=1)
        probs = log_probs.exp()
        losses = own_class(-log_probs, labels.targets) + self.cmi_weight * self._divergence(log_probs, probs, labels)
        if labels.weight is not None:
            losses = losses * labels.weight
        floored = log_probs.clamp_min(math.log(self.smallest_prob))
        floored = floored.detach() if self.detach_log else floored
        own_pairs = self._own_pairs(labels, probs)
        total, own_pairs_total, own_separation, counts, prob_sum, log_sum = self._over_ranks(
            losses.sum(),
            own_pairs.sum(),
            -(own_pairs * (probs * floored).sum(dim=1)).sum(),
            class_counts(labels, self.num_classes, probs.dtype),
            class_sums(probs, labels, self.num_classes),
            class_sums(floored, labels, self.num_classes),
        )
        # The samples of all other classes: exactly none if the batch holds one class.
        separation = -(prob_sum * (log_sum.sum(dim=0) - log_sum)).sum() - own_separation
        if self.normalize == "pairs":
            # A lone sample has no pairs, but with a soft label the difference would round to a few.
            pairs = ((counts * (counts.sum() - counts)).sum() - own_pairs_total) * (labels.total > 1)
            separation = mean_of(separation, pairs)
        else:
            separation = separation / labels.total**2
        if self.training:
            self._update(prob_sum.detach(), counts)
        return total / labels.total - self.separation_weight * separation

    def _own_pairs(self, labels: WeightedTargets, probs: Tensor) -> Tensor:
        """How much (B,) each sample is paired with itself in the class sums: not at all unless its label is soft."""
        if labels.targets.is_floating_point():
            return (labels.targets * (1 - labels.targets)).sum(dim=1)
        return probs.new_zeros(len(probs))

    def _divergence(self, log_probs: Tensor, probs: Tensor, labels: WeightedTargets) -> Tensor:
        """D(P_x‖Q_y) (B,), with Q a constant."""
        # The mean of certain outputs can underflow; its logarithm is then that of the smallest number.
        log_centroids = self.centroids.clamp_min(torch.finfo(self.centroids.dtype).tiny).log().to(probs.dtype)
        if labels.targets.is_floating_point():
            log_own = labels.targets @ log_centroids
            log_probs = log_probs * labels.targets.sum(dim=1, keepdim=True)
        else:
            log_own = log_centroids.index_select(0, labels.targets)
        return (probs * (log_probs - log_own)).sum(dim=1)

    @torch.no_grad()
    def _update(self, prob_sum: Tensor, counts: Tensor) -> None:
        """Let the classes of the batch take in its means; the others keep what they have."""
        present = counts > 0
        centroids, updates = self.centroids.to(prob_sum.dtype), self.updates.to(prob_sum.dtype)
        updates = torch.where(present, self.momentum * updates + 1, updates)
        step = (mean_of(prob_sum, counts.unsqueeze(1)) - centroids) / updates.clamp_min(1).unsqueeze(1)
        centroids = torch.where(present.unsqueeze(1), centroids + step, centroids)
        set_buffers(self, centroids=centroids.to(self.centroids.dtype), updates=updates.to(self.updates.dtype))
