"""What the loop watches: numbers that are not finite, and classes that merge while it can still be helped."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ncmi.criteria import Criterion
from ncmi.distributed import sum_over_ranks
from ncmi.functional import ClassStatistics, class_statistics, ncmi

# Up to the middle of a run, at its largest learning rates, many classes of a healthy network still share a decision.
_EARLY = 0.5
_MANY = 0.2


class Diverged(ArithmeticError):
    """The loss or the weights are no longer finite."""


def check_finite(loss: float, epoch: int, step: int) -> None:
    """A sentence if the loss is not finite, before it can reach the weights."""
    if not math.isfinite(loss):
        raise Diverged(
            f"training diverged: the loss is {loss} in epoch {epoch}, step {step}. Lower optimizer.lr, add a warm-up or "
            "optimizer.clip_norm. The last checkpoint is from before."
        )


def check_finite_weights(module: nn.Module, epoch: int) -> None:
    """A sentence if a weight is not finite, before it can reach a checkpoint."""
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise Diverged(
                f"training diverged: {name} is not finite in epoch {epoch}. Lower optimizer.lr, add a warm-up or "
                "optimizer.clip_norm. The last checkpoint is from before."
            )


@torch.no_grad()
def measure_batch(criterion: Criterion, features: Tensor, targets: Tensor) -> dict[str, float]:
    """Accuracy, CMI, Γ and NCMI of a training batch, that of all ranks together; every rank must call it."""
    criterion.eval()
    right = (criterion.scores(features).argmax(dim=1) == targets).sum()
    statistics = class_statistics(criterion.points(features), targets, criterion.num_classes)
    right, *sums = sum_over_ranks(right.to(statistics.counts.dtype), *statistics)
    terms = ncmi(ClassStatistics(*sums))
    criterion.train()
    cmi, gamma = float(terms.cmi), float(terms.gamma)
    accuracy = float(right / sums[0].sum())
    return {"accuracy": accuracy, "cmi": cmi, "gamma": gamma, "ncmi": cmi / gamma if gamma > 0 else math.nan}


class CollapseMonitor:
    """Warns when classes share a nearest centroid (or a head's decision) although training is well under way.

    Two classes whose mean outputs are decided as the same class have merged, or are about to: a ratio of means does not see
    it, since its separation is an average over all pairs.

    Args:
        epochs: of the whole run.
        num_classes: C.
    """

    def __init__(self, epochs: int, num_classes: int):
        self.epochs, self.num_classes = epochs, num_classes
        self.fewest = num_classes
        self.warned_at = 0

    def look(self, row: dict[str, Any]) -> str | None:
        """A warning for an epoch's row, or nothing; it is repeated only when the number has doubled."""
        if row.get("shared_classes") is None:
            return None
        epoch, shared = row["epoch"], int(row["shared_classes"])
        rose = shared > 2 * self.fewest + 0.1 * self.num_classes
        self.fewest = min(self.fewest, shared)
        late = epoch > max(_EARLY * self.epochs, 2) and shared > max(1, _MANY * self.num_classes)
        if not (rose or late) or shared < 2 * self.warned_at or shared == 0:
            return None
        self.warned_at = shared
        return (
            f"warning: after epoch {epoch} {shared} of {self.num_classes} classes share the decision of another class "
            f"(decisions use {row['decided_classes']:.1f} classes, output entropy {row['output_entropy']:.3f}). A ratio of means "
            "(objectives theorem1 and centroid) merges classes while its value falls; objective harmonic does not. With other "
            "losses, lower optimizer.lr or train longer."
        )
