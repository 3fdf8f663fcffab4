"""``NystromAttention``: self-attention through a few landmarks, linear in the number of tokens (Xiong et al., 2021).

Shapes: G sequences, n tokens, p ≥ n tokens after padding, m landmarks, D width of a token, H heads, E = D / H.
"""

from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ncmi.models.mil.pooling import at_least_single

STEPS = 6
KERNEL = 33


def pseudoinverse(matrix: Tensor, steps: int = STEPS) -> Tensor:
    """Approximate pseudoinverses (..., H, m, m) of row-stochastic matrices A, by a third-order iteration.

    Z ← ¼ Z (13 I − A Z (15 I − A Z (7 I − A Z))), from Z₀ = Aᵀ / (largest column sum · largest row sum). Both maxima run
    over all heads together, as in the published models.

    >>> pseudoinverse(torch.tensor([[[0.9, 0.1], [0.2, 0.8]]]))
    tensor([[[ 1.1429, -0.1429],
             [-0.2857,  1.2857]]])
    """
    return _iterate(matrix, matrix.mT / _largest_sums(matrix), steps)


def apply_pseudoinverse(matrix: Tensor, values: Tensor, equal: int = 1) -> Tensor:
    """``pseudoinverse(matrix) @ values`` (G, H, m, E), for A whose first ``equal`` rows are the same, as are its columns.

    A small bag is mostly padding, and so are its landmarks. With U the orthonormal columns (1, …, 1, 0, …) / √equal and
    e_j for the landmarks that differ, A = U B Uᵀ and Z = U Y Uᵀ in every step, where Y is the iteration on B = Uᵀ A U with
    m − equal + 1 rows. Equal up to rounding, at a cube of the size.
    """
    root = torch.ones(matrix.shape[-1] - equal + 1, 1, dtype=matrix.dtype, device=matrix.device)
    root[0] = equal**0.5
    small = root * matrix[..., equal - 1 :, equal - 1 :] * root.mT
    inverse = _iterate(small, small.mT / _largest_sums(matrix), STEPS)
    answer = inverse @ (root * values[..., equal - 1 :, :]) / root
    return torch.cat([answer[..., :1, :].expand(*answer.shape[:-2], equal - 1, -1), answer], dim=-2)


def _largest_sums(matrix: Tensor) -> Tensor:
    """Largest column sum times largest row sum of all heads: (..., 1, 1, 1)."""
    columns, rows = (matrix.sum(dim=dim).amax(dim=(-2, -1)) for dim in (-2, -1))
    return (columns * rows)[..., None, None, None]


def _iterate(matrix: Tensor, inverse: Tensor, steps: int) -> Tensor:
    """With P = A Z, a step is ¼ (13 Z − Z (15 P + P (P P − 7 P))): four products that each take a sum along."""
    shape, matrix, inverse = inverse.shape, matrix.flatten(end_dim=-3), inverse.flatten(end_dim=-3)
    for _ in range(steps):
        product = matrix @ inverse
        inner = torch.baddbmm(product, product, product, beta=-7)
        inner = torch.baddbmm(product, product, inner, beta=15)
        inverse = torch.baddbmm(inverse, inverse, inner, beta=13 / 4, alpha=-1 / 4)
    return inverse.view(shape)


class NystromAttention(nn.Module):
    """Self-attention softmax(q k̃ᵀ) · softmax(q̃ k̃ᵀ)⁺ · softmax(q̃ kᵀ) v, plus a convolution of v along the tokens.

    A sequence of n tokens has zeros on the left, up to p, a multiple of m; landmarks q̃, k̃ are means of p / m consecutive
    ones. The zeros take part in every softmax, as in the published models. Sequences of the same p go together, and each gets
    what it would get alone. The three factors are multiplied from the right, so that no p × m matrix is kept.

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

    def padding(self, count: int) -> int:
        """Zeros p − n on the left of a sequence of n tokens."""
        return -count % self.num_landmarks

    def forward(self, tokens: Tensor, starts: list[int]) -> tuple[Tensor, Tensor]:
        """Tokens (G, p, D) after attention, and logits (G, p, H): the first token's query against the key of every token.

        ``starts`` are the p − n of the G sequences; whatever stands left of it counts as zero, and means nothing in what
        comes out. The softmax of the logits is the row of the full attention matrix that the landmarks approximate; no
        matrix of n × n numbers is needed for it.
        """
        places = torch.tensor(starts, device=tokens.device)
        left = torch.arange(tokens.shape[1], device=tokens.device) < places.unsqueeze(1)
        qkv = self.qkv(tokens.masked_fill(left.unsqueeze(2), 0))
        # (G, p, 3, H, E) → three of (G, H, p, E), views all of them.
        q, k, v = qkv.unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        scale = q.shape[-1] ** -0.5
        answer = self._landmark_attention(q, k, v, scale, starts) + self.convolution(v)
        first = q[torch.arange(len(q), device=q.device), :, places].unsqueeze(3)
        logits = (k @ (first * scale)).squeeze(3).mT
        return self.dropout(self.output_projection(answer.transpose(1, 2).flatten(2))), logits

    def _landmark_attention(self, q: Tensor, k: Tensor, v: Tensor, scale: float, starts: list[int]) -> Tensor:
        """The three factors applied to the values: (G, H, p, E)."""
        q_landmarks, k_landmarks = (x.unflatten(2, (self.num_landmarks, -1)).mean(dim=3) for x in (q, k))
        summary = F.scaled_dot_product_attention(q_landmarks, k, v, scale=scale)
        # Half precision would not survive six steps of the iteration.
        with torch.autocast(q.device.type, enabled=False):
            kernel = at_least_single(q_landmarks) @ at_least_single(k_landmarks).mT
            kernel = (kernel * scale).softmax(dim=-1)
            # Landmarks of nothing but padding are equal.
            runs = [(start * self.num_landmarks // q.shape[2], len(list(same))) for start, same in groupby(starts)]
            counts = [count for _, count in runs]
            parts = zip(kernel.split(counts), summary.to(kernel.dtype).split(counts), runs, strict=True)
            summary = torch.cat([apply_pseudoinverse(a, b, max(1, equal)) for a, b, (equal, _) in parts]).to(v.dtype)
        return F.scaled_dot_product_attention(q, k_landmarks, summary, scale=scale)
