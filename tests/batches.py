"""Random batches for the tests, in float64 unless asked otherwise.

Shapes: B samples, C classes, D feature width.
"""

import torch
from hypothesis import strategies as st

OBJECTIVES = ("theorem1", "centroid", "released", "harmonic", "rivals")

# Everything a property needs to draw a batch; sizes stay small because the oracle visits every pair.
SEEDS = st.integers(0, 2**20)
SIZES = st.fixed_dictionaries(
    {"batch": st.integers(2, 9), "num_classes": st.integers(2, 5), "num_features": st.integers(2, 7), "seed": SEEDS}
)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64).to(dtype)


def hard_labels(batch, num_classes, seed=0):
    """Labels with at least two classes in the batch."""
    labels = torch.randint(num_classes, (batch,), generator=generator(seed))
    labels[0], labels[1] = 0, 1
    return labels


def soft_labels(batch, num_classes, seed=0):
    """Mixup of two labels per sample, with a few left pure."""
    first, second = hard_labels(batch, num_classes, seed), hard_labels(batch, num_classes, seed + 1)
    share = torch.rand(batch, 1, generator=generator(seed), dtype=torch.float64)
    share[::3] = 1
    eye = torch.eye(num_classes, dtype=torch.float64)
    return share * eye[first] + (1 - share) * eye[second]


def relative_error(value, reference):
    return float(((value.double() - reference.double()).abs() / reference.double().abs()).max())
