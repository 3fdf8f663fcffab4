"""``ABMIL``: the attention-weighted mean of the instances (Ilse et al., 2018).

Shapes: G bags, ΣN instances of all bags, F width of an instance, D width of a bag's vector.
"""

import torch
from torch import Tensor, nn

from ncmi.models.mil.base import BagModel, BagOutput, default_num_features
from ncmi.models.mil.pooling import attention_mean


class GatedAttention(nn.Module):
    """Attention logits w·(tanh(V h + b_V) ⊙ σ(U h + b_U)) + b, one for each instance."""

    def __init__(self, num_features: int, width: int, dropout: float = 0.0):
        super().__init__()
        self.content = nn.Linear(num_features, width)
        self.gate = nn.Linear(num_features, width)
        self.score = nn.Linear(width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits (ΣN, 1) of projected instances (ΣN, D)."""
        return self.score(self.dropout(self.content(hidden).tanh()) * self.dropout(self.gate(hidden).sigmoid()))


class ABMIL(BagModel):
    """Gated attention: h = ReLU(W x), α = softmax over the instances of a bag, bag vector z = Σ α h.

    The defaults are the sizes of ACMIL's benchmark, which AEM and ASMIL share. CLAM's sizes are ``abmil_clam_small`` and
    ``abmil_clam_big`` of :func:`ncmi.models.mil.create_bag_model`: D = 512, width 256 or 384, a bias, dropout 0.25.

    Every entry of z is ≥ 0, so bags share a large common direction: NCMI needs its centre here.

    Args:
        in_features: F.
        num_features: D; by default :func:`~ncmi.models.mil.base.default_num_features` of F, as 512 for 1024.
        attention_width: rows of V and U; 128 in ACMIL's settings.
        bias: whether the projection W has a bias.
        dropout: rate after the projection and after tanh and sigmoid.

    Shape:
        one bag (N, F), features (D,), attention (N, 1); a group of bags with ΣN instances, (G, D), (ΣN, 1).

    >>> output = ABMIL(1024)(torch.randn(7, 1024, dtype=torch.float16))
    >>> output.features.shape, output.attention.shape, float(output.auxiliary)
    (torch.Size([512]), torch.Size([7, 1]), 0.0)
    """

    def __init__(
        self,
        in_features: int,
        num_features: int | None = None,
        *,
        attention_width: int = 128,
        bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.in_features = in_features
        self.num_features = default_num_features(in_features) if num_features is None else num_features
        self.projection = nn.Linear(in_features, self.num_features, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.attention = GatedAttention(self.num_features, attention_width, dropout)

    def forward_bags(self, instances: Tensor, sizes: list[int]) -> BagOutput:
        """Features (G, D), attention logits (ΣN, 1) and no auxiliary term."""
        hidden = self._hidden(instances)
        logits = self.attention(hidden)
        features = attention_mean(logits, hidden, sizes).squeeze(1)
        return BagOutput(features, logits, features.new_zeros(()))

    def attention_logits(self, instances: Tensor, sizes: list[int]) -> Tensor:
        """Logits (ΣN, 1) without the mean."""
        return self.attention(self._hidden(instances))

    def _hidden(self, instances: Tensor) -> Tensor:
        # In place: of 100,000 instances the projection alone is 200 MB.
        return self.dropout(torch.relu_(self.projection(instances)))
