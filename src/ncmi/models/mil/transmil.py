"""``TransMIL``: a class token and two layers of Nyström attention (Shao et al., 2021).

Shapes: G bags, N instances of a bag, ΣN of all bags, F width of an instance, D width of a token, H heads, S = ⌈√N⌉, p tokens
of a sequence: zeros, class token and square.
"""

import math
from collections.abc import Iterator
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ncmi.models.mil.base import BagModel, BagOutput, check_heads, default_num_features
from ncmi.models.mil.nystrom import NystromAttention

# Tokens of small bags that go through a layer at once. A larger bag gains nothing from company, and would need more memory.
_TOGETHER = 8192


class AttentionLayer(nn.Module):
    """x + attention(LayerNorm(x)); there is no feed-forward block."""

    def __init__(self, num_features: int, num_heads: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(num_features)
        self.attention = NystromAttention(num_features, num_heads, dropout=dropout)

    def forward(self, tokens: Tensor, starts: list[int]) -> tuple[Tensor, Tensor]:
        """Tokens (G, p, D), and attention logits (G, p, H) of the first one of each sequence, which is at ``starts``."""
        update, logits = self.attention(self.norm(tokens), starts)
        return tokens + update, logits


class PyramidPositions(nn.Module):
    """Tokens laid out as a square image, plus its depthwise 7×7, 5×5 and 3×3 convolutions (PPEG).

    The layout is the order of the instances, not their real places. A sum of convolutions is the convolution with the sum
    of their kernels, so one is run instead of three and an addition.
    """

    def __init__(self, num_features: int):
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv2d(num_features, num_features, size, padding=size // 2, groups=num_features) for size in (7, 5, 3)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (G, S², D), of tokens (G, S², D)."""
        side = math.isqrt(tokens.shape[1])
        images = tokens.mT.unflatten(2, (side, side))
        return F.conv2d(images, *self.kernel(), padding=3, groups=images.shape[1]).flatten(2).mT

    def kernel(self) -> tuple[Tensor, Tensor]:
        """Weight (D, 1, 7, 7) and bias (D,) of identity and the three convolutions together."""
        weights = [F.pad(layer.weight, [(7 - layer.kernel_size[0]) // 2] * 4) for layer in self._layers()]
        biases = [layer.bias for layer in self._layers() if layer.bias is not None]
        identity = torch.zeros_like(weights[0])
        identity[:, :, 3, 3] = 1
        return torch.stack([identity, *weights]).sum(dim=0), torch.stack(biases).sum(dim=0)

    def _layers(self) -> list[nn.Conv2d]:
        return [layer for layer in self.convolutions if isinstance(layer, nn.Conv2d)]


class TransMIL(BagModel):
    """The class token after two attention layers over the bag, with convolutions of its square layout between them.

    1. h = ReLU(W x + b). 2. The first S² − N tokens follow again, for a square. 3. The class token goes first. 4. A layer
    of attention. 5. ``PyramidPositions`` on all but the class token. 6. A second layer. 7. LayerNorm; the class token
    is the bag vector.

    The result depends on the order of the instances, and would change with more padding than the attention's own: the bags
    of a group go together only where that has made their sequences equally long.

    Args:
        in_features: F.
        num_features: D, a multiple of ``num_heads`` and even; by default as in :class:`~ncmi.models.mil.abmil.ABMIL`,
            which is the original's 512 for F = 1024.
        num_heads: H.
        dropout: rate after the output projection of an attention.
        checkpoint: forget what the attention layers computed and compute it again in the backward pass: less memory, one
            forward more.

    Shape:
        one bag (N, F), features (D,), attention (N, H): the class token's query against each instance's key in the second
        layer. A group of bags with ΣN instances, (G, D), (ΣN, H).

    >>> output = TransMIL(384)(torch.randn(7, 384))
    >>> output.features.shape, output.attention.shape
    (torch.Size([128]), torch.Size([7, 8]))
    """

    def __init__(
        self,
        in_features: int,
        num_features: int | None = None,
        *,
        num_heads: int = 8,
        dropout: float = 0.1,
        checkpoint: bool = False,
    ):
        super().__init__()
        self.in_features = in_features
        self.num_features = default_num_features(in_features) if num_features is None else num_features
        self.checkpoint = checkpoint
        check_heads(type(self).__name__, self.num_features, num_heads)
        if self.num_features % 2:
            raise ValueError(
                f"TransMIL: num_features must be even, because half of it is the number of landmarks; got "
                f"{self.num_features}. Pass num_features={self.num_features + 1}."
            )
        self.projection = nn.Linear(in_features, self.num_features)
        self.class_token = nn.Parameter(torch.randn(self.num_features))
        self.first = AttentionLayer(self.num_features, num_heads, dropout)
        self.positions = PyramidPositions(self.num_features)
        self.second = AttentionLayer(self.num_features, num_heads, dropout)
        self.norm = nn.LayerNorm(self.num_features)

    def forward_bags(self, instances: Tensor, sizes: list[int]) -> BagOutput:
        """Features (G, D), attention logits (ΣN, H) and no auxiliary term."""
        bags = torch.relu_(self.projection(instances)).split(sizes)
        features, logits = {}, {}
        for together in self._equally_long(sizes):
            vectors, parts = self._sequences([bags[index] for index in together])
            features.update(zip(together, vectors, strict=True))
            logits.update(zip(together, parts, strict=True))
        vectors = torch.stack([features[index] for index in range(len(sizes))])
        return BagOutput(vectors, torch.cat([logits[index] for index in range(len(sizes))]), vectors.new_zeros(()))

    def _equally_long(self, sizes: list[int]) -> Iterator[list[int]]:
        """Indices of bags whose sequences have the same length once the attention has padded them; small bags, that is."""
        order = sorted(range(len(sizes)), key=lambda index: _side(sizes[index]))
        for length, indices in groupby(order, key=lambda index: self._length(_side(sizes[index]))):
            chosen, most = list(indices), max(1, _TOGETHER // length)
            yield from (chosen[first : first + most] for first in range(0, len(chosen), most))

    def _length(self, side: int) -> int:
        count = side * side + 1
        return count + self.first.attention.padding(count)

    def _sequences(self, bags: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Vectors (G, D) and attention logits (N, H) of bags whose sequences are equally long, smaller squares first."""
        sides = [_side(len(bag)) for bag in bags]
        length = self._length(sides[0])
        # Under autocast the token stays float32 while the instances do not.
        token = self.class_token.to(bags[0].dtype).unsqueeze(0)
        starts = [length - side * side - 1 for side in sides]
        zeros = token.new_zeros(max(starts), self.num_features)
        rows = [
            (zeros[:start], token, bag, bag[: side * side - len(bag)])
            for bag, side, start in zip(bags, sides, starts, strict=True)
        ]
        tokens = torch.cat([part for parts in rows for part in parts]).unflatten(0, (len(bags), length))
        tokens, _ = self._layer(self.first, tokens, starts)
        tokens, logits = self._layer(self.second, self._positioned(tokens, sides), starts)
        vectors = self.norm(torch.stack([part[start] for part, start in zip(tokens, starts, strict=True)]))
        counts = zip(logits, bags, starts, strict=True)
        return vectors, [part[start + 1 : start + 1 + len(bag)] for part, bag, start in counts]

    def _positioned(self, tokens: Tensor, sides: list[int]) -> Tensor:
        """Tokens (G, p, D) with the convolutions of their squares, which stand at the end of each sequence."""
        runs = [(side, len(list(same))) for side, same in groupby(sides)]
        parts = []
        for part, (side, _) in zip(tokens.split([count for _, count in runs]), runs, strict=True):
            before = part.shape[1] - side * side
            parts.append(torch.cat([part[:, :before], self.positions(part[:, before:])], dim=1))
        return torch.cat(parts)

    def _layer(self, layer: nn.Module, tokens: Tensor, starts: list[int]) -> tuple[Tensor, Tensor]:
        if self.checkpoint and torch.is_grad_enabled():
            return checkpoint(layer, tokens, starts, use_reentrant=False)  # pyright: ignore[reportReturnType]
        return layer(tokens, starts)


def _side(count: int) -> int:
    """S = ⌈√N⌉, the side of the smallest square with room for N instances."""
    return math.isqrt(count - 1) + 1
