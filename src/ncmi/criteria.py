"""``Criterion``: what turns features into a loss, and into a decision. Every loss is trained and evaluated through it.

Shapes: B samples, C classes, D feature width.

A network returns features (B, D). What comes after them belongs to the loss: NCMI's centroids, or the linear head that
cross-entropy and its relatives need. So any loss can be exchanged for any other without touching the network.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ncmi.baselines import BASELINES
from ncmi.center import CENTERS, EMACenter
from ncmi.centroids import CENTROIDS
from ncmi.checks import choose
from ncmi.functional import SimplexPoint, feature_point, kl_to_centroids
from ncmi.loss import NCMILoss, full_precision
from ncmi.objective import OBJECTIVES, harmonic


class Criterion(nn.Module):
    """The loss of features, with the decision it was trained for."""

    num_classes: int
    num_features: int
    decision: str
    """Name of the decision in tables: ``"learned q"``, ``"head"``."""
    headline: str = "own"
    """The decision that the loss is judged by: its own, or ``"linear probe"`` for a loss that has none."""
    probabilities_need_temperature: bool
    """Whether scores are divergences, whose softmax needs a fitted temperature, rather than logits."""

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch; in training that of the global batch, the same number on every rank."""
        raise NotImplementedError

    def scores(self, features: Tensor) -> Tensor:
        """Scores (B, C); the largest decides."""
        raise NotImplementedError

    def points(self, features: Tensor) -> SimplexPoint:
        """Features as points of the simplex, with the centre as it stands; what CMI, Γ and NCMI are measured on."""
        raise NotImplementedError

    def own_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters with a learning rate of their own and no weight decay, such as centroids."""
        raise NotImplementedError

    @property
    def needs_start(self) -> bool:
        """Whether :meth:`start` must be called with features of the training set before the first step."""
        return False

    def start(self, features: Tensor, targets: Tensor) -> None:
        """Start from the features (N, D) of the training set; under DDP each rank passes its share."""


class NCMICriterion(Criterion):
    """NCMI, decided by the nearest centroid of the loss."""

    probabilities_need_temperature = True

    def __init__(self, loss: NCMILoss):
        super().__init__()
        self.loss = loss
        self.num_classes, self.num_features = loss.num_classes, loss.num_features
        self.decision = {"learned": "learned q", "ema": "tracked means", "fixed": "fixed q"}[
            next(name for name, kind in CENTROIDS.items() if isinstance(loss.centroids, kind))
        ]

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch."""
        return self.loss(features, targets)

    def scores(self, features: Tensor) -> Tensor:
        """Minus the divergence (B, C) from each centroid."""
        points = self.points(features)
        with full_precision(features):
            return -kl_to_centroids(points, self.loss.centroids(dtype=points.probs.dtype).log_density)

    def points(self, features: Tensor) -> SimplexPoint:
        """Features as points of the simplex."""
        return self.loss.points(features)

    def own_parameters(self) -> Iterator[nn.Parameter]:
        """The centroids ξ, if they are learned."""
        return self.loss.parameters()

    @property
    def needs_start(self) -> bool:
        """Whether the centroids start from class means."""
        return self.loss.centroids.start == "class_means"

    def start(self, features: Tensor, targets: Tensor) -> None:
        """Centre and centroids from the features of the training set."""
        self.loss.start_from_class_means(features, targets)


class HeadCriterion(Criterion):
    """A linear head with a loss on its logits, or on logits and features.

    The centre is tracked only so that CMI, Γ and NCMI can be measured as for NCMI; it changes nothing in training.
    """

    probabilities_need_temperature = False
    decision = "head"

    def __init__(self, loss: nn.Module, num_classes: int, num_features: int, temperature: float = 0.2):
        super().__init__()
        self.num_classes, self.num_features = num_classes, num_features
        self.temperature = temperature
        self.head = nn.Linear(num_features, num_classes)
        self.loss = loss
        self.center = EMACenter(num_features, momentum=0.99)

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch."""
        if self.training:
            self.center(features.detach().to(self.center.mean.dtype))
        logits = self.head(features)
        if self.loss.takes == "logits":
            return self.loss(logits, targets)
        return self.loss(logits, features, targets)

    def scores(self, features: Tensor) -> Tensor:
        """The head's logits (B, C)."""
        return self.head(features.to(self.head.weight.dtype))

    def points(self, features: Tensor) -> SimplexPoint:
        """Features as points of the simplex, under NCMI's default map."""
        features = features.to(torch.promote_types(features.dtype, torch.float32))
        return feature_point(features, self.center.mean.to(features.dtype), self.temperature, "nsf")

    def own_parameters(self) -> Iterator[nn.Parameter]:
        """What the loss itself holds, such as class centres."""
        return self.loss.parameters()


