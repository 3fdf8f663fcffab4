"""What a bag model looks at: attention weights of the instances of one bag, and the instances that get most of it.

Shapes: N instances of a bag, H attention heads.
"""

from typing import NamedTuple

from torch import Tensor


class AttendedInstance(NamedTuple):
    """An instance with its place among those of its bag.

    Attributes:
        rank: 1 for the largest weight.
        index: its row in the bag, from 0.
        x: first coordinate, or ``None`` where the bag has no coordinates.
        y: second coordinate.
        weight: its attention weight; those of a bag sum to one.
        share: of the total, what this instance and those of smaller rank have together; 1 for the last rank.
    """

    rank: int
    index: int
    x: int | None
    y: int | None
    weight: float
    share: float


def head_weights(logits: Tensor) -> Tensor:
    r"""Attention weights (N, H) in float64: for each head :math:`h` the softmax over the bag's instances.

    .. math:: a_{ih} = e^{z_{ih}} / \sum_j e^{z_{jh}}

    Args:
        logits: (N, H) of one bag, as in :class:`ncmi.models.mil.BagOutput`. A group of bags must be split first.

    >>> import torch
    >>> head_weights(torch.tensor([[0.0, 0.0], [0.0, 1.0986123]]))
    tensor([[0.5000, 0.2500], [0.5000, 0.7500]], dtype=torch.float64)
    """
    if logits.ndim != 2 or not logits.numel():
        raise ValueError(
            "head_weights: logits must have shape (N, H) with at least one instance and one head; got "
            f"{tuple(logits.shape)}. Pass BagOutput.attention of one bag."
        )
    logits = logits.detach().double()
    if not bool(logits.isfinite().all()):
        bad = (~logits.isfinite()).any(dim=1)
        raise ValueError(
            f"head_weights: attention logits must be finite; {int(bad.sum())} of {len(bad)} instances hold NaN or infinity "
            f"(first at {int(bad.nonzero()[0])}). The weights of the network are damaged, or the features are."
        )
    return logits.softmax(dim=0)


def attention_weights(logits: Tensor, head: int | None = None) -> Tensor:
    """Attention weights (N,) in float64 that sum to one: the mean over the heads, or those of one head.

    Args:
        logits: (N, H) of one bag.
        head: which one, from 0; ``None`` takes the mean of all.

    >>> import torch
    >>> attention_weights(torch.tensor([[0.0, 0.0], [0.0, 1.0986123]]))
    tensor([0.3750, 0.6250], dtype=torch.float64)
    """
    weights = head_weights(logits)
    count = weights.shape[1]
    if head is None:
        return weights.mean(dim=1)
    if not 0 <= head < count:
        raise ValueError(
            f"attention_weights: head must lie in [0, {count - 1}], because the model has {count} attention "
            f"head{'s' if count > 1 else ''}; got {head}. Leave it out for the mean of all."
        )
    return weights[:, head]


def top_instances(
    weights: Tensor, coordinates: Tensor | None = None, count: int | None = None
) -> list[AttendedInstance]:
    """The ``count`` instances with the largest weights, largest first; of equal ones, the first in the bag.

    Args:
        weights: (N,), as :func:`attention_weights` gives them.
        coordinates: (N, 2), x and y of each instance, if there are any.
        count: how many; ``None``, or more than N, gives all.

    >>> import torch
    >>> top_instances(torch.tensor([0.25, 0.75]), torch.tensor([[0, 0], [256, 0]]), count=1)
    [AttendedInstance(rank=1, index=1, x=256, y=0, weight=0.75, share=0.75)]
    """
    if count is not None and count < 1:
        raise ValueError(f"top_instances: count must be at least 1; got {count}. Leave it out for all instances.")
    if coordinates is not None and coordinates.shape != (len(weights), 2):
        raise ValueError(
            f"top_instances: coordinates must have shape ({len(weights)}, 2), one pair an instance; got "
            f"{tuple(coordinates.shape)}."
        )
    values, order = weights.double().sort(descending=True, stable=True)
    shares = values.cumsum(0)
    shares = shares / shares[-1]  # by its own end, so that the last share is 1 and not one rounding away from it
    chosen = order[:count].tolist()
    places = [(None, None)] * len(chosen) if coordinates is None else coordinates[order[:count].cpu()].tolist()
    rows = zip(chosen, places, values[:count].tolist(), shares[:count].tolist(), strict=True)
    return [
        AttendedInstance(rank, index, x, y, weight, share)
        for rank, (index, (x, y), weight, share) in enumerate(rows, start=1)
    ]
