"""The class centroids q^v: learned by gradient, tracked as class means, or fixed.

Shapes: C classes, D feature width, K rows asked for.

``forward(classes)`` returns the centroids of ``classes`` (K,), or all of them, as log-densities ln(D·q).
"""

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ncmi.checks import check_sizes, check_temperature, choose
from ncmi.distributed import equal_gradient
from ncmi.functional import ClassStatistics, LogDensity, log_density, simplex_point, spread_directions, to_logits
from ncmi.functional.kernels import Simplex

STARTS = ("orthogonal", "axis", "uniform", "class_means")
_AXIS_SCALE = 10.0  # the published script's start, ξ^y = 10·e_y
_PATIENCE = 100


def starting_logits(start: str, num_classes: int, num_features: int, temperature: float) -> Tensor:
    """Starting values of ξ (C, D).

    ``orthogonal``: directions as far apart as they can be (:func:`ncmi.functional.spread_directions`), of length 1/τ like
    the features. ``axis``: 10·e_y, the published start, which needs D ≥ C. ``uniform``: zero, so every q is uniform.
    ``class_means``: not known yet; filled by ``NCMILoss.start_from_class_means``.
    """
    choose("Centroids", "start", start, STARTS)
    if start == "orthogonal":
        return spread_directions(num_classes, num_features) / temperature
    if start == "axis":
        if num_classes > num_features:
            raise ValueError(
                f"Centroids: start='axis' gives each class a coordinate of its own, so num_features must be at least "
                f"num_classes={num_classes}; got {num_features}. Use start='orthogonal'."
            )
        return _AXIS_SCALE * torch.eye(num_classes, num_features)
    return torch.full((num_classes, num_features), 0.0 if start == "uniform" else torch.nan)


class Centroids(nn.Module):
    """What the three kinds share: sizes, the simplex map and the starting values ``xi`` (C, D).

    Args:
        num_classes: C.
        num_features: D.
        start: ``orthogonal``, ``axis``, ``uniform`` or ``class_means``; see :func:`starting_logits`.
        temperature: τ of the loss, which sets the length of ``orthogonal`` starts.
        simplex: ``"nsf"`` or ``"softmax"``, as in the loss.
    """

    xi: Tensor

    def __init__(
        self,
        num_classes: int,
        num_features: int,
        start: str = "orthogonal",
        *,
        temperature: float = 0.2,
        simplex: Simplex = "nsf",
    ):
        super().__init__()
        owner = type(self).__name__
        check_sizes(owner, num_classes, num_features)
        check_temperature(owner, temperature)
        choose(owner, "simplex", simplex, ("nsf", "softmax"))
        self.num_classes = num_classes
        self.num_features = num_features
        self.start = start
        self.temperature = temperature
        self.simplex: Simplex = simplex
        self._hold(starting_logits(start, num_classes, num_features, temperature))

    def _hold(self, logits: Tensor) -> None:
        self.register_buffer("xi", logits)

    def forward(self, classes: Tensor | None = None, dtype: torch.dtype | None = None) -> LogDensity:
        """Centroids of ``classes`` (K,), or of all classes, computed in ``dtype``."""
        rows = self.xi if classes is None else self.xi.index_select(0, classes)
        return log_density(rows.to(dtype or rows.dtype), self.simplex)

    def update(self, statistics: ClassStatistics, classes: Tensor | None) -> None:
        """Take in the class sums of a training batch; only tracked centroids do something with them."""

    @property
    def needs_statistics(self) -> bool:
        """Whether :meth:`update` wants the batch's class sums."""
        return False

    @torch.no_grad()
    def set_means(self, probs: Tensor, counts: Tensor) -> None:
        """Start from known class means (C, D) of ``counts`` (C,) samples."""
        self.xi.copy_(to_logits(probs, self.simplex))

    def check_ready(self) -> None:
        """A sentence if ``start="class_means"`` was asked for and no means have been given yet."""
        if self.start != "class_means" or torch.compiler.is_compiling():
            return
        if bool(next(iter(self.state_dict().values())).isnan().any()):
            raise RuntimeError(
                f"{type(self).__name__}: start='class_means' needs the class means before the first step. "
                "Call loss.start_from_class_means(features, targets) with features of the training set."
            )

    def extra_repr(self) -> str:
        """Settings for ``print(loss)``."""
        return f"{self.num_classes}, {self.num_features}, start={self.start!r}"


class FixedCentroids(Centroids):
    """Centroids that stay where they start, as in the published script (there with ``start="axis"``)."""