def list_criteria() -> list[str]:
    """Names that :func:`create_criterion` knows."""
    return ["ncmi", *BASELINES]


def create_criterion(name: str, num_classes: int, num_features: int, **options: Any) -> Criterion:
    """The criterion of a loss by name.

    Args:
        name: one of :func:`list_criteria`.
        num_classes: C.
        num_features: D.
        options: of the loss; those of ``ncmi`` are the arguments of :func:`make_ncmi`.

    >>> create_criterion("ncmi", 10, 64, objective="theorem1").decision
    'learned q'
    >>> create_criterion("ce", 10, 64).decision
    'head'
    """
    choose("loss", "name", name, list_criteria())
    if name == "ncmi":
        _check_options(name, options, make_ncmi)
        return NCMICriterion(make_ncmi(num_classes, num_features, **options))
    kind = BASELINES[name]
    _check_options(name, options, kind)
    sizes = {"num_classes": num_classes, "num_features": num_features}
    wanted = inspect.signature(kind).parameters
    loss = kind(**{size: value for size, value in sizes.items() if size in wanted}, **options)
    return HeadCriterion(loss, num_classes, num_features)


def make_ncmi(
    num_classes: int,
    num_features: int,
    *,
    preset: str | None = None,
    objective: str = "harmonic",
    exponent: float | None = None,
    temperature: float = 0.2,
    centroids: str = "learned",
    centroids_start: str | None = None,
    center: str = "ema",
    center_momentum: float = 0.999,
    simplex: str = "nsf",
    prior: str = "batch",
) -> NCMILoss:
    """An :class:`ncmi.NCMILoss` from plain values, as a recipe holds them.

    Args:
        num_classes: C.
        num_features: D.
        preset: ``"paper"`` or ``"released"``: published settings, in place of all that follow.
        objective: ``harmonic``, ``theorem1``, ``centroid`` or ``released``.
        exponent: k of ``harmonic``; by default the loss's rule for C classes.
        temperature: τ.
        centroids: ``learned``, ``ema`` or ``fixed``.
        centroids_start: ``orthogonal``, ``axis``, ``uniform`` or ``class_means`` (a pass over the training set, for
            fine-tuning); by default what the objective needs.
        center: ``ema``, ``batch``, ``printed`` or ``none``.
        center_momentum: of the moving average.
        simplex: ``nsf`` or ``softmax``.
        prior: ``batch`` or ``uniform``.
    """
    if preset is not None:
        return NCMILoss.from_preset(preset, num_classes, num_features)
    if exponent is not None and objective != "harmonic":
        raise ValueError(f"loss: exponent belongs to objective 'harmonic'; got objective {objective!r}. Leave it out.")
    choose("loss", "objective", objective, OBJECTIVES)
    choose("loss", "center", center, CENTERS)
    chosen = OBJECTIVES[objective](num_classes) if exponent is None else harmonic(exponent)
    kind = CENTROIDS[choose("loss", "centroids", centroids, CENTROIDS)]
    start = chosen.start if centroids_start is None else centroids_start
    return NCMILoss(
        num_classes,
        num_features,
        chosen,
        temperature=temperature,
        centroids=kind(num_classes, num_features, start, temperature=temperature, simplex=simplex),  # pyright: ignore[reportArgumentType]
        center=center if center == "none" else CENTERS[center](num_features, center_momentum),  # pyright: ignore[reportCallIssue]
        simplex=simplex,  # pyright: ignore[reportArgumentType]
        prior=prior,  # pyright: ignore[reportArgumentType]
    )


def _check_options(name: str, options: dict[str, Any], build: Any) -> None:
    known = [option for option in inspect.signature(build).parameters if option not in ("num_classes", "num_features")]
    for option in options:
        choose("loss", f"an option of {name!r}", option, known)
