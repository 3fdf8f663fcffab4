"""Unit vectors that lie as far apart as they can: where centroids start.

Shapes: C directions, D feature width.
"""

import torch
from torch import Tensor

# The refinement costs C²·D operations a step. Beyond this it would take longer than it is worth: in hundreds of dimensions
# random frames are within a few per cent of the best possible angle.
_LARGEST_REFINED = 300_000_000


def spread_directions(num_directions: int, num_features: int) -> Tensor:
    """Unit vectors (C, D) with pairwise cosines as small as possible, drawn from torch's global generator.

    Up to D directions are orthonormal. Up to 2D they are an orthonormal basis and its negatives: no two have a positive
    cosine, which is the best there is for C > D + 1 (Rankin's bound). Beyond, several such frames in random rotations are
    pushed apart by gradient steps on the most similar pairs.

    >>> directions = spread_directions(100, 64)
    >>> cosines = directions @ directions.T - torch.eye(100)
    >>> bool(cosines.max() < 1e-6)
    True
    """
    frames = []
    missing = num_directions
    while missing > 0:
        basis = torch.linalg.qr(torch.randn(num_features, min(missing, num_features))).Q.T
        frames.append(torch.cat([basis, -basis])[:missing])
        missing -= len(frames[-1])
    directions = torch.cat(frames)
    if num_directions > 2 * num_features and num_directions**2 * num_features <= _LARGEST_REFINED:
        directions = _push_apart(directions)
    return directions


def _push_apart(directions: Tensor, steps: int = 200) -> Tensor:
    """Minimise Σ_v ln Σ_w exp(β cos(v, w)) over unit vectors, with β rising so that the closest pairs count in the end."""
    best, best_cosine = directions, _largest_cosine(directions)
    for step in range(steps):
        sharpness = 10.0 * 20.0 ** (step / steps)
        similarity = directions @ directions.T
        similarity.fill_diagonal_(-torch.inf)
        push = torch.softmax(sharpness * similarity, dim=1) @ directions
        directions = torch.nn.functional.normalize(directions - 0.1 * (1 - step / steps) * push, dim=1)
        cosine = _largest_cosine(directions)
        if cosine < best_cosine:
            best, best_cosine = directions, cosine
    return best


def _largest_cosine(directions: Tensor) -> float:
    return (directions @ directions.T).fill_diagonal_(-1.0).max().item()
