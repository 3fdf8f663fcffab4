"""Theorem 1's objective pair by pair, as printed (q^{c_z}) and as its proof needs it (q^{c_x}), and its minima over q.

Shapes: N samples, C classes, D feature width. Pairs are formed as N×N matrices, straight from the equations: the numbers here
are what the linear-time code is compared with.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ncmi.functional import class_statistics, feature_point, ncmi, simplex_point, theorem1

Form = Literal["corrected", "printed"]
FORMS: tuple[Form, ...] = get_args(Form)

_STARTS = 4  # random q beside the class means
_FORBIDDEN = 50.0  # the logarithm that a search sees where the denominator is not positive
_POINTS = 121


class Problem(NamedTuple):
    """Random classes: normal features around normal class means, under the method's map; every class one sample larger."""

    classes: int
    features: int
    smallest: int
    scatter: float
    seed: int

    def points(self) -> tuple[Tensor, Tensor]:
        """Probability vectors (N, D) in float64, and their classes (N,)."""
        generator = torch.Generator().manual_seed(self.seed)
        sizes = torch.arange(self.classes) + self.smallest
        targets = torch.arange(self.classes).repeat_interleave(sizes)
        means = torch.randn(self.classes, self.features, generator=generator, dtype=torch.float64)
        noise = torch.randn(len(targets), self.features, generator=generator, dtype=torch.float64)
        return feature_point(means[targets] + self.scatter * noise).probs, targets


class Parts(NamedTuple):
    """Numerator and denominator of Theorem 1's objective."""

    above: Tensor
    below: Tensor

    @property
    def ratio(self) -> float:
        """F(q)."""
        return float(self.above / self.below)


def objective(form: Form, probs: Tensor, targets: Tensor, q: Tensor) -> Parts:
    """Numerator and denominator of F at centroids ``q`` (C, D), pair by pair.

    The denominator is the mean over all pairs (x, z) of different classes, divided by N², of H(p_x, p_z) − H(p_x, q), with q
    that of x (corrected) or that of z (printed), and H(a, b) = −Σ a ln b.
    """
    own = q[targets]
    different = targets[:, None] != targets
    to_samples = -probs @ probs.log().T
    to_centroids = -probs @ own.log().T  # (x, z): q of z
    if form == "corrected":
        to_centroids = to_centroids.diagonal()[:, None]
    above = (probs * (probs / own).log()).sum() / len(probs)
    return Parts(above, ((to_samples - to_centroids) * different).sum() / len(probs) ** 2)


def class_means(probs: Tensor, targets: Tensor) -> Tensor:
    """s (C, D)."""
    return torch.stack([probs[targets == label].mean(dim=0) for label in range(int(targets.max()) + 1)])


def divergence(a: Tensor, b: Tensor) -> Tensor:
    """KL divergences of rows, (C,)."""
    return (a * (a / b).log()).sum(dim=-1)


def descend(function: Callable[[Tensor], Parts], start: Tensor) -> Tensor:
    """Centroids (C, D) at which L-BFGS on ln F over softmax logits ends, from ``start``, where the denominator is positive."""
    logits = start.log().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [logits],
        max_iter=500,
        history_size=20,
        tolerance_grad=1e-13,
        tolerance_change=1e-16,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        above, below = function(logits.softmax(dim=-1))
        # A step that is too long lands where F is negative: the line search must see a wall there, not a prize.
        value = above.log() - below.log() if float(below.detach()) > 0 else 0 * logits.sum() + _FORBIDDEN
        value.backward()
        return value

    optimizer.step(closure)  # pyright: ignore[reportArgumentType]
    return logits.detach().softmax(dim=-1)


