"""``BagModel``: what training asks of a network on bags, and ``BagOutput``, what it gives.

Shapes: G bags, N instances of a bag, ΣN instances of all bags, F width of an instance, D width of a bag's vector, H
attention heads.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ncmi.models.mil.bags import Bags, read_bags


class BagOutput(NamedTuple):
    """What a bag model returns for one bag (N, F), or for a group of G bags.

    Attributes:
        features: bag vectors, (D,) for one bag and (G, D) for a group.
        attention: logits (N, H), or (ΣN, H) for a group; their softmax over the instances of a bag is what the model
            looks at, one distribution for each head.
        auxiliary: the model's own loss term, weight included; a scalar, the mean over the bags, zero where there is none.
    """

    features: Tensor
    attention: Tensor
    auxiliary: Tensor


class BagModel(nn.Module):
    """A network that maps a bag of instances to one vector; the head stands outside.

    A model says ``in_features`` and ``num_features`` and writes :meth:`forward_bags`.

    Attributes:
        in_features: F, the width of an instance.
        num_features: D, the width of a bag's vector.
    """

    in_features: int
    num_features: int

    def forward(self, bags: Tensor | Bags) -> BagOutput:
        """Bag vectors, attention logits and the auxiliary loss term of one bag (N, F) or a group :class:`Bags`."""
        instances, sizes = read_bags(type(self).__name__, bags, self.in_features, self.dtype)
        output = self.forward_bags(instances, sizes)
        return output._replace(features=output.features[0]) if isinstance(bags, Tensor) else output

    def forward_bags(self, instances: Tensor, sizes: list[int]) -> BagOutput:
        """The output for a group: ``instances`` (ΣN, F) in the model's dtype, ``sizes`` the N of each bag."""
        raise NotImplementedError

    def attention_logits(self, instances: Tensor, sizes: list[int]) -> Tensor:
        """Attention logits (ΣN, H) alone; a model that knows a shorter way to them writes its own."""
        return self.forward_bags(instances, sizes).attention

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that instances are cast to, that of the first parameter; float32 for a model without any."""
        return next((parameter.dtype for parameter in self.parameters()), torch.float32)


def check_bag_model(owner: str, model: nn.Module) -> None:
    """A module of the contract, which a wrapper can build upon."""
    if not isinstance(model, BagModel):
        raise TypeError(
            f"{owner}: model must be a bag model; got {type(model).__name__}. Wrap it first: as_bag_model(module, ...)."
        )


def default_num_features(in_features: int) -> int:
    """The width D that ACMIL's settings give to instances of width F.

    384 → 128, 512 → 256, 768 → 384, 1024 → 512, 1536 → 768: half of F, except for 384. Between and beyond these (our
    choice) it is half of F, rounded down to a multiple of 16, and at least 128.

    >>> [default_num_features(width) for width in (166, 192, 384, 512, 768, 1024, 1536)]
    [128, 128, 128, 256, 384, 512, 768]
    """
    return 128 if in_features == 384 else max(128, in_features // 2 // 16 * 16)


def check_heads(owner: str, num_features: int, num_heads: int) -> None:
    """A width that divides into the heads."""
    if num_heads < 1 or num_features % num_heads:
        raise ValueError(
            f"{owner}: num_features must be a multiple of num_heads={num_heads}, because each head takes an equal part; "
            f"got {num_features}. Pass num_features={max(1, num_features // max(1, num_heads)) * max(1, num_heads)}."
        )
