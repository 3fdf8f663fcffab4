"""``TransMIL``: a class token and two layers of Nyström attention (Shao et al., 2021).

Shapes: G bags, N instances of a bag, ΣN of all bags, F width of an instance, D width of a token, H heads, S = ⌈√N⌉.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ncmi.models.mil.base import BagModel, BagOutput, check_heads, default_num_features
from ncmi.models.mil.nystrom import NystromAttention


class AttentionLayer(nn.Module):
    """x + attention(LayerNorm(x)); there is no feed-forward block."""

    def __init__(self, num_features: int, num_heads: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(num_features)
        self.attention = NystromAttention(num_features, num_heads, dropout=dropout)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (n, D), and attention logits (n, H) of the first one."""
        update, logits = self.attention(self.norm(tokens))
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
        """Tokens (S², D), of tokens (S², D)."""
        side = math.isqrt(len(tokens))
        image = tokens.mT.reshape(1, -1, side, side)
        image = F.conv2d(image, *self.kernel(), padding=3, groups=image.shape[1])
        return image.flatten(2)[0].mT

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
    of attention. 5. :class:`PyramidPositions` on all but the class token. 6. A second layer. 7. LayerNorm; the class token
    is the bag vector.

    The result depends on the order of the instances, and would change with padding: the bags of a group are taken one by
    one, each at its own length.

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
        outputs = [self._one_bag(bag) for bag in instances.split(sizes)]
        features = torch.stack([vector for vector, _ in outputs])
        return BagOutput(features, torch.cat([logits for _, logits in outputs]), features.new_zeros(()))

    def _one_bag(self, bag: Tensor) -> tuple[Tensor, Tensor]:
        """The bag's vector (D,) and attention logits (N, H)."""
        count = len(bag)
        hidden = torch.relu_(self.projection(bag))
        side = math.isqrt(count - 1) + 1
        # Under autocast the token stays float32 while the instances do not.
        token = self.class_token.to(hidden.dtype).unsqueeze(0)
        tokens, _ = self._layer(self.first, torch.cat([token, hidden, hidden[: side * side - count]]))
        tokens = torch.cat([tokens[:1], self.positions(tokens[1:])])
        tokens, logits = self._layer(self.second, tokens)
        return self.norm(tokens[0]), logits[1 : count + 1]

    def _layer(self, layer: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
        if self.checkpoint and torch.is_grad_enabled():
            return checkpoint(layer, tokens, use_reentrant=False)  # pyright: ignore[reportReturnType]
        return layer(tokens)
