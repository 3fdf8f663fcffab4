"""``matching``: samples choose among centroids, and centroids among samples.

Shapes: B samples, C classes.

The samples that a centroid chooses among may be spread over ranks. So there are three steps: :func:`rivals` of this rank's
samples, :func:`rival_level` of the sums over all ranks, and :func:`matching`, the losses of this rank's samples.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Rivals(NamedTuple):
    """The samples of other classes, seen from each class.

    Args:
        logits: (B, C), −∞ where a sample belongs to the class or does not count.
        count: how many they are, (C,).
    """

    logits: Tensor
    count: Tensor

    @property
    def peak(self) -> Tensor:
        """The largest logit of each class (C,), without a gradient; −∞ of a class that has no rivals."""
        floor = self.logits.new_full((1, self.logits.shape[1]), -math.inf)  # for a rank without samples
        return torch.cat([self.logits.detach(), floor]).amax(dim=0)

    def total(self, peak: Tensor) -> Tensor:
        """Sums (C,) of exp(logit − peak); ``peak`` (C,) is the largest of all ranks."""
        return (self.logits - peak.masked_fill(peak == -math.inf, 0.0)).exp().sum(dim=0)


def rivals(logits: Tensor, targets: Tensor, valid: Tensor | None = None) -> Rivals:
    """The rivals of each class in a batch.

    Args:
        logits: (B, C).
        targets: class indices (B,), or soft labels (B, C), of which t is a share 1 − t of a sample of other classes.
        valid: False for samples that do not count, (B,).
    """
    own = targets if targets.is_floating_point() else F.one_hot(targets, logits.shape[1]).to(logits.dtype)
    share = (1 - own).clamp_min(0)
    if valid is not None:
        share = share * valid.unsqueeze(1)
    return Rivals(logits + share.log(), share.sum(dim=0))


def rival_level(total: Tensor, count: Tensor, peak: Tensor) -> Tensor:
    """The logit (C,) that would weigh as much as C − 1 average rivals of the class; −∞ where there is none."""
    some = count > 0
    mean = torch.where(some, total, 1.0) / torch.where(some, count, 1.0)
    return torch.where(some, peak + mean.log() + math.log(len(count) - 1), -math.inf)


def matching(logits: Tensor, targets: Tensor, level: Tensor) -> Tensor:
    r"""Losses (B,): half for the sample's choice of a centroid, half for the centroid's choice of a sample.

    .. math::
        \tfrac12\ln\Bigl(1+\sum_{v\ne y} e^{l_{xv}-l_{xy}}\Bigr)
        +\tfrac12\ln\Bigl(1+\frac{C-1}{n}\sum_{x':\,c_{x'}\ne y} e^{l_{x'y}-l_{xy}}\Bigr)

    With :math:`l_{xv}=-k\ln D(p_x\|q^v)` both sums are of ratios of divergences, :math:`(D_{xy}/D_{xv})^k` and
    :math:`(D_{xy}/D_{x'y})^k`. The second is a mean over the n samples of other classes, times as many competitors as the
    first has, so it does not grow with the batch. It is zero where a batch has no other class.

    Args:
        logits: (B, C).
        targets: class indices (B,) or soft labels (B, C).
        level: :func:`rival_level` of all samples that count, (C,).
    """
    chosen = F.cross_entropy(logits, targets, reduction="none")
    if targets.is_floating_point():
        choosing = (targets * F.softplus(level - logits)).sum(dim=1)
    else:
        choosing = F.softplus(level[targets] - logits.gather(1, targets.unsqueeze(1)).squeeze(1))
    return (chosen + choosing) / 2
