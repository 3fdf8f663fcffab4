"""``NCMIMetric``: exact CMI, Γ and NCMI of a whole data set in one pass.

Shapes: B samples, C classes, D feature width.

Only the class statistics (n, P, L, E) are kept, in float64: two C×D matrices, however many samples go by.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.utilities import rank_zero_warn

from ncmi.checks import check_features, check_sizes, check_targets, check_temperature, choose
from ncmi.functional import ClassStatistics, SimplexPoint, feature_point, ncmi
from ncmi.functional.simplex import Simplex
from ncmi.loss import NCMILoss

Inputs = Literal["features", "log_probs"]

# Γ of outputs that are equal to the last float32 digit; below it CMI/Γ is a ratio of two rounding errors.
_RESOLUTION = 1e-12


class NCMIMetric(Metric):
    r"""CMI, Γ and NCMI of everything seen since the last reset: ``{"cmi": ..., "gamma": ..., "ncmi": ...}``.

    .. math::
        \mathrm{CMI} = \frac1N\sum_x D(p_x\|s^{c_x}), \qquad
        \Gamma = \frac1{N^2}\sum_{x,z:\,c_x\ne c_z} D(s^{c_x}\|p_z), \qquad
        \mathrm{NCMI} = \mathrm{CMI}/\Gamma

    (Eqs. 5–8; s^y is the mean of p over class y.) The sums add up over batches and ranks, so the value is that of the whole
    data set: it is neither a mean of batch values nor an estimate. Batches are added in place, in float64; features of any
    type are converted first. The values are float64 scalars, and a ``MetricCollection`` lists them by these names.

    Args:
        num_classes: C.
        num_features: D.
        inputs: ``"features"`` are mapped to the simplex first; ``"log_probs"`` are rows of ln p, used as they are (scaled
            to a sum of exactly one).
        center: c (D,) to subtract from features; ``None`` stands for zero.
        temperature: τ; 0.2 is the loss's default.
        simplex: ``"nsf"``, or ``"softmax"`` for the ablation.
        ignore_index: label of samples to leave out, as in ``nn.CrossEntropyLoss``.
        kwargs: settings of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    Shape:
        inputs (B, D); targets (B,) class indices or (B, C) soft labels.

    >>> metric = NCMIMetric(num_classes=2, num_features=3)
    >>> for middle in (0.0, 0.5):
    ...     metric.update(torch.tensor([[1.0, middle, -1.0], [-1.0, middle, 1.0]]), torch.tensor([0, 1]))
    >>> {name: round(value.item(), 4) for name, value in metric.compute().items()}
    {'cmi': 0.0081, 'gamma': 0.9783, 'ncmi': 0.0083}
    """

    higher_is_better = False
    is_differentiable = False
    full_state_update = False

    counts: Tensor
    prob_sum: Tensor
    log_sum: Tensor
    neg_entropy: Tensor
    center: Tensor | None

    def __init__(
        self,
        num_classes: int,
        num_features: int,
        *,
        inputs: Inputs = "features",
        center: Tensor | None = None,
        temperature: float = 0.2,
        simplex: Simplex = "nsf",
        ignore_index: int = -100,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_sizes("NCMIMetric", num_classes, num_features)
        if center is not None and center.shape != (num_features,):
            raise ValueError(f"NCMIMetric: center must have shape ({num_features},); got {tuple(center.shape)}.")
        self.num_classes = num_classes
        self.num_features = num_features
        self.inputs = choose("NCMIMetric", "inputs", inputs, ("features", "log_probs"))
        self.temperature = check_temperature("NCMIMetric", temperature)
        self.simplex: Simplex = choose("NCMIMetric", "simplex", simplex, ("nsf", "softmax"))  # pyright: ignore[reportAttributeAccessIssue]
        self.ignore_index = ignore_index
        self.register_buffer("center", None if center is None else center.detach().to(torch.float64, copy=True))
        self._loss: _SharedLoss | None = None
        shapes = {"counts": (num_classes,), "prob_sum": (num_classes, num_features), "neg_entropy": ()}
        for name, shape in {**shapes, "log_sum": shapes["prob_sum"]}.items():
            self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    @classmethod
    def from_loss(cls, loss: NCMILoss, **kwargs: Any) -> "NCMIMetric":
        """A metric of features that maps them as ``loss`` does, with the loss's centre as it stands at each update.

        The loss is shared, not owned: it stays out of the metric's ``state_dict``, and clones read the same loss.

        >>> metric = NCMIMetric.from_loss(NCMILoss(num_classes=3, num_features=8))
        >>> metric.update(torch.randn(9, 8), torch.arange(9) % 3)
        >>> sorted(metric.compute())
        ['cmi', 'gamma', 'ncmi']
        """
        settings: dict[str, Any] = {"temperature": loss.temperature, "simplex": loss.simplex}
        settings["ignore_index"] = loss.weighting.ignore_index
        metric = cls(loss.num_classes, loss.num_features, **settings, **kwargs)
        metric._loss = _SharedLoss(loss)
        return metric

    @torch.no_grad()
    def update(self, inputs: Tensor, targets: Tensor) -> None:
        """Add a batch to the sums: inputs (B, D), targets (B,) class indices or (B, C) soft labels."""
        check_features("NCMIMetric", inputs, self.num_features)
        check_targets("NCMIMetric", targets, len(inputs), self.num_classes, self.ignore_index)
        inputs, targets = drop_ignored(inputs.detach(), targets.detach(), self.ignore_index)
        points = self._points(inputs.to(self.prob_sum.dtype))
        own = torch.linalg.vecdot(points.probs, points.log_density)
        if targets.is_floating_point():
            targets = targets.to(own.dtype)
            own = own * targets.sum(dim=1)
        add_to_classes(self.counts.unsqueeze(-1), targets, torch.ones_like(own).unsqueeze(-1))
        add_to_classes(self.prob_sum, targets, points.probs)
        add_to_classes(self.log_sum, targets, points.log_density)
        self.neg_entropy.add_(own.sum())

    def compute(self) -> dict[str, Tensor]:
        """CMI, Γ and NCMI of all samples so far, over all ranks."""
        terms = ncmi(ClassStatistics(self.counts, self.prob_sum, self.log_sum, self.neg_entropy))
        if self.update_called and not bool(terms.gamma > _RESOLUTION):
            present = int((self.counts > 0).sum())
            reason = (
                "all outputs are the same distribution: the features have collapsed"
                if present > 1
                else f"it needs samples of two or more classes and has seen {present}; call update() until the data set ends"
            )
            rank_zero_warn(f"NCMIMetric: Γ is zero, so NCMI has no value and is returned as NaN, because {reason}.")
            terms = terms._replace(ncmi=torch.full_like(terms.ncmi, math.nan))
        return terms._asdict()

    def _points(self, inputs: Tensor) -> SimplexPoint:
        if self.inputs == "features":
            if self._loss is not None:
                return self._loss.module.points(inputs)
            center = None if self.center is None else self.center.to(inputs.dtype)
            return feature_point(inputs, center, self.temperature, self.simplex)
        excess = inputs.logsumexp(dim=-1).abs()
        # Half precision rounds ln p near −8 to steps of 0.004; a row that is no distribution is far outside.
        if bool((excess > 1e-2).any()):
            raise ValueError(
                f"NCMIMetric: with inputs='log_probs' each row must be log-probabilities, whose exponentials sum to one; got "
                f"a row that sums to {float(inputs.exp().sum(dim=-1)[excess.argmax()]):.4g}. Apply log_softmax or log_nsf, "
                "or use inputs='features'."
            )
        log_probs = F.log_softmax(inputs, dim=-1)
        return SimplexPoint(log_probs.exp(), log_probs + math.log(self.num_features))

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = "") -> nn.Module:
        """Move to another device, but stay float64 when a network around the metric changes its precision."""

        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        return super()._apply(fn if self._dtype_convert else move, exclude_state)

    def extra_repr(self) -> str:
        """Settings for ``print(metric)``."""
        if self.inputs == "log_probs":
            return f"{self.num_classes}, {self.num_features}, inputs='log_probs'"
        return f"{self.num_classes}, {self.num_features}, temperature={self.temperature}, simplex={self.simplex!r}"


def drop_ignored(inputs: Tensor, targets: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """The samples that count: rows whose class index is not ``ignore_index``, with int64 labels; soft labels pass through."""
    if targets.is_floating_point():
        return inputs, targets
    targets = targets.long()  # before the comparison: in uint8, 156 equals -100
    keep = targets != ignore_index
    return (inputs, targets) if bool(keep.all()) else (inputs[keep], targets[keep])


def add_to_classes(totals: Tensor, targets: Tensor, rows: Tensor) -> None:
    """Add rows (B, D) to the totals (C, D) of their classes, in place, weighted by the labels if those are soft (B, C)."""
    if targets.is_floating_point():
        totals.addmm_(targets.T, rows)
    else:
        totals.index_add_(0, targets, rows)


class _SharedLoss:
    """A loss that a metric reads but does not own: no submodule, and a copy of the metric reads the same one."""

    def __init__(self, module: NCMILoss):
        self.module = module

    def __deepcopy__(self, memo: dict[int, Any]) -> "_SharedLoss":
        # A network copied together with its loss takes the copied loss along.
        return _SharedLoss(memo.get(id(self.module), self.module))