class LearnedCentroids(Centroids):
    """Centroids q = NSF(ξ) with ξ a parameter: Algorithm 1. **Give ξ to an optimiser**: see ``ncmi.parameter_groups``.

    Args:
        sparse: give ξ row-wise gradients, so that with plain SGD (no momentum, no weight decay) a step touches only the
            classes of the batch. Worth it from about 10,000 classes on, with ``theorem1`` or ``centroid``.
        settings: those of :class:`Centroids`.
    """

    def __init__(
        self, num_classes: int, num_features: int, start: str = "orthogonal", *, sparse: bool = False, **settings: Any
    ):
        super().__init__(num_classes, num_features, start, **settings)
        self.sparse = sparse
        self._steps_watched = 0
        self._size_at_start = 0.0

    def _hold(self, logits: Tensor) -> None:
        self.xi = nn.Parameter(logits)

    def forward(self, classes: Tensor | None = None, dtype: torch.dtype | None = None) -> LogDensity:
        """Centroids of ``classes`` (K,), or of all classes, with a gradient for ξ."""
        if self.training and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            self._watch()
        rows = self.xi if classes is None else F.embedding(classes, self.xi, sparse=self.sparse)
        rows = equal_gradient(rows) if self.training else rows
        return log_density(rows.to(dtype or rows.dtype), self.simplex)

    def _watch(self) -> None:
        """Warn once if ξ is the same after many training steps: the usual forgotten ``loss.parameters()``."""
        if self._steps_watched > _PATIENCE or not self.xi.requires_grad:
            return
        if self._steps_watched in (0, _PATIENCE):
            size = float(self.xi.detach().square().sum(dtype=torch.float64))
            if self._steps_watched == 0:
                self._size_at_start = size
            elif size == self._size_at_start:
                warnings.warn(
                    f"NCMILoss: the centroids are trainable, but no optimiser has moved them in {_PATIENCE} training steps. "
                    "Build the optimiser from ncmi.parameter_groups(model, loss, lr=...), or ask for centroids='fixed'.",
                    stacklevel=4,
                )
        self._steps_watched += 1


class EMACentroids(Centroids):
    """Class means, the exact minimiser of Theorem 1 over q, tracked over batches; no gradient, nothing to optimise.

    Args:
        momentum: weight of the past each time a class appears. A class's mean is weighted by sample counts, and replaces
            the starting value the first time the class appears.
        settings: those of :class:`Centroids`.
    """

    probs: Tensor
    count: Tensor

    def __init__(
        self, num_classes: int, num_features: int, start: str = "orthogonal", *, momentum: float = 0.9, **settings: Any
    ):
        super().__init__(num_classes, num_features, start, **settings)
        if not 0 <= momentum < 1:
            raise ValueError(f"EMACentroids: momentum must lie in [0, 1); got {momentum}.")
        self.momentum = momentum

    def _hold(self, logits: Tensor) -> None:
        self.register_buffer("probs", simplex_point(logits, self.simplex).probs)
        self.register_buffer("count", torch.zeros(len(logits)))

    def forward(self, classes: Tensor | None = None, dtype: torch.dtype | None = None) -> LogDensity:
        """Tracked means of ``classes`` (K,), or of all classes."""
        probs = self.probs if classes is None else self.probs.index_select(0, classes)
        probs = probs.to(dtype or probs.dtype)
        # A probability can underflow at temperatures below 0.01; its logarithm is then that of the smallest number.
        density = (probs * self.num_features).clamp_min(torch.finfo(probs.dtype).tiny)
        return LogDensity(density.log())

    @property
    def needs_statistics(self) -> bool:
        """Whether :meth:`update` wants the batch's class sums."""
        return True

    @torch.no_grad()
    def update(self, statistics: ClassStatistics, classes: Tensor | None) -> None:
        """Move the means of the classes of the batch; the others keep theirs."""
        if classes is None:
            classes = torch.arange(self.num_classes, device=self.probs.device)
        new_count = statistics.counts.to(self.count.dtype)
        present = new_count > 0
        old_count, old_probs = self.count.index_select(0, classes), self.probs.index_select(0, classes)
        total = torch.where(present, self.momentum * old_count + new_count, 1.0)
        mean = (old_probs * (self.momentum * old_count)[:, None] + statistics.prob_sum.to(old_probs.dtype)) / total[
            :, None
        ]
        # Added as differences: spare rows of a compact batch all point to class 0 and must not overwrite it.
        moved = torch.where(present[:, None], mean - old_probs, 0.0)
        counted = torch.where(present, total - old_count, 0.0)
        if torch.compiler.is_compiling():  # see set_buffers
            self.probs, self.count = self.probs.index_add(0, classes, moved), self.count.index_add(0, classes, counted)
        else:
            self.probs.index_add_(0, classes, moved)
            self.count.index_add_(0, classes, counted)

    @torch.no_grad()
    def set_means(self, probs: Tensor, counts: Tensor) -> None:
        """Start from known class means (C, D), which weigh as the ``counts`` (C,) samples they come from."""
        self.probs.copy_(probs)
        self.count.copy_(counts)


CENTROIDS: dict[str, type[Centroids]] = {"learned": LearnedCentroids, "ema": EMACentroids, "fixed": FixedCentroids}
