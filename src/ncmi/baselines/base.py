"""What the baselines share: checked inputs, full precision, weights, and a mean over the global batch.

Shapes: B samples, C classes.
"""

from collections.abc import Callable
from functools import reduce
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ncmi.baselines.inputs import check_num_classes, check_rows
from ncmi.buffers import keep_precision
from ncmi.checks import check_targets, choose
from ncmi.distributed import broadcast_state, sum_over_ranks, world_size
from ncmi.weighting import WeightedTargets, Weighting


class Baseline(nn.Module):
    """A loss to compare with. ``takes`` says what ``forward`` takes before the targets.

    Inside, everything is float32 (or float64 for float64 inputs), whatever the autocast mode. In training mode under an
    initialised process group every rank gets the loss and, after DDP's averaging, the gradient of the whole global batch; in
    ``eval()`` mode nothing is communicated and no state changes.

    Args:
        num_classes: C.
        weight: class weights (C,), as in ``nn.CrossEntropyLoss``.
        ignore_index: label of samples to leave out, as in ``nn.CrossEntropyLoss``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``, as in ``nn.CrossEntropyLoss``.
    """

    takes: ClassVar[Literal["logits", "logits and features", "views"]]
    takes_soft_labels: ClassVar[bool] = True
    takes_num_features: ClassVar[bool] = False
    parameter_lr: ClassVar[float | None] = None
    """Learning rate that suits the loss's own parameters under SGD; ``None`` if it has none."""

    def __init__(
        self,
        num_classes: int,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ):
        super().__init__()
        owner = type(self).__name__
        self.num_classes = check_num_classes(owner, num_classes)
        self.weighting = Weighting(num_classes, weight, "batch", ignore_index, owner)
        self.reduction = choose(owner, "reduction", reduction, ("mean", "sum", "none"))
        self._synchronized = False

    def _compute(self, labels: WeightedTargets, *inputs: Tensor) -> Tensor:
        """The loss of checked inputs in full precision; what each baseline is."""
        raise NotImplementedError

    def _evaluate(self, targets: Tensor, *inputs: Tensor) -> Tensor:
        """:meth:`_compute` of inputs whose shapes have been checked, after a look at the targets."""
        owner = type(self).__name__
        may_ignore = check_targets(owner, targets, len(inputs[0]), self.num_classes, self.weighting.ignore_index)
        if targets.is_floating_point() and not self.takes_soft_labels:
            raise ValueError(
                f"{owner}: targets must be class indices of shape (B,), because the loss is defined by pairs or centres of "
                f"single classes; got soft labels of shape {tuple(targets.shape)}. Pass targets.argmax(1), and no mixup."
            )
        dtype = reduce(torch.promote_types, (values.dtype for values in inputs), torch.float32)
        with torch.autocast(inputs[0].device.type, enabled=False):
            if self.training and not self._synchronized:
                broadcast_state(self)
                self._synchronized = world_size() > 1
            labels = self.weighting(targets, dtype, may_ignore)
            return self._compute(labels, *(values.to(dtype) for values in inputs))

    def _reduce(self, losses: Tensor, labels: WeightedTargets) -> Tensor:
        """Losses (B,) of the samples as one number, or with their weights for ``reduction="none"``."""
        if labels.weight is not None:
            losses = losses * labels.weight
        if self.reduction == "none":
            return losses
        (total,) = self._over_ranks(losses.sum())
        return total if self.reduction == "sum" else total / labels.total

    def _over_ranks(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return sum_over_ranks(*tensors) if self.training else tensors

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        return super()._apply(keep_precision(fn), recurse)

    def extra_repr(self) -> str:
        """Settings for ``print(loss)``."""
        hidden = ("training", "num_classes")
        settings = {
            name: value for name, value in vars(self).items() if not name.startswith("_") and name not in hidden
        }
        return ", ".join([str(self.num_classes), *(f"{name}={value!r}" for name, value in settings.items())])


class LogitsLoss(Baseline):
    """A number for each sample from its logits and label: :meth:`losses` is all that a subclass adds.

    Soft labels t give the expected loss Σ_y t_y·ℓ(z, y), which is how mixup mixes losses. Class weights multiply the loss of
    a sample, and a mean divides by their sum, or by B for soft labels, as in ``nn.CrossEntropyLoss``.
    """

    takes = "logits"

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch: logits (B, C), targets (B,) class indices or (B, C) soft labels."""
        check_rows(type(self).__name__, "logits", logits, self.num_classes, "num_classes")
        return self._evaluate(targets, logits)

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss (B,) of each sample, before weights."""
        raise NotImplementedError

    def _compute(self, labels: WeightedTargets, *inputs: Tensor) -> Tensor:
        return self._reduce(self.losses(inputs[0], labels.targets), labels)
