"""``ASMIL``: several learned queries, of which some are dropped in training, and an anchor for their attention (2026).

Shapes: G bags, ΣN instances of all bags, F width of an instance, D width of a bag's vector, T tokens, H heads.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ncmi.models.mil.anchor import Anchored
from ncmi.models.mil.base import BagModel, BagOutput, check_heads, default_num_features
from ncmi.models.mil.cross_attention import QueryAttention
from ncmi.models.mil.pooling import attention_mean


class TokenMIL(BagModel):
    """T learned queries look at the bag, each in a block of its own, and one more query looks at their answers.

    Args:
        in_features: F.
        num_features: D, a multiple of ``num_heads``; by default as in :class:`~ncmi.models.mil.abmil.ABMIL`.
        num_tokens: T.
        num_dropped: tokens that are left out in training, others at each forward pass and in each bag; none in ``eval()``.
        num_heads: H.
        dropout: rate after the output projection of a block.

    Shape:
        one bag (N, F), features (D,), attention (N, T · H); a group of bags with ΣN instances, (G, D), (ΣN, T · H).

    >>> output = TokenMIL(384, num_tokens=4, num_dropped=1)(torch.randn(7, 384))
    >>> output.features.shape, output.attention.shape
    (torch.Size([128]), torch.Size([7, 32]))
    """

    def __init__(
        self,
        in_features: int,
        num_features: int | None = None,
        *,
        num_tokens: int = 8,
        num_dropped: int = 2,
        num_heads: int = 8,
        dropout: float = 0.1,
    ):
        super().__init__()
        self.in_features = in_features
        self.num_features = default_num_features(in_features) if num_features is None else num_features
        check_heads(type(self).__name__, self.num_features, num_heads)
        if not 0 <= num_dropped < num_tokens:
            raise ValueError(
                f"{type(self).__name__}: num_dropped must lie in [0, {num_tokens - 1}] because num_tokens={num_tokens} and "
                f"one must be left; got {num_dropped}. The defaults are 8 tokens of which 2 are dropped."
            )
        self.num_tokens = num_tokens
        self.num_dropped = num_dropped
        self.projection = nn.Linear(in_features, self.num_features, bias=False)
        self.tokens = nn.ModuleList(QueryAttention(self.num_features, num_heads, dropout) for _ in range(num_tokens))
        self.summary = QueryAttention(self.num_features, num_heads, dropout, query_std=0.0)

    def forward_bags(self, instances: Tensor, sizes: list[int]) -> BagOutput:
        """Features (G, D), attention logits (ΣN, T · H) and no auxiliary term."""
        hidden = torch.relu_(self.projection(instances))
        logits = F.linear(hidden, *self._directions())
        means = attention_mean(logits, hidden, sizes).unflatten(1, (self.num_tokens, -1))
        answers = torch.stack([block.read(means[:, place]) for place, block in enumerate(self._blocks())], dim=1)
        features = self._summarize(self._drop(answers))
        return BagOutput(features, logits, features.new_zeros(()))

    def attention_logits(self, instances: Tensor, sizes: list[int]) -> Tensor:
        """Logits (ΣN, T · H) without the answers."""
        return F.linear(torch.relu_(self.projection(instances)), *self._directions())

    def _blocks(self) -> list[QueryAttention]:
        return [block for block in self.tokens if isinstance(block, QueryAttention)]

    def _directions(self) -> tuple[Tensor, Tensor]:
        """Weight (T · H, D) and bias (T · H,) of the logits of all queries: one product for all of them."""
        weights, biases = zip(*(block.directions() for block in self._blocks()), strict=True)
        return torch.cat(weights), torch.cat(biases)

    def _drop(self, answers: Tensor) -> Tensor:
        """Answers (G, T', D) that stay of (G, T, D)."""
        if not self.training or not self.num_dropped:
            return answers
        order = torch.rand(answers.shape[:2], device=answers.device).argsort(dim=1)
        kept = order[:, self.num_dropped :].sort(dim=1).values
        return answers.gather(1, kept.unsqueeze(-1).expand(-1, -1, answers.shape[2]))

    def _summarize(self, answers: Tensor) -> Tensor:
        """Features (G, D): what the last query reads in the answers (G, T', D)."""
        weights = F.linear(answers, *self.summary.directions()).softmax(dim=1)
        return self.summary.read(weights.mT @ answers)


class ASMIL(Anchored):
    """:class:`TokenMIL` with an anchor: a slow copy of itself that its attention follows.

    Args:
        in_features: F.
        num_features: D, a multiple of ``num_heads``; by default as in :class:`~ncmi.models.mil.abmil.ABMIL`.
        num_tokens: T; 8, with 2 dropped and temperature 0.5, in the first published command for BRACS, and 16 with 10 in
            the published checkpoints.
        num_dropped: tokens that are left out in training.
        num_heads: H.
        dropout: rate after the output projection of a block.
        decay: weight of the anchor's past; 0.999 in the paper.
        temperature: of the anchor's distribution.
        weight: β of the anchor term; 1 is our choice, as the paper's value is not known to us.
        released: as the published code does it, against the paper: a second network with random weights that never move
            is the anchor, and the term is divided by the number of instances. It pulls towards uniform attention.

    Shape:
        one bag (N, F), features (D,), attention (N, T · H); a group of bags with ΣN instances, (G, D), (ΣN, T · H).

    >>> output = ASMIL(384)(torch.randn(7, 384))
    >>> output.features.shape, output.attention.shape, output.auxiliary.shape
    (torch.Size([128]), torch.Size([7, 64]), torch.Size([]))
    """

    def __init__(
        self,
        in_features: int,
        num_features: int | None = None,
        *,
        num_tokens: int = 8,
        num_dropped: int = 2,
        num_heads: int = 8,
        dropout: float = 0.1,
        decay: float = 0.999,
        temperature: float = 0.5,
        weight: float = 1.0,
        released: bool = False,
    ):
        def build() -> TokenMIL:
            return TokenMIL(
                in_features,
                num_features,
                num_tokens=num_tokens,
                num_dropped=num_dropped,
                num_heads=num_heads,
                dropout=dropout,
            )

        super().__init__(
            build(),
            anchor=build() if released else None,
            decay=decay,
            temperature=temperature,
            weight=weight,
            released=released,
        )
