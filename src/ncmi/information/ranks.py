"""How well a number tells two kinds of samples apart.

Shapes: N samples.
"""

import torch
from torch import Tensor


def auroc(numbers: Tensor, positive: Tensor) -> float:
    """The chance that a positive sample has a larger number than a negative one; ties count half.

    Args:
        numbers: (N,).
        positive: bool (N,), some true and some false.

    >>> auroc(torch.tensor([0.1, 0.4, 0.4, 0.8]), torch.tensor([False, False, True, True]))
    0.875
    """
    count = int(positive.sum())
    if not 0 < count < len(positive):
        raise ValueError(f"auroc: needs samples of both kinds; got {count} positive ones of {len(positive)}.")
    _, place, sizes = numbers.double().unique(sorted=True, return_inverse=True, return_counts=True)
    ranks = sizes.cumsum(0).double() - (sizes - 1).double() / 2  # the mean rank of equal numbers
    total = ranks[place][positive].sum().item()
    return (total - count * (count + 1) / 2) / (count * (len(positive) - count))


def precision_at(numbers: Tensor, positive: Tensor, count: int) -> float:
    """The share of positive samples among the ``count`` with the largest numbers.

    >>> precision_at(torch.tensor([0.1, 0.4, 0.9, 0.8]), torch.tensor([False, False, True, False]), 2)
    0.5
    """
    return positive[numbers.topk(count).indices].double().mean().item()


def rank_correlation(first: Tensor, second: Tensor) -> float:
    """Spearman's rank correlation of two lists (N,), equal numbers at their mean rank.

    >>> round(rank_correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 90.0])), 6)
    1.0
    """
    ranks = torch.stack([_mean_ranks(first), _mean_ranks(second)])
    return float(torch.corrcoef(ranks)[0, 1])


def _mean_ranks(numbers: Tensor) -> Tensor:
    _, place, sizes = numbers.double().unique(sorted=True, return_inverse=True, return_counts=True)
    return (sizes.cumsum(0).double() - (sizes - 1).double() / 2)[place]
