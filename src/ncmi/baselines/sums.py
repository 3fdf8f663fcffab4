"""Sums over classes, over the samples of a class and over ranks, from which the baselines are formed.

Shapes: B samples of this rank, N samples of all ranks, C classes, K width of whatever is summed.
"""

import torch
from torch import Tensor

from ncmi.weighting import WeightedTargets


def own_class(values: Tensor, targets: Tensor) -> Tensor:
    """Entry (B,) of each row of ``values`` (B, C) at its class; for soft labels (B, C), Σ_y t_y·values_y.

    >>> own_class(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([1]))
    tensor([2.])
    """
    if targets.is_floating_point():
        return (values * targets).sum(dim=1)
    return values.gather(1, targets.unsqueeze(1)).squeeze(1)


def other_classes(values: Tensor, targets: Tensor) -> Tensor:
    """Sum (B,) of each row of ``values`` (B, C) over all classes but its own; for soft labels, Σ_y t_y Σ_{j≠y} values_j.

    The own entry is left out, not subtracted: it may be larger than the others by any factor.

    >>> other_classes(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([1]))
    tensor([4.])
    """
    if targets.is_floating_point():
        return (values * (targets.sum(dim=1, keepdim=True) - targets)).sum(dim=1)
    return values.scatter(1, targets.unsqueeze(1), 0.0).sum(dim=1)


def class_sums(values: Tensor, labels: WeightedTargets, num_classes: int) -> Tensor:
    """Sum (C, K) of the rows of ``values`` (B, K) over the samples of each class, with their weights."""
    if labels.targets.is_floating_point():
        return labels.targets.T @ values
    if labels.weight is not None:
        values = values * labels.weight.unsqueeze(1)
    return values.new_zeros(num_classes, values.shape[1]).index_add(0, labels.targets, values)


def class_counts(labels: WeightedTargets, num_classes: int, dtype: torch.dtype) -> Tensor:
    """Number (C,) of samples of each class, with their weights."""
    ones = torch.ones(len(labels.targets), 1, dtype=dtype, device=labels.targets.device)
    return class_sums(ones, labels, num_classes).squeeze(1)


def mean_of(total: Tensor, count: Tensor) -> Tensor:
    """``total / count``, or ``total`` (an empty sum, zero) where nothing was counted."""
    return total / torch.where(count > 0, count, torch.ones_like(count))
