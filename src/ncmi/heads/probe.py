"""``LinearProbe``: a linear classifier on frozen features.

Shapes: N samples in all, B in a batch, C classes, D feature width.
"""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ncmi.checks import check_features, check_sizes, check_targets
from ncmi.heads.inputs import IGNORE_INDEX, Model, accuracy, extract, frozen, labelled
from ncmi.heads.logistic import Line, minimize, principal_axes, search_weight_decay
from ncmi.metric import drop_ignored

_TOLERANCE = 1e-6
# Of each candidate in the search: an excess below about 1e-5, which no choice hangs on, at a third of the time.
_SEARCH_TOLERANCE = 1e-4


class LinearProbe(nn.Module):
    """Logits (B, C) of features by one linear layer: the paper's linear probing, which drops the simplex map.

    The features f are the raw ones, neither centred nor tempered. :meth:`fit` finds the best line for cached features
    exactly and in seconds; :meth:`fit_sgd` follows the paper's protocol, with augmentation. Neither changes the model that
    made the features.

    Args:
        num_classes: C.
        num_features: D.
        normalize: divide each feature row by its L2 norm first.

    Attributes:
        weight_decay_: the L2 strength of the last :meth:`fit`; ``None`` before.

    >>> features, targets = torch.randn(100, 5), torch.arange(100) % 2
    >>> features[:, 0] += 10.0 * targets
    >>> probe = LinearProbe(num_classes=2, num_features=5).fit(features, targets)
    >>> probe.score(features, targets)
    1.0
    """

    def __init__(self, num_classes: int, num_features: int, normalize: bool = False):
        super().__init__()
        check_sizes("LinearProbe", num_classes, num_features)
        self.num_classes = num_classes
        self.num_features = num_features
        self.normalize = normalize
        self.linear = nn.Linear(num_features, num_classes)
        self.weight_decay_: float | None = None
        self._restart()

    def forward(self, features: Tensor) -> Tensor:
        """Logits (B, C) of features (B, D), in the type of the weights whatever the autocast mode."""
        check_features("LinearProbe", features, self.num_features)
        with torch.autocast(features.device.type, enabled=False):
            return self.linear(self._prepare(features.to(self.linear.weight.dtype)))

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """The class (B,) with the largest logit."""
        return self(features).argmax(dim=1)

    def score(self, features: Tensor, targets: Tensor) -> float:
        """Accuracy of the decisions: features (N, D), targets (N,) class indices."""
        features, targets = labelled("LinearProbe", features, targets, self.num_features, self.num_classes)
        return accuracy(self.predict(features), targets)

    @torch.no_grad()
    def fit(
        self, features: Tensor, targets: Tensor, weight_decay: float | None = None, *, seed: int = 0
    ) -> "LinearProbe":
        r"""This probe, with the exact minimiser of :math:`\frac1N\sum_x\mathrm{CE}(W\tilde f_x+b, c_x)+\frac\lambda2\|W\|^2`.

        :math:`\tilde f` are the features with each coordinate shifted and scaled to mean 0 and variance 1 over the given
        data; the shift and scale are folded into the weights afterwards, so the probe stays one linear layer on f. The
        minimum is found by L-BFGS in float64 and leaves an excess of about 1e-7 or less. For data that do not fit in
        memory several times in float64 use :meth:`fit_sgd`.

        Args:
            features: cached features (N, D) of the training set.
            targets: class indices (N,).
            weight_decay: λ > 0. ``None`` chooses it from 1, 10^-0.5, 10^-1, …, 10^-6: the value with the smallest
                cross-entropy on 20 % of each class, held out from the given data, each fitted to its minimum on the rest, from
                the strongest on until the cross-entropy has risen twice in a row. The probe is then fitted on all data;
                ``weight_decay_`` keeps the value. 1e-6 is no alarm: where a line separates the held-out samples too, the
                weakest is the best.
            seed: of the held-out split. The same data and seed give the same probe.
        """
        features, targets = labelled("LinearProbe", features, targets, self.num_features, self.num_classes)
        if weight_decay is not None and not 0 < weight_decay < float("inf"):
            raise ValueError(
                f"LinearProbe: weight_decay must be positive, because separable classes have no finite solution without it; "
                f"got {weight_decay}. Leave it out to have it chosen."
            )
        present = targets.bincount()
        if int((present > 0).sum()) < 2 or (weight_decay is None and int(present.max()) < 2):
            raise ValueError(
                f"LinearProbe: fit needs samples of two or more classes, and two or more of some class to hold one out; got "
                f"{len(targets)} samples of {int((present > 0).sum())}. Pass more data, or weight_decay with one a class."
            )
        device = self.linear.weight.device
        features, targets = self._prepare(features.to(device).double()), targets.to(device)
        mean, scale = _standardization(features)
        features = (features - mean) / scale
        axes = principal_axes(features)
        features = features @ axes
        line = Line(features.new_zeros(self.num_classes, features.shape[1]), features.new_zeros(self.num_classes))
        steepest = 0.0
        if weight_decay is None:
            weight_decay, line, steepest = search_weight_decay(features, targets, line, _SEARCH_TOLERANCE, seed)
        line, largest = minimize(features, targets, line, weight_decay, _TOLERANCE)
        ends = (
            ("in the search", steepest, _SEARCH_TOLERANCE),
            (f"at weight_decay={weight_decay:.1e}", largest, _TOLERANCE),
        )
        for place, gradient, tolerance in ends:
            if not gradient <= tolerance:
                warnings.warn(
                    f"LinearProbe: L-BFGS ended with a gradient of {gradient:.1e} instead of {tolerance:.0e} {place}. "
                    f"Pass a larger weight_decay: it has an easier minimum.",
                    stacklevel=3,
                )
        weight = line.weight @ axes.T / scale
        # All biases may rise together without an effect; a mean of zero makes the solution the only one.
        bias = line.bias - line.bias.mean() - weight @ mean
        self.linear.weight.copy_(weight)
        self.linear.bias.copy_(bias)
        self.weight_decay_ = weight_decay
        return self

    def fit_sgd(
        self,
        model: Model,
        loader: Iterable[tuple[Any, Tensor]],
        *,
        epochs: int = 100,
        lr: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        milestones: Sequence[float] = (0.6, 0.75, 0.9),
        decay: float = 0.2,
    ) -> "LinearProbe":
        """This probe, trained by SGD on cross-entropy over augmented batches of a frozen model.

        The paper's protocol: the augmentation of training (whatever ``loader`` does), the model frozen, the simplex map
        dropped. It prints neither epochs nor learning rate and refers to SupCon, so the defaults are SupCon's linear stage
        (SupContrast, ``main_linear.py``): 100 epochs, momentum 0.9, no weight decay, rate ×0.2 after 60, 75 and 90 % of the
        epochs. The rate is the 0.1 of its argument parser, meant for batches of 256; the 5 of its README belongs to the
        scale of its own features. Weights start at zero, and the last epoch counts (SupContrast reports the best test epoch).

        Args:
            model: turns a batch of inputs into features (B, D): a module, a method such as ``network.forward_features``, or
                any function. Modules run in evaluation mode without a gradient, and get their modes back afterwards.
            loader: gives (inputs, targets) batches, once an epoch; soft labels work.
            epochs: passes over ``loader``.
            lr: learning rate at the start.
            momentum: of SGD.
            weight_decay: of SGD; here on the raw scale of the features, unlike in :meth:`fit`.
            milestones: fractions of the epochs after which the rate falls.
            decay: factor by which it falls.
        """
        if epochs < 1 or not lr > 0:
            raise ValueError(f"LinearProbe: epochs must be at least 1 and lr positive; got epochs={epochs}, lr={lr}.")
        self._restart()
        self.weight_decay_ = None
        optimizer = torch.optim.SGD(self.parameters(), lr=lr, momentum=momentum, weight_decay=weight_decay)
        steps = [round(fraction * epochs) for fraction in milestones]
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, steps, gamma=decay)
        with frozen(model):
            for _ in range(epochs):
                self._sgd_epoch(model, loader, optimizer)
                schedule.step()
        if not all(bool(parameter.isfinite().all()) for parameter in self.parameters()):
            raise RuntimeError(f"LinearProbe: training diverged at lr={lr}. Lower it, or use normalize=True.")
        return self

    def _sgd_epoch(self, model: Model, loader: Iterable[tuple[Any, Tensor]], optimizer: torch.optim.Optimizer) -> None:
        device, samples = self.linear.weight.device, 0
        for inputs, targets in loader:
            features, targets = extract(model, inputs).to(device), targets.to(device)
            check_targets("LinearProbe", targets, len(features), self.num_classes, IGNORE_INDEX)
            features, targets = drop_ignored(features, targets, IGNORE_INDEX)
            samples += len(targets)
            if not len(targets):
                continue
            with torch.enable_grad():
                loss = F.cross_entropy(self(features), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if not samples:
            raise ValueError("LinearProbe: the loader gave no labelled sample. Pass a loader, not a used-up iterator.")

    @torch.no_grad()
    def _restart(self) -> None:
        """Zero weights: the problem is convex, so the start does not matter, and this one needs no random numbers."""
        for parameter in self.parameters():
            parameter.zero_()

    def _prepare(self, features: Tensor) -> Tensor:
        return F.normalize(features, dim=1) if self.normalize else features

    def extra_repr(self) -> str:
        """Settings for ``print(probe)``."""
        return f"normalize={self.normalize}"


def _standardization(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and scale (D,) of each coordinate; one that does not vary beyond float32 rounding keeps its scale."""
    mean = features.mean(dim=0)
    scale = features.std(dim=0, correction=0)
    noise = torch.finfo(torch.float32).eps * features.abs().amax(dim=0)
    return mean, torch.where(scale > noise, scale, 1.0)
