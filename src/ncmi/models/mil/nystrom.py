"""``NystromAttention``: self-attention through a few landmarks, linear in the number of tokens (Xiong et al., 2021).

Shapes: n tokens, p ≥ n tokens after padding, m landmarks, D width of a token, H heads, E = D / H.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ncmi.models.mil.pooling import at_least_single

STEPS = 6
KERNEL = 33


def pseudoinverse(matrix: Tensor, steps: int = STEPS) -> Tensor:
    """An approximate pseudoinverse (H, m, m) of row-stochastic matrices A, by a third-order iteration.

    Z ← ¼ Z (13 I − A Z (15 I − A Z (7 I − A Z))), from Z₀ = Aᵀ / (largest column sum · largest row sum). Both maxima run
    over all heads together, as in the published models.

    >>> pseudoinverse(torch.tensor([[[0.9, 0.1], [0.2, 0.8]]]))
    tensor([[[ 1.1429, -0.1429],
             [-0.2857,  1.2857]]])
    """
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    size = matrix.abs()
    inverse = matrix.mT / (size.sum(dim=-2).amax() * size.sum(dim=-1).amax())
    for _ in range(steps):
        product = matrix @ inverse
        inner = 15 * identity - product @ (7 * identity - product)
        inverse = 0.25 * inverse @ (13 * identity - product @ inner)
    return inverse


class NystromAttention(nn.Module):
    """Self-attention softmax(q k̃ᵀ) · softmax(q̃ k̃ᵀ)⁺ · softmax(q̃ kᵀ) v, plus a convolution of v along the tokens.

    The tokens are padded with zeros on the left to a multiple of m; landmarks q̃, k̃ are means of p / m consecutive ones.
    The padding takes part in every softmax, as in the published models. The three factors are multiplied from the right,
    so that no p × m matrix is kept.

    Args:
        num_features: D, a multiple of ``num_heads``.
        num_heads: H.
        num_landmarks: m; half of D by default, as in TransMIL.
        dropout: rate after the output projection.
    """

    def __init__(self, num_features: int, num_heads: int = 8, num_landmarks: int | None = None, dropout: float = 0.1):
        super().__init__()
        self.num_heads = num_heads
        self.num_landmarks = num_features // 2 if num_landmarks is None else num_landmarks
        self.qkv = nn.Linear(num_features, 3 * num_features, bias=False)
        self.convolution = nn.Conv2d(
            num_heads, num_heads, (KERNEL, 1), padding=(KERNEL // 2, 0), groups=num_heads, bias=False
        )
        self.output_projection = nn.Linear(num_features, num_features)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (n, D) after attention, and logits (n, H): the first token's query against the key of every token.

        The softmax of these logits is the row of the full attention matrix that the landmarks approximate; no matrix of
        n × n numbers is needed for it.
        """
        count, width = tokens.shape
        padding = -count % self.num_landmarks
        qkv = self.qkv(F.pad(tokens, (0, 0, padding, 0)))
        # (p, 3, H, E) → three of (1, H, p, E), views all of them.
        q, k, v = qkv.unflatten(1, (3, self.num_heads, -1)).permute(1, 2, 0, 3).unsqueeze(1)
        scale = q.shape[-1] ** -0.5
        answer = self._landmark_attention(q, k, v, scale) + self.convolution(v)
        answer = answer[0, :, padding:].transpose(0, 1).reshape(count, width)
        logits = (k[0, :, padding:] @ (q[0, :, padding] * scale).unsqueeze(-1)).squeeze(-1).mT
        return self.dropout(self.output_projection(answer)), logits

    def _landmark_attention(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """The three factors applied to the values: (1, H, p, E)."""
        q_landmarks, k_landmarks = (x.unflatten(2, (self.num_landmarks, -1)).mean(dim=3) for x in (q, k))
        summary = F.scaled_dot_product_attention(q_landmarks, k, v, scale=scale)
        # Half precision would not survive six steps of the iteration.
        with torch.autocast(q.device.type, enabled=False):
            kernel = at_least_single(q_landmarks) @ at_least_single(k_landmarks).mT
            kernel = (kernel * scale).softmax(dim=-1)
            summary = (pseudoinverse(kernel) @ summary.to(kernel.dtype)).to(v.dtype)
        return F.scaled_dot_product_attention(q, k_landmarks, summary, scale=scale)
