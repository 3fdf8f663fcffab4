"""NCMI as a criterion, and an ``NCMILoss`` from the plain values of a recipe.

Shapes: B samples, C classes, D feature width.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ncmi.center import CENTERS
from ncmi.centroids import CENTROIDS
from ncmi.checks import choose
from ncmi.criteria.base import Criterion
from ncmi.functional import SimplexPoint, kl_to_centroids
from ncmi.loss import NCMILoss, NoSeparation, full_precision
from ncmi.objective import OBJECTIVES, harmonic


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
        """The loss of a batch; in evaluation NaN where a ratio has no value, as for samples of one class."""
        if self.training:
            return self.loss(features, targets)
        try:
            return self.loss(features, targets)
        except NoSeparation:
            return features.new_tensor(torch.nan)

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
