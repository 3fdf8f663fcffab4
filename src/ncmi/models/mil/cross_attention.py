"""One learned query that looks at a bag with several heads: the base model of AEM, and the block of ASMIL.

Shapes: G bags, ΣN instances of all bags, F width of an instance, D width of a bag's vector, H heads, E = D / H.
"""

import torch
from torch import Tensor, nn

from ncmi.models.mil.base import BagModel, BagOutput, check_heads, default_num_features
from ncmi.models.mil.pooling import attention_mean


class QueryAttention(nn.Module):
    """Cross-attention of one learned query: projections of query, key, value and output, dropout, LayerNorm (eps 1e-6).

    Because there is one query, keys and values of the instances are never formed. The logit of head j is
    (W_k h + b_k)_j · q_j / √E = h · (W_kⱼᵀ q_j / √E) + b_kⱼ · q_j / √E, one direction in R^D; and the weights sum to one,
    so the mean of values is the value of the mean. N × D × H multiplications do what N × D × D did, and a bag leaves H
    numbers for each instance in memory instead of 2 D. Equal up to rounding; the parameters are the usual ones.

    Args:
        num_features: D.
        num_heads: H.
        dropout: rate after the output projection.
        query_std: standard deviation of the query's start; 0 starts at zero.
    """

    def __init__(self, num_features: int, num_heads: int = 8, dropout: float = 0.1, query_std: float = 1e-6):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Parameter(torch.randn(num_features) * query_std)
        self.query_projection = nn.Linear(num_features, num_features)
        self.key_projection = nn.Linear(num_features, num_features)
        self.value_projection = nn.Linear(num_features, num_features)
        self.output_projection = nn.Linear(num_features, num_features)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(num_features, eps=1e-6)

    def directions(self) -> tuple[Tensor, Tensor]:
        """Weight (H, D) and bias (H,) of the linear map from an instance to its logits."""
        query = self.query_projection(self.query).unflatten(0, (self.num_heads, -1))
        query = query * query.shape[1] ** -0.5
        weight = self.key_projection.weight.unflatten(0, (self.num_heads, -1))
        bias = self.key_projection.bias.unflatten(0, (self.num_heads, -1))
        # The bias is the same for all instances: softmax does not see it, the normalised sigmoid of an anchor does.
        return torch.einsum("he,hed->hd", query, weight), (query * bias).sum(dim=1)

    def read(self, means: Tensor) -> Tensor:
        """The answer (..., D) to the query, from the attention-weighted mean (..., H, D) of the instances for each head."""
        weight = self.value_projection.weight.unflatten(0, (self.num_heads, -1))
        values = torch.einsum("...hd,hed->...he", means.to(weight.dtype), weight).flatten(-2)
        return self.norm(self.dropout(self.output_projection(values + self.value_projection.bias)))


class CrossAttentionMIL(BagModel):
    """h = ReLU(W x) and one learned query with eight-head cross-attention over them; the bag vector is after LayerNorm.

    AEM's published default; with weight 0 on its entropy term its authors call this model ABMIL.

    Args:
        in_features: F.
        num_features: D, a multiple of ``num_heads``; by default as in :class:`~ncmi.models.mil.abmil.ABMIL`.
        num_heads: H.
        dropout: rate after the output projection.

    Shape:
        one bag (N, F), features (D,), attention (N, H); a group of bags with ΣN instances, (G, D), (ΣN, H).

    >>> output = CrossAttentionMIL(384)(torch.randn(7, 384))
    >>> output.features.shape, output.attention.shape
    (torch.Size([128]), torch.Size([7, 8]))
    """

    def __init__(self, in_features: int, num_features: int | None = None, *, num_heads: int = 8, dropout: float = 0.1):
        super().__init__()
        self.in_features = in_features
        self.num_features = default_num_features(in_features) if num_features is None else num_features
        check_heads(type(self).__name__, self.num_features, num_heads)
        self.projection = nn.Linear(in_features, self.num_features, bias=False)
        self.block = QueryAttention(self.num_features, num_heads, dropout)

    def forward_bags(self, instances: Tensor, sizes: list[int]) -> BagOutput:
        """Features (G, D), attention logits (ΣN, H) and no auxiliary term."""
        hidden = torch.relu_(self.projection(instances))
        logits = nn.functional.linear(hidden, *self.block.directions())
        features = self.block.read(attention_mean(logits, hidden, sizes))
        return BagOutput(features, logits, features.new_zeros(()))

    def attention_logits(self, instances: Tensor, sizes: list[int]) -> Tensor:
        """Logits (ΣN, H) without the mean."""
        return nn.functional.linear(torch.relu_(self.projection(instances)), *self.block.directions())
