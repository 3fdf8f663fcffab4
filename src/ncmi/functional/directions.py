"""Unit vectors that lie as far apart as they can: where centroids start.

Shapes: C directions, D feature width.
"""

import torch
from torch import Tensor

_STEPS = 100
_ANCHORS = 512  # directions that each step pushes away from; a random part of them when there are more
_LARGEST_WORK = 3e11  # operations of the whole refinement, a few seconds on one core


def spread_directions(num_directions: int, num_features: int) -> Tensor:
    """Unit vectors (C, D) far apart: no two with a positive cosine where that is possible; from torch's global generator.

    Up to D directions are orthonormal. Up to 2D they are an orthonormal basis and its negatives: no two have a positive
    cosine, which is the best there is for C > D + 1 (Rankin's bound). Beyond, several such frames in random rotations are
    pushed apart by gradient steps on the most similar pairs; where that would take long (C·D above 1.5 million)
    they stay as they are, with the cosines of random directions.

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
    anchors = min(num_directions, _ANCHORS)
    work = 4.0 * _STEPS * num_directions * anchors * num_features
    if num_directions > 2 * num_features and work <= _LARGEST_WORK:
        directions = _push_apart(directions, anchors)
    return directions


def _push_apart(directions: Tensor, num_anchors: int) -> Tensor:
    """Minimise Σ_v ln Σ_w exp(β cos(v, w)) over unit vectors, with β rising so that the closest pairs count in the end."""
    start = directions
    for step in range(_STEPS):
        progress = step / _STEPS
        chosen = torch.randperm(len(directions))[:num_anchors]
        anchors = directions[chosen]
        similarity = directions @ anchors.T
        similarity[chosen, torch.arange(num_anchors)] = -torch.inf  # nothing is pushed away from itself
        push = torch.softmax(10.0 * 20.0**progress * similarity, dim=1) @ anchors
        directions = torch.nn.functional.normalize(directions - 0.1 * (1 - progress) * push, dim=1)
    return min(start, directions, key=_largest_cosine)


def _largest_cosine(directions: Tensor) -> float:
    largest = -1.0
    for first in range(0, len(directions), _ANCHORS):
        cosines = directions[first : first + _ANCHORS] @ directions[first:].T
        largest = max(largest, cosines.fill_diagonal_(-1.0).max().item())
    return largest