def printed_minimum(probs: Tensor, targets: Tensor, steps: int = 60) -> Tensor:
    """Centroids (C, D) of the printed form's global minimum where its denominator is positive.

    By Dinkelbach's iteration: numerator − λ · denominator is minimal at q^y in proportion to P_y + λ (n_y / N) (P − P_y), a
    mixture of a class with all the others, and λ becomes F there. So no descent can end below it.
    """
    sums = class_means(probs, targets) * targets.bincount()[:, None]
    others = (sums.sum(dim=0) - sums) * targets.bincount()[:, None] / len(probs)
    q = class_means(probs, targets)
    for _ in range(steps):
        mixed = sums + objective("printed", probs, targets, q).ratio * others
        q = mixed / mixed.sum(dim=-1, keepdim=True)
    return q


def solve(problem: Problem) -> dict[str, Any]:
    """The row of a problem: NCMI three ways, both forms at the class means and at their minima, and the two identities."""
    probs, targets = problem.points()
    means = class_means(probs, targets)
    count, sizes = len(probs), targets.bincount().double()
    cmi = divergence(probs, means[targets]).sum() / count
    pairs = torch.stack([divergence(means[label], probs) for label in targets])  # (x, z): D(s of x ‖ p_z)
    gamma = (pairs * (targets[:, None] != targets)).sum() / count**2
    value = float(cmi / gamma)

    statistics = class_statistics(simplex_point(probs.log(), "softmax"), targets, problem.classes)
    fast = theorem1(statistics, simplex_point(means.log(), "softmax"))
    generator = torch.Generator().manual_seed(1000 + problem.seed)
    noise = torch.randn(_STARTS, *means.shape, generator=generator, dtype=torch.float64)
    starts = [means, *(means.log() + 0.5 * noise).softmax(dim=-1)]
    far = starts[-1]

    # What the identities say at a q that is not s.
    apart = divergence(means, far)
    corrected = objective("corrected", probs, targets, far)
    above = cmi + (sizes / count * apart).sum()
    below = gamma - (sizes * (count - sizes) / count**2 * apart).sum()
    row: dict[str, Any] = {
        "kind": "problem",
        **problem._asdict(),
        "samples": count,
        "cmi": float(cmi),
        "gamma": float(gamma),
        "ncmi": value,
        "linear_time": float(ncmi(statistics).ncmi),
        "linear_time_at_means": float(fast.concentration / fast.separation),
        "identity_above": float((corrected.above - above).abs()),
        "identity_below": float((corrected.below - below).abs()),
    }
    known = {"corrected": means, "printed": printed_minimum(probs, targets)}
    for form in FORMS:
        allowed = [start for start in starts if float(objective(form, probs, targets, start).below) > 0]
        ends = [descend(lambda q, form=form: objective(form, probs, targets, q), start) for start in allowed]
        values = [objective(form, probs, targets, end).ratio for end in ends]
        best = ends[min(range(len(ends)), key=values.__getitem__)]
        row[form] = {
            "at_means": objective(form, probs, targets, means).ratio,
            "minimum": objective(form, probs, targets, known[form]).ratio,
            "descents": len(values),
            "lowest": min(values),
            "highest": max(values),
            "distance": float((best - means).abs().sum(dim=-1).max() / 2),
        }
    return row


def line(problem: Problem, name: str) -> dict[str, Any]:
    """Both forms along a line of log-probabilities that starts at the class means and ends, at t = 1, at another q.

    ``printed minimum``: where the printed form is lowest; the line goes on to both sides. ``corners``: almost at a corner of
    the simplex for each class, on the way to which the corrected denominator can become negative.
    """
    probs, targets = problem.points()
    means = class_means(probs, targets)
    if name == "printed minimum":
        end, first, last = printed_minimum(probs, targets), -1.0, 2.0
    else:
        end, first, last = (6 * torch.eye(*means.shape, dtype=torch.float64)).softmax(dim=-1), 0.0, 1.0
    places = torch.linspace(first, last, _POINTS, dtype=torch.float64)
    values = {form: [] for form in FORMS}
    for t in places:
        q = ((1 - t) * means.log() + t * end.log()).softmax(dim=-1)
        for form in FORMS:
            parts = objective(form, probs, targets, q)
            values[form].append([round(float(part), 8) for part in parts])
    return {"kind": "line", **problem._asdict(), "line": name, "t": [round(float(t), 6) for t in places], **values}
