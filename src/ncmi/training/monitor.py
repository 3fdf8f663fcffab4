"""What the loop watches: numbers that are not finite, and classes that merge while it can still be helped."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ncmi.criteria import Criterion
from ncmi.distributed import sum_over_ranks
from ncmi.functional import ClassStatistics, class_statistics, ncmi

# Classes that may share a decision without a word, as a part of all; one may in any case. In a set with a rare class the mean
# score of that class can fall to the common one while many of its samples are decided right.
_FEW = 0.1
_PATIENCE = 3
_ONE = 1.01  # effective number of decided classes below which all decisions are the same


class Diverged(ArithmeticError):
    """The loss or the weights are no longer finite."""


def check_finite(loss: float, epoch: int, step: int) -> None:
    """A sentence if the loss is not finite, before it can reach the weights."""
    if not math.isfinite(loss):
        raise Diverged(
            f"training diverged: the loss is {loss} in epoch {epoch}, step {step}. Lower optimizer.lr, add a warm-up or "
            "optimizer.clip_norm. What was saved is from before."
        )


def check_finite_weights(module: nn.Module, epoch: int) -> None:
    """A sentence if a weight is not finite, before it can reach a checkpoint."""
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise Diverged(
                f"training diverged: {name} is not finite in epoch {epoch}. Lower optimizer.lr, add a warm-up or "
                "optimizer.clip_norm. What was saved is from before."
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
    """Warns when the number of classes that share a nearest centroid (or a head's decision) rises, or no longer falls.

    Two classes whose mean outputs are decided as the same class have merged, or are about to: a ratio of means does not see
    it, since its separation is an average over all pairs. A healthy network starts with many such classes too, but their
    number falls. One such class is no sign, unless several epochs in a row have decided everything as one class: with two
    classes that is the only collapse there is.

    Args:
        num_classes: C.
    """

    def __init__(self, num_classes: int):
        self.num_classes = num_classes
        self.history: list[int] = []
        self.constant_epochs = 0
        self.warned_at = 0

    def look(self, row: dict[str, Any]) -> str | None:
        """A warning for an epoch's row, or nothing; it is repeated only when the number has doubled."""
        if row.get("shared_classes") is None:
            return None
        epoch, shared, few = row["epoch"], int(row["shared_classes"]), max(1.0, _FEW * self.num_classes)
        self.history.append(shared)
        # Two epochs in a row: in a healthy run at a large rate the number jumps for one.
        before, last = self.history[:-2], self.history[-2:]
        rose = bool(before) and min(last) > 2 * min(before) + few
        recent, earlier = self.history[-_PATIENCE:], self.history[:-_PATIENCE]
        stalled = bool(earlier) and min(recent) > few and min(recent) >= 0.9 * min(earlier)
        self.constant_epochs = self.constant_epochs + 1 if row["decided_classes"] < _ONE else 0
        constant = shared > 0 and self.constant_epochs > _PATIENCE
        if not (rose or stalled or constant) or shared < 2 * self.warned_at:
            return None
        self.warned_at = shared
        return (
            f"warning: after epoch {epoch}, {shared} of {self.num_classes} classes share the decision of another class "
            f"(decisions use {row['decided_classes']:.1f} classes, output entropy {row['output_entropy']:.3f}). A ratio of "
            "means (objectives theorem1 and centroid) merges classes while its value falls; objectives rivals and harmonic do "
            "not. With other losses, lower optimizer.lr, train longer, or weight rare classes (loss.options.weight)."
        )
