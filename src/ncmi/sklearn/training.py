"""What learns inside ``NCMIClassifier``: a network with its loss, trained on tensors in memory.

Shapes: N samples, B in a batch, C classes, D feature width.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from ncmi.heads.centroid import CentroidClassifier, fit_sharpness
from ncmi.loss import NCMILoss
from ncmi.objective import PerSample
from ncmi.optim import parameter_groups

_CENTROID_FACTOR = 10.0  # ξ's rate over the network's under Adam, as ncmi.parameter_groups advises
_CHUNK = 8192  # rows that pass through the network at a time after training


class Samples(NamedTuple):
    """Standardised rows (N, columns), their class indices (N,), and weights (N,) if they differ."""

    rows: Tensor
    targets: Tensor
    weight: Tensor | None = None

    def take(self, index: Tensor) -> "Samples":
        """The samples at ``index``: row numbers, or a mask."""
        return Samples(self.rows[index], self.targets[index], None if self.weight is None else self.weight[index])


@dataclass
class Learner:
    """A network and its loss, with what they need to go on learning.

    Args:
        network: from rows (B, columns) to features (B, D).
        criterion: the loss.
        learning_rate: of AdamW; centroids learn at ten times that rate.
        weight_decay: of the network's weights.
        batch_size: most samples in a step.
        generator: draws the batches.
    """

    network: nn.Module
    criterion: NCMILoss
    learning_rate: float
    weight_decay: float
    batch_size: int
    generator: torch.Generator
    optimizer: optim.Optimizer = field(init=False)

    def __post_init__(self):
        self.optimizer = self._make_optimizer()

    def learn(self, samples: Samples, epochs: int, after: Callable[[int, float], bool] | None = None) -> list[float]:
        """Losses of epochs whose rate falls to zero along a cosine; they end when ``after(epoch, loss)`` says stop."""
        steps = epochs * self._num_batches(len(samples.targets))
        schedule = optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)
        losses: list[float] = []
        for epoch in range(1, epochs + 1):
            losses.append(self.epoch(samples, schedule))
            if after is not None and after(epoch, losses[-1]):
                break
        self.optimizer = self._make_optimizer()  # later passes start at the full rate
        return losses

    def epoch(self, samples: Samples, schedule: optim.lr_scheduler.LRScheduler | None = None) -> float:
        """Mean loss of one pass over the samples in random order; without a schedule the rate stays."""
        if samples.weight is not None and not isinstance(self.criterion.objective, PerSample):
            raise ValueError(
                "NCMIClassifier: sample_weight needs an objective with a number for each sample ('harmonic' or 'released'); "
                f"{self.criterion.objective.name!r} is a ratio of means. Leave the weights out, or choose another objective."
            )
        self.network.train()
        self.criterion.train()
        total, size = 0.0, len(samples.targets)
        order = torch.randperm(size, generator=self.generator)
        # Parts of equal size: a last part of one or two samples would be a poor batch, and none at all for a ratio of means.
        for index in order.tensor_split(self._num_batches(size)):
            batch = samples.take(index.to(samples.rows.device))
            loss = self._loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if schedule is not None:
                schedule.step()
            total += loss.item() * len(index)
        if not math.isfinite(total):
            raise FloatingPointError(
                f"NCMIClassifier: the loss is not finite at learning_rate={self.learning_rate}. Pass a smaller one."
            )
        return total / size

    @torch.no_grad()
    def loss_of(self, samples: Samples) -> float:
        """Loss of held-out samples."""
        features = self.features(samples.rows)
        self.criterion.reduction = "mean"
        return self.criterion(features, samples.targets).item()

    @torch.no_grad()
    def features(self, rows: Tensor) -> Tensor:
        """Features (N, D) of standardised rows."""
        self.network.eval()
        self.criterion.eval()
        return torch.cat([self.network(part) for part in rows.split(_CHUNK)])

    def state(self) -> dict[str, dict[str, Tensor]]:
        """A copy of what was learned."""
        return copy.deepcopy({"network": self.network.state_dict(), "criterion": self.criterion.state_dict()})

    def set_state(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Go back to a copy."""
        self.network.load_state_dict(state["network"])
        self.criterion.load_state_dict(state["criterion"])

    def _loss(self, batch: Samples) -> Tensor:
        features = self.network(batch.rows)
        self.criterion.reduction = "mean" if batch.weight is None else "none"
        losses = self.criterion(features, batch.targets)
        return losses if batch.weight is None else (losses * batch.weight).mean()

    def _make_optimizer(self) -> optim.Optimizer:
        rates = {"lr": self.learning_rate, "centroid_lr": _CENTROID_FACTOR * self.learning_rate}
        groups = parameter_groups(self.network, self.criterion, weight_decay=self.weight_decay, **rates)
        return optim.AdamW(groups, fused=True)

    def _num_batches(self, size: int) -> int:
        return math.ceil(size / self.batch_size)


@torch.no_grad()
def score_temperature(decision: CentroidClassifier, features: Tensor, targets: Tensor) -> float:
    """T of ``softmax(scores / T)`` with the smallest negative log-likelihood; finite also where all are decided right.

    As if the samples had been seen once more in all, with a label that is not known: each label is a distribution with
    n/(n + 1) for its own class and the rest for all classes alike. Without it few samples, all decided right, ask for T = 0.
    """
    scores = decision(features).double()
    spread = (scores.amax(dim=1) - scores.amin(dim=1)).mean().item()
    if not spread > 0:
        return 1.0
    size, num_classes = scores.shape
    labels = (size * F.one_hot(targets, num_classes).double() + 1 / num_classes) / (size + 1)
    return 1 / fit_sharpness(scores, labels, lowest=1e-4 / spread, highest=1e6 / spread)[0]
