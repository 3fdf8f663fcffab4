"""Means, standard deviations and paired differences over seeds, as plain numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """Mean and sample standard deviation of ``n`` numbers; one number has no deviation."""

    n: int
    mean: float
    deviation: float | None


class Interval(NamedTuple):
    """A mean of ``n`` numbers with its confidence interval; one number has none."""

    n: int
    mean: float
    low: float | None
    high: float | None


def spread(values: Sequence[float]) -> Spread | None:
    """Mean and sample standard deviation (divided by n − 1); ``None`` of no values.

    >>> spread([1.0, 2.0, 3.0])
    Spread(n=3, mean=2.0, deviation=1.0)
    """
    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Spread(n, mean, None)
    return Spread(n, mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1)))


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """The mean and its two-sided interval by Student's t with n − 1 degrees of freedom; ``None`` of no values.

    >>> interval = t_interval([1.0, 2.0, 3.0])
    >>> interval.n, interval.mean, round(interval.low, 3), round(interval.high, 3)
    (3, 2.0, -0.484, 4.484)
    """
    found = spread(values)
    if found is None:
        return None
    if found.deviation is None:
        return Interval(found.n, found.mean, None, None)
    half = _t_quantile((1 + confidence) / 2, found.n - 1) * found.deviation / math.sqrt(found.n)
    return Interval(found.n, found.mean, found.mean - half, found.mean + half)


def paired_difference(
    values: Mapping[int, float], reference: Mapping[int, float], confidence: float = 0.95
) -> Interval | None:
    """The mean of ``values - reference`` over the seeds that both have, with its interval; ``None`` if they share none.

    What a seed does to both, such as its order of samples, leaves the difference: it is sharper than that of two means.

    >>> paired_difference({0: 0.75, 1: 0.5, 2: 0.9}, {0: 0.5, 1: 0.25})
    Interval(n=2, mean=0.25, low=0.25, high=0.25)
    """
    shared = sorted(values.keys() & reference.keys())
    return t_interval([values[seed] - reference[seed] for seed in shared], confidence)


def mean_ranks(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """For each name the mean of its ranks on the sets that it has scores on: 1 is the best, equal scores share their ranks.

    Args:
        scores: by name, then by set; more is better.

    >>> mean_ranks({"a": {"x": 0.9, "y": 0.5}, "b": {"x": 0.8, "y": 0.5}, "c": {"x": 0.7}})
    {'a': 1.25, 'b': 1.75, 'c': 3.0}
    """
    by_set: dict[str, list[float]] = {}
    for found in scores.values():
        for name, score in found.items():
            by_set.setdefault(name, []).append(score)
    return {
        name: math.fsum(_rank(score, by_set[key]) for key, score in found.items()) / len(found)
        for name, found in scores.items()
        if found
    }


def _rank(score: float, scores: Sequence[float]) -> float:
    return sum(other > score for other in scores) + (1 + scores.count(score)) / 2


def _t_quantile(probability: float, degrees: int) -> float:
    try:
        from scipy.stats import t
    except ImportError as error:
        raise ImportError(
            "statistics: t intervals need scipy, which is not installed: `pip install 'ncmi[train]'`."
        ) from error
    return float(t.ppf(probability, degrees))
