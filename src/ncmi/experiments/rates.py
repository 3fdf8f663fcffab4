"""The learning rates that a comparison tries, and the one it chooses on validation; a best rate at the end widens the grid."""

import math
from collections.abc import Mapping, Sequence

MOST_EXTENSIONS = 2


def rung(rate: float) -> float:
    """The number nearest to ``rate``, in ratio, on the ladder …, 0.03, 0.1, 0.3, 1, 3, ….

    >>> [rung(rate) for rate in (0.1 / 3, 0.09, 0.9, 2e-5)]
    [0.03, 0.1, 1.0, 3e-05]
    """
    place = math.floor(math.log10(rate))
    # Written as decimals: 3 * 10.0**-1 is not 0.3.
    near = [float(f"{digit}e{exponent}") for exponent in range(place - 1, place + 2) for digit in (1, 3)]
    return min(near, key=lambda candidate: abs(math.log(candidate / rate)))


def next_rate(rate: float, up: bool) -> float:
    """The rung about three times above or below ``rate``.

    >>> next_rate(0.1, up=True), next_rate(0.3, up=True), next_rate(0.1, up=False)
    (0.3, 1.0, 0.03)
    """
    return rung(rate * math.sqrt(10) if up else rate / math.sqrt(10))


def default_rates(rate: float) -> list[float]:
    """A recipe's own rate between its neighbours on the ladder.

    >>> default_rates(0.3), default_rates(0.1)
    ([0.1, 0.3, 1.0], [0.03, 0.1, 0.3])
    """
    return [next_rate(rate, up=False), rate, next_rate(rate, up=True)]


def best_rate(scores: Mapping[float, float | None]) -> float:
    """The rate with the largest score; the lower one on a tie. A run that failed (``None``) loses against any other.

    >>> best_rate({0.1: 0.8, 0.3: 0.9, 1.0: None})
    0.3
    >>> best_rate({0.1: 0.9, 0.3: 0.9})
    0.1
    """
    ranked = {rate: -math.inf if value is None else value for rate, value in scores.items()}
    return max(sorted(ranked), key=lambda rate: ranked[rate])


def search_rates(start: Sequence[float], scores: Mapping[float, float | None]) -> tuple[list[float], float | None]:
    """The rates that are tried, and the best of them as soon as all of them have run (``None`` before).

    If the best one is an end of the grid, the next rung beyond it is tried too, up to two steps: no loss shall suffer from the
    grid. After those the best may still be an end. A single rate is the caller's choice and is not extended.

    Args:
        start: the grid.
        scores: of the runs that came to an end, by rate; ``None`` for one that failed.

    >>> search_rates([0.1, 0.3], {0.1: 0.8, 0.3: 0.9})
    ([0.1, 0.3, 1.0], None)
    >>> search_rates([0.1, 0.3], {0.1: 0.8, 0.3: 0.9, 1.0: 0.7})
    ([0.1, 0.3, 1.0], 0.3)
    """
    rates = sorted(start)
    for extensions in range(MOST_EXTENSIONS + 1):
        if any(rate not in scores for rate in rates):
            return rates, None
        best = best_rate({rate: scores[rate] for rate in rates})
        if len(start) == 1 or extensions == MOST_EXTENSIONS or rates[0] < best < rates[-1]:
            return rates, best
        up = best == rates[-1]
        rates = sorted([*rates, next_rate(best, up)])
    raise AssertionError("the last round returns")
