"""``rivals``: a sample is nearer to its own centroid than to others, than other samples are to it, and than it is to them.

Shapes: B samples of this rank, R rivals, K classes or samples that have them, C classes.

Rivals may be spread over ranks. So there are three steps: the :class:`Rivals` that this rank knows of, :func:`rival_level` of
their sums over all ranks, and :func:`rival_losses` of this rank's samples.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Of the exponent between two samples: their divergence has the scatter of both in it, and the nearest of many samples says
# less than the nearest centroid. With the whole exponent ten classes of Fashion-MNIST are learned worse than without.
_BETWEEN_SAMPLES = 0.5
# The logit of what is no rival: nothing in a sum beside any other. A sum of −∞ alone would have no gradient.
_NEVER = -1e30


class Rivals(NamedTuple):
    """Samples that a class, or a sample, is compared with.

    Args:
        log_total: logarithm of the sum of exp(logit) over them (K,), larger where they are nearer; −1e30 or less if
            there are none.
        count: how many each has, (K,), in sums of shares for soft labels.
    """

    log_total: Tensor
    count: Tensor


def rivals_of_classes(logits: Tensor, targets: Tensor, valid: Tensor | None = None) -> Rivals:
    """The samples of other classes, seen from each class.

    Args:
        logits: (B, C).
        targets: class indices (B,), or soft labels (B, C), of which t is a share 1 − t of a sample of other classes.
        valid: False for samples that do not count, (B,).
    """
    if targets.is_floating_point():
        share = (1 - targets).clamp_min(0)
    else:
        share = targets.unsqueeze(1) != torch.arange(logits.shape[1], device=logits.device)
    if valid is not None:
        share = share * valid.unsqueeze(1)
    return _rivals(logits, share, dim=0)


def rivals_of_samples(logits: Tensor, targets: Tensor, their_targets: Tensor) -> Rivals:
    """The samples of other classes, seen from each sample.

    Args:
        logits: (B, R), of samples and those that may be their rivals.
        targets: class indices (B,), or soft labels (B, C).
        their_targets: those of all R. Two soft labels make rivals by the share in which they differ, half of
            Σ_y abs(t_y − t'_y): equal ones do not. A class index below 0, or a row of zeros, marks a sample that does not
            count.
    """
    if targets.is_floating_point():
        share = torch.cdist(targets, their_targets, p=1) / 2 * (their_targets.sum(dim=1) > 0)
    else:
        share = (targets.unsqueeze(1) != their_targets) & (their_targets >= 0)
    return _rivals(_BETWEEN_SAMPLES * logits, share, dim=1)


def _rivals(logits: Tensor, share: Tensor, dim: int) -> Rivals:
    """Sums over rivals of which only a share counts: a number, or yes or no."""
    if share.dtype != torch.bool:
        logits = logits + share.where(share > 0, 1.0).log()
    return Rivals(logits.masked_fill(share == 0, _NEVER).logsumexp(dim), share.sum(dim, dtype=logits.dtype))


def rival_level(rivals: Rivals, num_classes: int) -> Tensor:
    """The logit (K,) that would weigh as much as C − 1 average rivals; far below all others where there is none.

    Shares of soft labels that do not add up to one rival count as they are.
    """
    return rivals.log_total - rivals.count.clamp_min(1).log() + math.log(num_classes - 1)


def rival_losses(logits: Tensor, targets: Tensor, class_level: Tensor, sample_level: Tensor) -> Tensor:
    r"""Losses (B,): a third each for other centroids, for other samples at the own centroid, and for those at the sample.

    .. math::
        \tfrac13\ln\Bigl(1+\sum_{v\ne y} e^{l_{xv}-l_{xy}}\Bigr)
        +\tfrac13\ln\Bigl(1+\frac{C-1}{n}\sum_{x':\,c_{x'}\ne y} e^{l_{x'y}-l_{xy}}\Bigr)
        +\tfrac13\ln\Bigl(1+\frac{C-1}{n}\sum_{x':\,c_{x'}\ne y} e^{(l_{xx'}-l_{xy})/2}\Bigr)

    With :math:`l_{xv}=-k\ln D(p_x\|q^v)` and :math:`l_{xx'}=-k\ln D(p_x\|p_{x'})` all sums are of ratios of divergences,
    :math:`D_{xy}^k` over those from a rival centroid, of a rival sample from the own centroid, and from a rival sample; these
    last with half the exponent. The last two are means over n samples of other classes, times as many rivals as the first has,
    so they do not grow with the batch. They are zero where it has no other class.

    Args:
        logits: (B, C).
        targets: class indices (B,) or soft labels (B, C).
        class_level: :func:`rival_level` of the classes, (C,).
        sample_level: that of these samples, (B,).
    """
    chosen = F.cross_entropy(logits, targets, reduction="none")
    if targets.is_floating_point():
        choosing = (targets * F.softplus(class_level - logits)).sum(dim=1)
        apart = (targets * F.softplus(sample_level.unsqueeze(1) - _BETWEEN_SAMPLES * logits)).sum(dim=1)
    else:
        own = logits.gather(1, targets.unsqueeze(1)).squeeze(1)
        choosing, apart = F.softplus(class_level[targets] - own), F.softplus(sample_level - _BETWEEN_SAMPLES * own)
    return (chosen + choosing + apart) / 3
