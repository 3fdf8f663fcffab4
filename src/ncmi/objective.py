"""What an objective is to the loss: one of three wrappers around a pure function of ``ncmi.functional``.

A new objective is a new function: ``NCMILoss(10, 128, objective=PerSample(my_function))``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from ncmi import functional
from ncmi.checks import choose
from ncmi.functional import EXPONENT, Ratio


@dataclass(frozen=True)
class RatioOfMeans:
    """A ratio formed once from the class statistics of the whole (global) batch.

    Args:
        function: ``(statistics, centroids) → Ratio``.
        start: how centroids start when the user names no start.
        takes_prior: whether ``function`` takes ``prior=`` (C,) and then counts all classes below the line.
    """

    function: Callable[..., Ratio]
    start: str = "orthogonal"
    takes_prior: bool = False

    @property
    def name(self) -> str:
        """What ``print(loss)`` calls it."""
        return _name(self.function)


@dataclass(frozen=True)
class PerSample:
    """A number for each sample, whose mean over the (global) batch is the loss.

    Args:
        function: ``(points, centroids, targets) → (B,)``; points and centroids have ``probs`` and ``log_density``, targets
            are class indices (B,) or soft labels (B, C).
        start: how centroids start when the user names no start.
    """

    function: Callable[..., Tensor]
    start: str = "orthogonal"

    @property
    def name(self) -> str:
        """What ``print(loss)`` calls it."""
        return _name(self.function)


@dataclass(frozen=True)
class WithRivals:
    """Samples against rival centroids and rival samples of the (global) batch: :func:`ncmi.functional.rival_losses`.

    Args:
        logits: ``(points, centroids) → (B, C)``, larger where a sample is nearer to a centroid; other samples come in the
            centroids' place, too.
        start: how centroids start when the user names no start.
    """

    logits: Callable[..., Tensor]
    start: str = "orthogonal"

    @property
    def name(self) -> str:
        """What ``print(loss)`` calls it."""
        return _name(self.logits).replace("harmonic_logits", "rivals")


Objective = RatioOfMeans | PerSample | WithRivals


def _name(function: Callable) -> str:
    if isinstance(function, partial):
        settings = ", ".join(f"{key}={value}" for key, value in function.keywords.items())
        return f"{_name(function.func)}({settings})"
    return getattr(function, "__name__", type(function).__name__)


def harmonic(exponent: float = EXPONENT) -> PerSample:
    """The ``harmonic`` objective with an exponent of your own: ``NCMILoss(..., objective=harmonic(6))``."""
    return PerSample(partial(functional.harmonic, exponent=_check_exponent("harmonic", exponent)))


def rivals(exponent: float = EXPONENT) -> WithRivals:
    """The ``rivals`` objective with an exponent of your own: ``NCMILoss(..., objective=rivals(6))``."""
    return WithRivals(partial(functional.harmonic_logits, exponent=_check_exponent("rivals", exponent)))


def _check_exponent(owner: str, exponent: float) -> float:
    if not 0 < exponent < float("inf"):
        raise ValueError(f"{owner}: exponent must be positive and finite; got {exponent}.")
    return exponent


OBJECTIVES: dict[str, Objective] = {
    # Any other start can make the denominator negative before the first step (see functional.theorem1).
    "theorem1": RatioOfMeans(functional.theorem1, start="uniform"),
    "centroid": RatioOfMeans(functional.centroid, takes_prior=True),
    "released": PerSample(functional.released),
    "harmonic": harmonic(),
    "rivals": rivals(),
}


def make_objective(objective: str | Objective) -> Objective:
    """The objective that a name stands for; an objective as it is."""
    if isinstance(objective, str):
        return OBJECTIVES[choose("NCMILoss", "objective", objective, OBJECTIVES)]
    if not isinstance(objective, RatioOfMeans | PerSample | WithRivals):
        raise TypeError(
            f"NCMILoss: objective must be one of {', '.join(map(repr, OBJECTIVES))}, or a function wrapped in PerSample(...), "
            f"WithRivals(...) or RatioOfMeans(...); got {objective!r}."
        )
    return objective
