"""``CentroidClassifier``: the class whose centroid is nearest in KL divergence.

Shapes: B samples, C classes, D feature width.
"""

import math
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ncmi.centroids import EMACentroids, FixedCentroids, LearnedCentroids
from ncmi.checks import check_features, check_sizes, check_targets, check_temperature, choose
from ncmi.distributed import sum_over_ranks
from ncmi.functional import feature_point, kl_to_centroids
from ncmi.functional.simplex import Simplex
from ncmi.heads.inputs import Model, accuracy, extract, frozen, labelled
from ncmi.heads.nearest import LabelledPoints, choose_centroids, fit_centroids
from ncmi.heads.sharpness import fit_sharpness
from ncmi.loss import NCMILoss, full_precision
from ncmi.metric import add_to_classes, drop_ignored


class CentroidClassifier(nn.Module):
    r"""Scores (B, C) of features: minus the divergence from each centroid, :math:`-D(p_x\|q^v)`; the largest decides.

    The paper's decision by centroid comparison. One matrix product, in float32 whatever the autocast mode (float64 for
    float64 features): divergences are about 1e-3 and would drown in the rounding of half precision.

    Most users call :meth:`from_loss` or :meth:`from_class_means`. The two give different decisions, so ``source`` says which
    centroids a number was made with.

    Args:
        log_density: the centroids q as log-densities ln(D·q), (C, D).
        center: c (D,) to subtract from features; ``None`` stands for zero.
        temperature: τ of the map.
        simplex: ``"nsf"``, or ``"softmax"`` for the ablation.
        source: where the centroids come from, in words.

    Attributes:
        strength_: λ of the last :meth:`fit`, infinite if no fit was better than the start; ``None`` before.

    >>> from ncmi import NCMILoss
    >>> loss = NCMILoss(num_classes=3, num_features=8)
    >>> classifier = CentroidClassifier.from_loss(loss)
    >>> classifier(torch.randn(5, 8)).shape, classifier.source
    (torch.Size([5, 3]), 'learned q')
    """

    log_density: Tensor
    center: Tensor
    score_temperature: Tensor

    def __init__(
        self,
        log_density: Tensor,
        *,
        center: Tensor | None = None,
        temperature: float = 0.2,
        simplex: Simplex = "nsf",
        source: str = "given centroids",
    ):
        super().__init__()
        _check_centroids(log_density)
        if center is None:
            center = log_density.new_zeros(log_density.shape[1])
        elif center.shape != log_density.shape[1:]:
            raise ValueError(
                f"CentroidClassifier: center must have shape ({log_density.shape[1]},); got {tuple(center.shape)}."
            )
        self.num_classes, self.num_features = log_density.shape
        self.temperature = check_temperature("CentroidClassifier", temperature)
        self.simplex: Simplex = choose("CentroidClassifier", "simplex", simplex, ("nsf", "softmax"))  # pyright: ignore[reportAttributeAccessIssue]
        self.source = source
        self.strength_: float | None = None
        self.register_buffer("log_density", log_density.detach().clone())
        self.register_buffer("center", center.detach().clone())
        # T of the probabilities; NaN until it is fitted.
        self.register_buffer("score_temperature", log_density.new_full((), math.nan))

    @classmethod
    @torch.no_grad()
    def from_loss(cls, loss: NCMILoss) -> "CentroidClassifier":
        """A classifier with the loss's centroids and centre as they stand now; later training does not change it."""
        loss.centroids.check_ready()
        kinds = {LearnedCentroids: "learned q", EMACentroids: "tracked class means", FixedCentroids: "fixed q"}
        source = next(
            (name for kind, name in kinds.items() if isinstance(loss.centroids, kind)), "centroids of the loss"
        )
        return cls(loss.centroids().log_density, source=source, **_map_of(loss))

    @classmethod
    @torch.no_grad()
    def from_class_means(
        cls, loss: NCMILoss, batches: Iterable[tuple[Any, Tensor]], model: Model | None = None
    ) -> "CentroidClassifier":
        r"""A classifier with the class means :math:`s^y` of a data set as centroids (Eq. 6), under the loss's map.

        Exact, in float64 sums. Under an initialised process group each rank passes its own share, and the sums run over all
        ranks.

        Args:
            loss: gives the centre, the temperature and the simplex map.
            batches: (features, targets) pairs, or (inputs, targets) pairs if there is a ``model``.
            model: turns inputs into features, in evaluation mode and without a gradient; it is not changed. A method such as
                ``network.forward_features`` works too.

        >>> from ncmi import NCMILoss
        >>> loss = NCMILoss(num_classes=2, num_features=4)
        >>> classifier = CentroidClassifier.from_class_means(loss, [(torch.randn(6, 4), torch.arange(6) % 2)])
        >>> classifier.source
        'class means'
        """
        like = loss.centroids().log_density
        counts = like.new_zeros(loss.num_classes, 1, dtype=torch.float64)
        prob_sum = torch.zeros_like(like, dtype=torch.float64)
        ignore_index = loss.weighting.ignore_index
        with frozen(model):
            for inputs, targets in batches:
                features, targets = extract(model, inputs).to(like.device), targets.to(like.device)
                check_features("CentroidClassifier", features, loss.num_features)
                check_targets("CentroidClassifier", targets, len(features), loss.num_classes, ignore_index)
                features, targets = drop_ignored(features.double(), targets, ignore_index)
                targets = targets.double() if targets.is_floating_point() else targets
                add_to_classes(counts, targets, torch.ones_like(features[:, :1]))
                add_to_classes(prob_sum, targets, loss.points(features).probs)
        counts, prob_sum = sum_over_ranks(counts, prob_sum)
        missing = (counts.flatten() == 0).nonzero().flatten().tolist()
        if missing:
            raise ValueError(
                f"CentroidClassifier: from_class_means needs samples of every class; none of {missing[:10]}"
                f"{' and others' if len(missing) > 10 else ''}. Pass the whole training set, or use from_loss."
            )
        means = prob_sum / counts
        # A probability can underflow at temperatures below 0.01; its logarithm is then that of the smallest number.
        log_density = (means * loss.num_features).clamp_min(torch.finfo(means.dtype).tiny).log()
        return cls(log_density.to(like.dtype), source="class means", **_map_of(loss))

    def forward(self, features: Tensor) -> Tensor:
        """Scores (B, C) of features (B, D); at most 0 but for rounding, and 0 means that p equals the centroid."""
        check_features("CentroidClassifier", features, self.num_features)
        if torch.finfo(self.log_density.dtype).bits < 32:
            raise TypeError(
                f"CentroidClassifier: the centroids must stay float32, because divergences are about 1e-3; got "
                f"{self.log_density.dtype}. Convert the network alone, or call .float() and load the state again."
            )
        with full_precision(features):
            features = features.to(torch.promote_types(features.dtype, torch.float32))
            center, log_density = self.center.to(features.dtype), self.log_density.to(features.dtype)
            points = feature_point(features, center, self.temperature, self.simplex)
            return -kl_to_centroids(points, log_density)

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """The class (B,) with the nearest centroid."""
        return self(features).argmax(dim=1)

    @torch.no_grad()
    def top_k(self, features: Tensor, k: int = 5) -> Tensor:
        """The classes (B, k) of the k nearest centroids, nearest first."""
        if not 1 <= k <= self.num_classes:
            raise ValueError(f"CentroidClassifier: k must lie in [1, {self.num_classes}]; got {k}.")
        return self(features).topk(k, dim=1).indices

    @torch.no_grad()
    def predict_proba(self, features: Tensor) -> Tensor:
        r"""Class probabilities (B, C): :math:`\mathrm{softmax}(-D(p\|q^v)/T)` with T from :meth:`fit_temperature`."""
        if bool(self.score_temperature.isnan()):
            raise RuntimeError(
                "CentroidClassifier: probabilities need a temperature that fits the scale of the divergences. "
                "Call fit_temperature(features, targets) with held-out data first."
            )
        scores = self(features)
        return (scores / self.score_temperature.to(scores.dtype)).softmax(dim=1)

    @torch.no_grad()
    def fit_temperature(self, features: Tensor, targets: Tensor) -> "CentroidClassifier":
        r"""This classifier, with T > 0 set to the minimiser of the negative log-likelihood of ``softmax(scores / T)``.

        T does not change any decision. Use data that the network was not trained on.

        Args:
            features: (N, D).
            targets: class indices (N,).
        """
        features, targets = labelled("CentroidClassifier", features, targets, self.num_features, self.num_classes)
        found = fit_sharpness(self(features), targets)
        if found is None:
            raise ValueError("CentroidClassifier: all centroids are equal, so no temperature can tell classes apart.")
        if not found.inside:
            warnings.warn(
                "CentroidClassifier: the likelihood has no minimum at a finite, positive temperature, because these samples "
                "are all decided right, or no better than by chance; T was set to the end of the search range. Fit it on "
                "more, held-out data.",
                stacklevel=3,
            )
        self.score_temperature.fill_(1 / found.value)
        return self

    @torch.no_grad()
    def fit(
        self,
        features: Tensor,
        targets: Tensor,
        validation: tuple[Tensor, Tensor] | None = None,
        *,
        strength: float | None = None,
        seed: int = 0,
    ) -> "CentroidClassifier":
        r"""This classifier, with the centroids under which its probabilities are most likely on these features.

        .. math:: -\frac1N\sum_x\ln\mathrm{softmax}\bigl(-\beta D(p_x\|q^{\cdot})\bigr)_{c_x}
            +\frac\lambda{2C}\sum_v\|\ln q^v-\ln q_0^v\|^2

        The network is left alone, as by a :class:`ncmi.LinearProbe`, and the decision stays that by the nearest centroid. The
        minimum is found by L-BFGS in float64. β is fixed before: under it the samples that choose λ are most likely if the
        class means of the others decide. A fitted temperature is forgotten.

        Args:
            features: cached features (N, D) of the training set.
            targets: class indices (N,).
            validation: features and targets that the network has not learned. They choose λ: by the loss there, in half
                decades from 10 to 10^-4, or the centroids stay as they are if no fit is better. Without them 20 % of each
                class of the given data are held out for the choice. The network has learned those too, so λ may come out
                too strong.
            strength: λ > 0, if it is not to be chosen.
            seed: of the held-out part.

        >>> features, targets = torch.randn(60, 4), torch.arange(60) % 3
        >>> features[range(60), targets] += 5.0
        >>> classifier = CentroidClassifier(torch.zeros(3, 4), source="uniform")
        >>> classifier.fit(features, targets, strength=0.1).score(features, targets)
        1.0
        """
        owner, sizes = "CentroidClassifier", (self.num_features, self.num_classes)
        if strength is not None and not 0 < strength < math.inf:
            raise ValueError(
                f"{owner}: strength must be positive and finite; got {strength}. Leave it out to have it chosen."
            )
        data = self._points(*labelled(owner, features, targets, *sizes))
        start = self.log_density.double()
        if strength is not None:
            log_density = fit_centroids(start, data, strength)
        elif validation is None and int(data.targets.bincount().max()) < 2:
            raise ValueError(f"{owner}: fit needs two or more samples of some class to hold one out. Pass validation.")
        else:
            held_out = None if validation is None else self._points(*labelled(owner, *validation, *sizes))
            log_density, strength = choose_centroids(start, data, held_out, seed=seed)
        self.log_density.copy_(log_density)
        self.score_temperature.fill_(math.nan)
        self.source, self.strength_ = f"fitted centroids, from {self.source}", strength
        return self

    def _points(self, features: Tensor, targets: Tensor) -> LabelledPoints:
        device = self.log_density.device
        center = self.center.double()
        points = feature_point(features.to(device).double(), center, self.temperature, self.simplex)
        return LabelledPoints(points.probs, targets.to(device))

    def score(self, features: Tensor, targets: Tensor) -> float:
        """Accuracy of the decisions: features (N, D), targets (N,) class indices."""
        features, targets = labelled("CentroidClassifier", features, targets, self.num_features, self.num_classes)
        return accuracy(self.predict(features), targets)

    def extra_repr(self) -> str:
        """Settings for ``print(classifier)``."""
        return (
            f"{self.num_classes}, {self.num_features}, source={self.source!r}, temperature={self.temperature}, "
            f"simplex={self.simplex!r}"
        )


def _map_of(loss: NCMILoss) -> dict[str, Any]:
    return {"center": loss.center.mean, "temperature": loss.temperature, "simplex": loss.simplex}


def _check_centroids(log_density: Tensor) -> None:
    if log_density.ndim != 2:
        raise ValueError(f"CentroidClassifier: centroids must have shape (C, D); got {tuple(log_density.shape)}.")
    check_sizes("CentroidClassifier", *log_density.shape)
    sums = log_density.double().exp().mean(dim=1)
    if not bool(((sums - 1).abs() < 1e-3).all() & log_density.isfinite().all()):
        raise ValueError(
            f"CentroidClassifier: each centroid must be a distribution without zeros, given as ln(D·q); got rows that sum to "
            f"{float(sums.min()):.4g} … {float(sums.max()):.4g}. Pass (q * q.shape[1]).log() for class means q."
        )
