"""The temperature that turns scores into probabilities.

Shapes: N samples, C classes.
"""

from typing import NamedTuple

from torch import Tensor

from ncmi.heads.sharpness import fit_sharpness


class Temperature(NamedTuple):
    """``value`` T > 0 of softmax(scores / T); ``problem`` says why it is none to trust, and is empty where it is."""

    value: float
    problem: str = ""


def fit_temperature(scores: Tensor, targets: Tensor) -> Temperature:
    """The T with the smallest negative log-likelihood of softmax(scores / T): scores (N, C), class indices (N,).

    The search is that of :meth:`ncmi.CentroidClassifier.fit_temperature`, here for scores from anywhere. Where the likelihood
    has no minimum inside the search range it is the range's end, with a sentence instead of a warning: at the end of a
    training run that is a note to keep, not an accident.

    >>> import torch
    >>> fit_temperature(torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0, 0, 1])).problem
    ''
    """
    found = fit_sharpness(scores, targets)
    if found is None:
        return Temperature(1.0, "all scores are equal, so no temperature can tell classes apart")
    problem = "the likelihood has no minimum: all decided right, or no better than by chance"
    return Temperature(1 / found.value, "" if found.inside else problem)
