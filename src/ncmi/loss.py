"""``NCMILoss``: features and labels in, a number to minimise out.

Shapes: B samples, C classes, D feature width.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ncmi.buffers import keep_precision
from ncmi.center import EMACenter, NoCenter, make_center
from ncmi.centroids import CENTROIDS, Centroids
from ncmi.checks import check_features, check_sizes, check_targets, check_temperature, choose
from ncmi.distributed import broadcast_state, gather_labels, sum_over_ranks, world_size
from ncmi.functional import (
    ClassStatistics,
    FeaturePoints,
    NCMITerms,
    Ratio,
    SimplexPoint,
    class_statistics,
    compact_labels,
    feature_point,
    gamma,
    ncmi,
)
from ncmi.functional.simplex import Simplex
from ncmi.objective import Objective, PerSample, RatioOfMeans, WithRivals, make_objective
from ncmi.presets import preset_arguments
from ncmi.rivalry import losses_with_rivals
from ncmi.weighting import WeightedTargets, Weighting


class NoSeparation(ValueError):
    """A batch on which a ratio of means has no value: one class only, or outputs that are all the same."""


class NCMILoss(nn.Module):
    r"""Normalized conditional mutual information of a batch, in place of ``nn.CrossEntropyLoss``.

    Features f are centred, normalised, tempered and mapped to the simplex, :math:`p = \sigma^{NSF}((f-c)/(\|f-c\|\tau))`;
    the objective pulls each p to the centroid q of its class and keeps the classes apart. Decide with
    :class:`ncmi.CentroidClassifier` or a :class:`ncmi.LinearProbe`.

    **This loss has parameters** (the centroids ξ): give them to the optimiser with :func:`ncmi.parameter_groups`, move the
    loss to the model's device, and save its ``state_dict``.

    Inside, everything is float32 (or float64 for float64 features), whatever the autocast mode. Under an initialised
    process group every rank gets the loss and, after DDP's averaging, the gradient of the whole global batch; in ``eval()``
    mode nothing is communicated and no state changes. ξ and the centre stay float32 when a network around the loss becomes
    half precision. Do not put the loss inside ``torch.utils.checkpoint``: a recomputed forward would see a centre that has
    moved. Gradients are first-order only.

    Args:
        num_classes: C.
        num_features: D.
        objective: ``"rivals"`` (default; no two classes can merge unseen; compares the samples of a batch, in ``eval()``
            too), ``"harmonic"`` (its first third, in which a sample's loss does not depend on the rest of the batch),
            ``"theorem1"`` (the paper's, corrected), ``"centroid"`` (ratio of means, separation from the centroids),
            ``"released"`` (the published script's), or a ``RatioOfMeans`` / ``PerSample`` / ``WithRivals`` around a function
            of your own.
        temperature: τ; 0.2 was the best of the authors' logged runs.
        centroids: ``"learned"`` (SGD on ξ, Algorithm 1), ``"ema"`` (tracked class means), ``"fixed"``, or a module of
            ``ncmi.centroids`` with settings of its own.
        center: ``"ema"`` (of raw features), ``"batch"``, ``"none"``, ``"printed"`` (Algorithm 1 to the letter), or a module
            of ``ncmi.center``.
        simplex: ``"nsf"``, or ``"softmax"`` for the ablation.
        prior: ``"batch"``, ``"uniform"`` or class probabilities (C,); see :class:`ncmi.weighting.Weighting`.
        weight: class weights (C,), as in ``nn.CrossEntropyLoss``.
        ignore_index: label of samples to leave out, as in ``nn.CrossEntropyLoss``.
        reduction: ``"mean"``; per-sample objectives also take ``"sum"`` and ``"none"``.

    Shape:
        features (B, D); targets (B,) class indices or (B, C) soft labels; output a scalar, or (B,) for ``"none"``.

    >>> loss = NCMILoss(num_classes=10, num_features=64)
    >>> features, targets = torch.randn(32, 64, requires_grad=True), torch.randint(10, (32,))
    >>> loss(features, targets).backward()
    """

    fallback_steps: Tensor

    def __init__(
        self,
        num_classes: int,
        num_features: int,
        objective: str | Objective = "rivals",
        *,
        temperature: float = 0.2,
        centroids: str | Centroids = "learned",
        center: str | EMACenter | NoCenter = "ema",
        simplex: Simplex = "nsf",
        prior: Literal["batch", "uniform"] | Tensor = "batch",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ):
        super().__init__()
        check_sizes("NCMILoss", num_classes, num_features)
        self.num_classes = num_classes
        self.num_features = num_features
        self.temperature = check_temperature("NCMILoss", temperature)
        self.simplex: Simplex = choose("NCMILoss", "simplex", simplex, ("nsf", "softmax"))  # pyright: ignore[reportAttributeAccessIssue]
        self._warn_of_few_digits()
        self.objective = make_objective(objective)
        self.center = make_center(center, num_features)
        self.centroids = self._make_centroids(centroids)
        self.weighting = Weighting(num_classes, weight, prior, ignore_index)
        self.reduction = choose("NCMILoss", "reduction", reduction, ("mean", "sum", "none"))
        if isinstance(self.objective, RatioOfMeans) and reduction != "mean":
            raise ValueError(
                f"NCMILoss: reduction={reduction!r} needs an objective with a number for each sample "
                "('rivals', 'harmonic' or 'released'); this one is a ratio of two means over the batch."
            )
        # Steps whose denominator was not positive and that took the batch's own Γ instead.
        self.register_buffer("fallback_steps", torch.zeros((), dtype=torch.long))
        self._synchronized = False

    @classmethod
    def from_preset(cls, name: str, num_classes: int, num_features: int, **overrides: Any) -> "NCMILoss":
        """A loss with published settings: ``"paper"`` or ``"released"``. ``ncmi.PRESETS`` lists every value and source.

        >>> NCMILoss.from_preset("released", num_classes=100, num_features=512).temperature
        0.2
        """
        return cls(num_classes, num_features, **preset_arguments(name, num_classes, num_features, **overrides))

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch: features (B, D), targets (B,) class indices or (B, C) soft labels."""
        may_ignore = self._check(features, targets)
        with full_precision(features):
            features = _at_least_float32(features)
            if self.training and not self._synchronized:
                broadcast_state(self)
                self._synchronized = world_size() > 1
            labels = self.weighting(targets, features.dtype, may_ignore)
            center = self.center(features, labels.valid)
            points = FeaturePoints(features, center, self.temperature, self.simplex)
            if isinstance(self.objective, RatioOfMeans):
                return self._ratio_of_means(self.objective, points, labels)
            return self._mean_over_samples(self._losses(self.objective, points, labels, targets), points, labels)

    @torch.no_grad()
    def measure(self, features: Tensor, targets: Tensor) -> NCMITerms:
        """CMI, Γ and NCMI of a batch, for logging; changes no state. For whole data sets: ``NCMIMetric``.

        Soft labels count as their largest class.
        """
        self._check(features, targets)
        features, targets = self._labelled(features, targets)
        return ncmi(class_statistics(self.points(features), targets, self.num_classes))

    def points(self, features: Tensor) -> SimplexPoint:
        """Features (B, D) as points of the simplex, with the centre as it stands; what evaluation uses."""
        with full_precision(features):
            features = _at_least_float32(features)
            center = None if self.center.mean is None else self.center.mean.to(features.dtype)
            return feature_point(features, center, self.temperature, self.simplex)

    @torch.no_grad()
    def start_from_class_means(self, features: Tensor, targets: Tensor) -> None:
        """Set the centre to the mean of these features and the centroids to their class means, as for fine-tuning.

        Args:
            features: features (N, D) of (a sample of) the training set; under DDP each rank passes its own share.
            targets: their class indices (N,), each class at least once.
        """
        self._check(features, targets, ready=False)
        features, targets = self._labelled(_at_least_float32(features), targets)
        counts = features.new_zeros(self.num_classes).index_add_(0, targets, torch.ones_like(features[:, 0]))
        total, counts = sum_over_ranks(features.sum(dim=0), counts)
        missing = (counts == 0).nonzero().flatten().tolist()
        if missing:
            raise ValueError(
                f"NCMILoss: start_from_class_means needs samples of every class, but there is none of {missing[:10]}. "
                "Pass features of the whole training set."
            )
        self.center.set_mean(total / counts.sum())
        prob_sum = class_statistics(self.points(features), targets, self.num_classes).prob_sum
        self.centroids.set_means(sum_over_ranks(prob_sum)[0] / counts.unsqueeze(-1), counts)

    def _labelled(self, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The samples that are not ignored, with hard labels."""
        targets = targets.argmax(dim=1) if targets.is_floating_point() else targets.long()
        keep = targets != self.weighting.ignore_index
        return features[keep], targets[keep]

    def _losses(
        self, objective: PerSample | WithRivals, points: FeaturePoints, labels: WeightedTargets, targets: Tensor
    ) -> Tensor:
        """A number for each sample (B,)."""
        dtype = points.features.dtype
        centroids = self.centroids(dtype=dtype)
        if isinstance(objective, PerSample):
            return objective.function(points, centroids, labels.targets)
        classes = targets.to(dtype) if targets.is_floating_point() else labels.targets
        return losses_with_rivals(objective, points, centroids, labels, classes, over_ranks=self.training)

    def _mean_over_samples(self, losses: Tensor, points: FeaturePoints, labels: WeightedTargets) -> Tensor:
        if labels.weight is not None:
            losses = losses * labels.weight
        if self.training and self.centroids.needs_statistics:
            with torch.no_grad():
                statistics = class_statistics(points, labels.targets, self.num_classes, labels.weight)
            self.centroids.update(ClassStatistics(*sum_over_ranks(*statistics)), None)
        if self.reduction == "none":
            return losses
        total = sum_over_ranks(losses.sum())[0] if self.training else losses.sum()
        return total if self.reduction == "sum" else total / labels.total

    def _ratio_of_means(self, objective: RatioOfMeans, points: FeaturePoints, labels: WeightedTargets) -> Tensor:
        dtype = points.features.dtype
        prior = self.weighting.class_prior(dtype) if objective.takes_prior else None
        if labels.targets.is_floating_point() or prior is not None:
            classes, rows = None, labels.targets
        else:
            classes, rows = self._rows(labels.targets)
        num_rows = self.num_classes if classes is None else len(classes)
        statistics = class_statistics(points, rows, num_rows, labels.weight)
        if self.training:
            statistics = ClassStatistics(*sum_over_ranks(*statistics))
        centroids = self.centroids(classes, dtype)
        if prior is not None:
            ratio = objective.function(statistics, centroids, prior=prior)
        else:
            ratio = objective.function(statistics, centroids)
        loss = ratio.concentration / self._separation(ratio, statistics)
        if self.training and self.centroids.needs_statistics:
            self.centroids.update(statistics, classes)
        return loss

    def _rows(self, targets: Tensor) -> tuple[Tensor | None, Tensor]:
        """Row of each sample in the statistics: its class, or, when classes outnumber samples, a compact numbering."""
        everyone, own = gather_labels(targets) if self.training else (targets, slice(None))
        if self.num_classes <= len(everyone):
            return None, targets
        classes, rows = compact_labels(everyone)
        return classes, rows[own]

    def _separation(self, ratio: Ratio, statistics: ClassStatistics) -> Tensor:
        """The denominator, or the batch's own Γ (q = s) where the denominator is not positive."""
        # A divergence is a sum of products with ln(D·p), whose typical size is 1/(2τ√D): that much smaller is its rounding.
        resolution = torch.finfo(ratio.separation.dtype).eps * min(
            1.0, 0.5 / (self.temperature * self.num_features**0.5)
        )
        usable = ratio.separation > resolution
        if torch.compiler.is_compiling():
            self._count_fallback(~usable)
            return torch.where(usable, ratio.separation, gamma(statistics))
        if bool(usable):
            return ratio.separation
        separation = gamma(statistics)
        if not bool(separation > resolution):
            present = int((statistics.counts > 0).sum())
            reason = (
                "all its outputs are the same distribution" if present > 1 else "it holds samples of one class only"
            )
            raise NoSeparation(
                f"NCMILoss: a ratio of means needs samples of two or more classes with different outputs in the batch, but "
                f"{reason}. Use larger or class-balanced batches, or objective='harmonic', which compares no samples; in a "
                "recipe also loss.options.memory, a number of past vectors to compare with."
            )
        if self.training and not bool(self.fallback_steps):
            warnings.warn(
                "NCMILoss: the objective's denominator was not positive, so this step divides by the batch's own Γ instead; "
                "loss.fallback_steps counts such steps. Centroids that start uniform (start='uniform') avoid it.",
                stacklevel=5,
            )
        self._count_fallback(~usable)
        return separation

    def _count_fallback(self, happened: Tensor) -> None:
        if self.training:
            self.fallback_steps.add_(happened.long())

    def _check(self, features: Tensor, targets: Tensor, ready: bool = True) -> bool:
        """Sentences for bad input; returns whether some label may be ignored."""
        check_features("NCMILoss", features, self.num_features)
        if ready:
            self.centroids.check_ready()
        return check_targets("NCMILoss", targets, len(features), self.num_classes, self.weighting.ignore_index)

    def _make_centroids(self, centroids: str | Centroids) -> Centroids:
        if isinstance(centroids, str):
            kind = CENTROIDS[choose("NCMILoss", "centroids", centroids, CENTROIDS)]
            start = self.objective.start
            return kind(self.num_classes, self.num_features, start, temperature=self.temperature, simplex=self.simplex)
        if not isinstance(centroids, Centroids):
            raise TypeError(
                f"NCMILoss: centroids must be one of {', '.join(map(repr, CENTROIDS))} or a module of ncmi.centroids, built "
                f"with its sizes, such as LearnedCentroids({self.num_classes}, {self.num_features}); got {centroids!r}."
            )
        if centroids.start == "orthogonal" and centroids.temperature != self.temperature:
            raise ValueError(
                f"NCMILoss: centroids that start orthogonal have the length 1/temperature of the features, so both need one "
                f"temperature; got {centroids.temperature} and {self.temperature}. Pass temperature={self.temperature} to both."
            )
        given = (centroids.num_classes, centroids.num_features)
        if given != (self.num_classes, self.num_features) or centroids.simplex != self.simplex:
            raise ValueError(
                f"NCMILoss: centroids must be {self.num_classes} × {self.num_features} with simplex={self.simplex!r}; "
                f"got {given[0]} × {given[1]} with simplex={centroids.simplex!r}."
            )
        return centroids

    def extra_repr(self) -> str:
        """Settings for ``print(loss)``."""
        name = self.objective.name
        return (
            f"{self.num_classes}, {self.num_features}, {name}, temperature={self.temperature}, simplex={self.simplex!r}"
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        return super()._apply(keep_precision(fn), recurse)

    def _warn_of_few_digits(self) -> None:
        size = 1 / (4 * self.num_features * self.temperature**2)
        if size < 300 * torch.finfo(torch.float32).eps:
            warnings.warn(
                f"NCMILoss: at temperature={self.temperature} and num_features={self.num_features} divergences are about "
                f"{size:.0e}, of which float32 keeps few digits. Take a smaller temperature, or float64 features.",
                stacklevel=3,
            )


def full_precision(features: Tensor) -> AbstractContextManager:
    """A context without autocast."""
    kind = features.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def _at_least_float32(features: Tensor) -> Tensor:
    return features.to(torch.promote_types(features.dtype, torch.float32))
