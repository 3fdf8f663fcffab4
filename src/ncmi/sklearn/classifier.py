"""``NCMIClassifier``: a scikit-learn estimator for tables of features or embeddings.

Shapes: N samples, C classes, D feature width.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from ncmi.heads.centroid import CentroidClassifier
from ncmi.heads.logistic import held_out_rows
from ncmi.loss import NCMILoss
from ncmi.models.mlp import MLP
from ncmi.sklearn.training import Learner, Samples, score_temperature

_FLOATS = (np.float64, np.float32)


class NCMIClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    """A small network trained with :class:`ncmi.NCMILoss` and decided by the nearest centroid, for scikit-learn.

    Columns are standardised inside, over the training samples, so their units do not matter. The network is an MLP, trained
    by AdamW with a rate that falls to zero along a cosine. :meth:`transform` gives its features.

    Probabilities are ``softmax(-divergence / T)``, and T needs samples that the network was not trained on. With
    ``early_stopping`` those are the validation part. Without, ``fit`` trains twice: without the validation part, for T, and
    then on all samples.

    Args:
        hidden_layer_sizes: sizes of the layers; the last is D, the number of learned features.
        learning_rate: of AdamW at the start; centroids learn at ten times that rate.
        weight_decay: of the network's weights; centroids have none.
        max_iter: passes over the training samples.
        batch_size: most samples in a step.
        early_stopping: never train on the validation part; stop when the loss there has not fallen for ``n_iter_no_change``
            passes, and keep the best pass.
        validation_fraction: share of each class in the validation part.
        n_iter_no_change: patience of early stopping, in passes.
        loss_options: arguments for :class:`ncmi.NCMILoss`, such as ``{"temperature": 0.1}``.
        device: where torch computes, such as ``"cuda"``.
        random_state: seed of weights, batches and the validation part.
        verbose: print the loss of each pass.

    Attributes:
        classes_: the labels, in the order of the columns of :meth:`predict_proba`.
        scaler_: the ``StandardScaler`` of the columns.
        network_: from standardised columns to features.
        criterion_: the loss, with its centroids and centre.
        decision_: the :class:`ncmi.CentroidClassifier` that decides.
        n_iter_: passes made; ``loss_curve_`` and, with early stopping, ``validation_loss_curve_`` have a value for each.
        n_features_in_, feature_names_in_: of the table.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = NCMIClassifier(max_iter=30, random_state=0).fit(X, y)
    >>> classifier.score(X, y) > 0.9, classifier.predict_proba(X).shape, classifier.transform(X).shape
    (True, (150, 3), (150, 64))
    """

    n_features_in_: int  # set by validate_data

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (128, 64),
        *,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        max_iter: int = 100,
        batch_size: int = 64,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 10,
        loss_options: dict[str, Any] | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.loss_options = loss_options
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "NCMIClassifier":
        """This estimator, trained from new on a table X (N, columns) with labels y (N,).

        ``sample_weight`` (N,) says how much the loss of each sample counts; a sample of weight zero is left out.
        """
        self._check_settings()
        X, y = validate_data(self, X, y, dtype=_FLOATS)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self.scaler_ = StandardScaler()
        samples = self._samples(X, y, sample_weight)
        if len(samples.targets.unique()) < 2:
            raise ValueError(
                "NCMIClassifier: fit needs samples of two or more classes with a positive weight; got one class. "
                "Pass samples of another, or use partial_fit with classes."
            )
        random = check_random_state(self.random_state)
        split_seed, seed = (int(random.randint(2**31 - 1)) for _ in range(2))
        held_out = held_out_rows(samples.targets, split_seed, self.validation_fraction)
        part, validation = samples.take(~held_out), samples.take(held_out)
        learner = self._start(seed)
        if self.early_stopping:
            self._learn_and_stop(learner, part, validation)
        elif len(validation.targets):
            learner.learn(part, self.max_iter)
        temperature = self._temperature(learner, validation if len(validation.targets) else samples)
        if not self.early_stopping:
            learner = self._start(seed)
            self.loss_curve_ = learner.learn(samples, self.max_iter, self._report)
        self._keep(learner, temperature)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "NCMIClassifier":
        """This estimator after one more pass, over these samples alone, at the rate ``learning_rate``.

        The first call needs ``classes``, every label there will be. It goes on from ``fit`` too. Columns are standardised by
        all samples so far, and T is fitted on the new samples before they are learned (in the first call, afterwards), so
        pass them a few hundred at a time.
        """
        self._check_settings()
        first = not hasattr(self, "classes_")
        X, y = validate_data(self, X, y, dtype=_FLOATS, reset=first)
        check_classification_targets(y)
        self._check_classes(y, classes)
        if first:
            self.classes_ = np.unique(classes)
            self.scaler_ = StandardScaler()
            self.loss_curve_ = []
            learner = self._start(int(check_random_state(self.random_state).randint(2**31 - 1)))
        else:
            learner = self._learner
        samples = self._samples(X, y, sample_weight)
        temperature = None if first else self._temperature(learner, samples)
        self.loss_curve_ = [*self.loss_curve_, learner.epoch(samples)]
        self._keep(learner, self._temperature(learner, samples) if temperature is None else temperature)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Minus the divergence (N, C) from each centroid; with two classes the second's minus the first's (N,)."""
        scores = self._scores(X).numpy(force=True)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The label (N,) with the nearest centroid."""
        nearest = self._scores(X).argmax(dim=1).numpy(force=True)
        return self.classes_[nearest]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (N, C) of ``classes_``."""
        scores = self._scores(X)
        return (scores / self.decision_.score_temperature).softmax(dim=1).numpy(force=True)

    def transform(self, X: Any) -> np.ndarray:
        """The learned features (N, D)."""
        return self._features(X).numpy(force=True)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.transformer_tags is not None
        tags.transformer_tags.preserves_dtype = []  # features are float32, as the network computes them
        return tags

    def _check_settings(self) -> None:
        """Sentences for settings that no other part would refuse."""
        for name in ("max_iter", "batch_size", "n_iter_no_change"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"NCMIClassifier: {name} must be at least 1; got {getattr(self, name)}.")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                f"NCMIClassifier: validation_fraction must lie between 0 and 1; got {self.validation_fraction}."
            )

    def _check_classes(self, y: np.ndarray, classes: Any) -> None:
        """Sentences for ``classes`` that are missing, changed, or do not hold the labels."""
        known = getattr(self, "classes_", None)
        if known is None:
            if classes is None:
                raise ValueError(
                    "NCMIClassifier: the first call of partial_fit must name every label there will be; got none. "
                    "Pass classes."
                )
            known = np.unique(classes)
        elif classes is not None and not np.array_equal(known, np.unique(classes)):
            raise ValueError(
                f"NCMIClassifier: classes must be those of the first call, {list(known)}; got {list(np.unique(classes))}. "
                "Leave them out, or start from a clone."
            )
        unknown = np.setdiff1d(y, known)
        if len(unknown):
            raise ValueError(
                f"NCMIClassifier: labels must be among the classes of the first call; got {list(unknown[:10])}. "
                "Start from a clone and name them there."
            )

    def _samples(self, X: np.ndarray, y: np.ndarray, sample_weight: Any) -> Samples:
        """Tensors for training; the scaler takes them in. Weights have a mean of one."""
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
            weight = None if (weight == weight[0]).all() else weight / weight.mean()
        self.scaler_.partial_fit(X, sample_weight=weight)
        targets = torch.from_numpy(np.searchsorted(self.classes_, y)).to(self.device)
        kept = None if weight is None else torch.from_numpy(weight).float().to(self.device)
        return Samples(self._rows(X), targets, kept)

    def _rows(self, X: np.ndarray) -> Tensor:
        return torch.from_numpy(self.scaler_.transform(X)).float().to(self.device)

    def _start(self, seed: int) -> Learner:
        """A network and a loss with fresh weights; the global random numbers are left alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = MLP(self.n_features_in_, tuple(self.hidden_layer_sizes))
            criterion = NCMILoss(len(self.classes_), network.num_features, **(self.loss_options or {}))
        return Learner(
            network.to(self.device),
            criterion.to(self.device),
            self.learning_rate,
            self.weight_decay,
            self.batch_size,
            torch.Generator().manual_seed(seed),
        )

    def _learn_and_stop(self, learner: Learner, part: Samples, validation: Samples) -> None:
        """Early stopping: the learner ends in the state of its best pass."""
        if not len(validation.targets):
            raise ValueError(
                "NCMIClassifier: early stopping needs a validation part, but no class has two samples. Pass more samples, or "
                "early_stopping=False."
            )
        curve: list[float] = []
        best = learner.state()

        def after(epoch: int, loss: float) -> bool:
            nonlocal best
            curve.append(learner.loss_of(validation))
            if curve[-1] == min(curve):
                best = learner.state()
            self._report(epoch, loss, f", validation {curve[-1]:.4f}")
            return len(curve) - 1 - int(np.argmin(curve)) >= self.n_iter_no_change

        self.loss_curve_ = learner.learn(part, self.max_iter, after)
        self.validation_loss_curve_ = curve
        learner.set_state(best)

    def _report(self, epoch: int, loss: float, more: str = "") -> bool:
        if self.verbose:
            print(f"pass {epoch} of {self.max_iter}: loss {loss:.4f}{more}")
        return False

    def _temperature(self, learner: Learner, samples: Samples) -> float:
        decision = CentroidClassifier.from_loss(learner.criterion)
        return score_temperature(decision, learner.features(samples.rows), samples.targets)

    def _keep(self, learner: Learner, temperature: float) -> None:
        """What was learned, as attributes."""
        self._learner = learner
        self.network_, self.criterion_ = learner.network.eval(), learner.criterion.eval()
        self.decision_ = CentroidClassifier.from_loss(learner.criterion)
        self.decision_.score_temperature.fill_(temperature)
        self.n_iter_ = len(self.loss_curve_)

    def _features(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=_FLOATS, reset=False)
        return self._learner.features(self._rows(X))

    @torch.no_grad()
    def _scores(self, X: Any) -> Tensor:
        """Minus the divergence (N, C) from each centroid, in float64."""
        features = self._features(X)
        return self.decision_(features.double())

    @property
    def _n_features_out(self) -> int:
        return self.criterion_.num_features
