"""NCMI as a criterion, and an ``NCMILoss`` from the plain values of a recipe.

Shapes: B samples, C classes, D feature width.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ncmi.center import CENTERS
from ncmi.centroids import CENTROIDS
from ncmi.checks import choose
from ncmi.criteria.base import Criterion
from ncmi.criteria.memory import FeatureMemory
from ncmi.distributed import world_size
from ncmi.functional import SimplexPoint, kl_to_centroids
from ncmi.loss import NCMILoss, NoSeparation, full_precision
from ncmi.objective import OBJECTIVES, RatioOfMeans, harmonic, rivals


class NCMICriterion(Criterion):
    """NCMI, decided by the nearest centroid of the loss.

    With a ``memory``, a ratio of means is formed over the batch and the features of past steps, which have no gradient: one
    bag a step is enough. Past and present are one batch to the loss, its centre and its tracked centroids. Until a second
    class has come, steps are for remembering alone: their loss is zero, and so is its gradient. The gradient of a lone bag is
    about that of a bag in a batch of 1 + ``memory``: AdamW does not mind, for SGD raise the rate.

    Args:
        loss: the loss.
        memory: feature vectors of past steps to remember, of all ranks together; 0 for none.
    """

    probabilities_need_temperature = True

    def __init__(self, loss: NCMILoss, *, memory: int = 0):
        super().__init__()
        self.loss = loss
        self.memory = _make_memory(loss, memory)
        self.num_classes, self.num_features = loss.num_classes, loss.num_features
        self.decision = {"learned": "learned q", "ema": "tracked means", "fixed": "fixed q"}[
            next(name for name, kind in CENTROIDS.items() if isinstance(loss.centroids, kind))
        ]

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch; in evaluation NaN where a ratio has no value, as for samples of one class."""
        if self.training:
            return self.loss(features, targets) if self.memory is None else self._remembering(features, targets)
        try:
            return self.loss(features, targets)
        except NoSeparation:
            return features.new_tensor(torch.nan)

    def _remembering(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of the batch and the memory together; then the batch is remembered."""
        assert self.memory is not None
        if targets.is_floating_point():
            raise ValueError(
                f"loss: memory keeps class indices (B,), and the targets are soft labels {tuple(targets.shape)}. Leave out "
                "memory, or what mixes labels."
            )
        past, batch = self.memory.held(), self.memory.gathered(features, targets)
        labels = torch.cat([past.targets, batch.targets])
        if bool((labels == labels[0]).all()) and not self.memory.full:
            # Every parameter takes part, because DDP waits for the gradient of each.
            loss = 0 * sum((p.sum() for p in self.loss.parameters()), features.float().sum())
        else:
            # The loss adds up over ranks, so each brings another share of what all of them remember.
            ranks = world_size()
            share = slice(dist.get_rank() if ranks > 1 else 0, None, ranks)
            dtype = torch.promote_types(features.dtype, past.features.dtype)
            everything = torch.cat([features.to(dtype), past.features[share].to(dtype)])
            loss = self.loss(everything, torch.cat([targets, past.targets[share]]))
        self.memory.store(batch)
        return loss

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
    def centroids(self) -> Tensor:
        """Those of the loss."""
        return self.loss.centroids().log_density.detach()

    @property
    def needs_start(self) -> bool:
        """Whether the centroids start from class means."""
        return self.loss.centroids.start == "class_means"

    def start(self, features: Tensor, targets: Tensor) -> None:
        """Centre and centroids from the features of the training set."""
        self.loss.start_from_class_means(features, targets)


def _make_memory(loss: NCMILoss, size: int) -> FeatureMemory | None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ValueError(f"loss: memory must be a whole number of past vectors, 0 for none; got {size!r}.")
    if not size:
        return None
    if not isinstance(loss.objective, RatioOfMeans):
        raise ValueError(
            f"loss: memory={size} is for a ratio of means (objectives 'theorem1' and 'centroid'); got {loss.objective.name}. "
            "Leave out memory; for one bag a step take objective 'harmonic'."
        )
    return FeatureMemory(size, loss.num_features)


def make_ncmi(
    num_classes: int,
    num_features: int,
    *,
    preset: str | None = None,
    objective: str = "rivals",
    exponent: float | None = None,
    temperature: float = 0.2,
    centroids: str = "learned",
    centroids_start: str | None = None,
    center: str = "ema",
    center_momentum: float = 0.999,
    simplex: str = "nsf",
    prior: str = "batch",
    weight: Sequence[float] | None = None,
) -> NCMILoss:
    """An :class:`ncmi.NCMILoss` from plain values, as a recipe holds them.

    Args:
        num_classes: C.
        num_features: D.
        preset: ``"paper"`` or ``"released"``: published settings, in place of all that follow.
        objective: ``rivals``, ``harmonic``, ``theorem1``, ``centroid`` or ``released``.
        exponent: k of ``rivals`` or ``harmonic``; by default the loss's.
        temperature: τ.
        centroids: ``learned``, ``ema`` or ``fixed``.
        centroids_start: ``orthogonal``, ``axis``, ``uniform`` or ``class_means`` (a pass over the training set, for
            fine-tuning); by default what the objective needs.
        center: ``ema``, ``batch``, ``printed`` or ``none``.
        center_momentum: of the moving average.
        simplex: ``nsf`` or ``softmax``.
        prior: ``batch`` or ``uniform``.
        weight: class weights, C numbers.
    """
    if preset is not None:
        return NCMILoss.from_preset(preset, num_classes, num_features)
    with_exponent = {"rivals": rivals, "harmonic": harmonic}
    if exponent is not None and objective not in with_exponent:
        raise ValueError(
            f"loss: exponent belongs to the objectives 'rivals' and 'harmonic'; got objective {objective!r}. Leave it out."
        )
    choose("loss", "objective", objective, OBJECTIVES)
    choose("loss", "center", center, CENTERS)
    chosen = OBJECTIVES[objective] if exponent is None else with_exponent[objective](exponent)
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
        weight=None if weight is None else torch.tensor(weight, dtype=torch.float32),
    )
