"""What learns inside ``NCMIClassifier``: a network with its loss, trained on tensors in memory.

Shapes: N samples, B in a batch, D feature width.
"""

import copy
import math
from typing import NamedTuple

import torch
from torch import Tensor, nn, optim

from ncmi.loss import NCMILoss
from ncmi.optim import parameter_groups

_CENTROID_FACTOR = 10.0  # ξ's rate over the network's under Adam, as ncmi.parameter_groups advises
_CHUNK = 8192  # rows that pass through the network at a time after training


class Samples(NamedTuple):
    """Standardised rows (N, columns), their class indices (N,) and weights (N,)."""

    rows: Tensor
    targets: Tensor
    weight: Tensor

    def take(self, index: Tensor) -> "Samples":
        """The samples at the row numbers ``index``."""
        index = index.to(self.rows.device)
        return Samples(self.rows[index], self.targets[index], self.weight[index])


class Curves(NamedTuple):
    """The loss of each pass, on the training samples as they are learned and on the validation samples afterwards."""

    training: list[float]
    validation: list[float]


class Learner:
    """A network and its loss, with what they need to go on learning.

    Args:
        network: from rows (B, columns) to features (B, D).
        criterion: a loss with ``reduction="none"``.
        learning_rate: of AdamW; centroids learn at ten times that rate.
        weight_decay: of the network's weights.
        batch_size: most samples in a step.
        seed: of the order of the samples.
    """

    def __init__(
        self,
        network: nn.Module,
        criterion: NCMILoss,
        *,
        learning_rate: float,
        weight_decay: float,
        batch_size: int,
        seed: int,
    ):
        self.network = network
        self.criterion = criterion
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.generator = torch.Generator().manual_seed(seed)
        self.optimizer = self._make_optimizer()

    def learn(
        self, samples: Samples, epochs: int, validation: Samples | None = None, patience: int = 1, verbose: bool = False
    ) -> Curves:
        """Curves of up to ``epochs`` passes, whose rate falls to zero along a cosine.

        With a validation part they end when its loss has not fallen for ``patience`` passes, and the best pass is kept.
        """
        schedule = optim.lr_scheduler.CosineAnnealingLR(self.optimizer, epochs * self._num_batches(samples))
        curves = Curves([], [])
        best_epoch, best = 0, self._state()
        for epoch in range(1, epochs + 1):
            curves.training.append(self.epoch(samples, schedule))
            report = f"pass {epoch} of {epochs}: loss {curves.training[-1]:.4f}"
            if validation is not None:
                with torch.no_grad():
                    curves.validation.append(self._loss(validation).item())
                report += f", validation {curves.validation[-1]:.4f}"
                if curves.validation[-1] == min(curves.validation):
                    best_epoch, best = epoch, self._state()
            if verbose:
                print(report)
            if validation is not None and epoch - best_epoch >= patience:
                break
        if validation is not None:
            self.network.load_state_dict(best["network"])
            self.criterion.load_state_dict(best["criterion"])
        self.optimizer = self._make_optimizer()  # later passes start at the full rate
        return curves

    def epoch(self, samples: Samples, schedule: optim.lr_scheduler.LRScheduler | None = None) -> float:
        """Mean loss of one pass over the samples in random order; without a schedule the rate stays.

        It leaves network and loss in evaluation mode.
        """
        self.network.train()
        self.criterion.train()
        total, size = 0.0, len(samples.targets)
        order = torch.randperm(size, generator=self.generator)
        # Parts of equal size: a last part of one or two samples would be a poor batch.
        for index in order.tensor_split(self._num_batches(samples)):
            loss = self._loss(samples.take(index))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if schedule is not None:
                schedule.step()
            total += loss.item() * len(index)
        self.network.eval()
        self.criterion.eval()
        if not math.isfinite(total):
            raise FloatingPointError(
                f"NCMIClassifier: the loss is not finite at learning_rate={self.learning_rate}. Pass a smaller one."
            )
        return total / size

    @torch.no_grad()
    def features(self, rows: Tensor) -> Tensor:
        """Features (N, D) of standardised rows."""
        return torch.cat([self.network(part) for part in rows.split(_CHUNK)])

    def _loss(self, batch: Samples) -> Tensor:
        return (self.criterion(self.network(batch.rows), batch.targets) * batch.weight).mean()

    def _state(self) -> dict[str, dict[str, Tensor]]:
        return copy.deepcopy({"network": self.network.state_dict(), "criterion": self.criterion.state_dict()})

    def _make_optimizer(self) -> optim.Optimizer:
        rates = {"lr": self.learning_rate, "centroid_lr": _CENTROID_FACTOR * self.learning_rate}
        groups = parameter_groups(self.network, self.criterion, weight_decay=self.weight_decay, **rates)
        return optim.AdamW(groups, fused=True)

    def _num_batches(self, samples: Samples) -> int:
        return math.ceil(len(samples.targets) / self.batch_size)
