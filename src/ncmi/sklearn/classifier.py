"""``NCMIClassifier``: a scikit-learn estimator for tables of features or embeddings.

Shapes: N samples, C classes, D feature width.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from ncmi.functional import EXPONENT, harmonic_logits
from ncmi.loss import NCMILoss
from ncmi.models.mlp import MLP
from ncmi.objective import harmonic
from ncmi.sklearn.training import Learner, Samples

_FLOATS = (np.float64, np.float32)
_SEEDS = 2**31 - 1


class NCMIClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    r"""A small network trained with :class:`ncmi.NCMILoss` and decided by the nearest centroid, for scikit-learn.

    Columns are standardised inside, over the training samples, so their units do not matter. The network is an MLP, trained
    by AdamW with a rate that falls to zero along a cosine. :meth:`transform` gives its features.

    The objective is ``harmonic``, the cross-entropy of the logits :math:`-k\ln D(p_x\|q^v)`. So these are the values of
    :meth:`decision_function`, and their softmax is the probability of each class. Like those of any network they can be too
    sure of themselves after many passes over few samples: wrap the estimator in ``sklearn.calibration.CalibratedClassifierCV``.

    Args:
        hidden_layer_sizes: sizes of the layers; the last is D, the number of learned features.
        temperature: τ of the loss.
        exponent: k of the loss.
        learning_rate: of AdamW at the start; centroids learn at ten times that rate.
        weight_decay: of the network's weights; centroids have none.
        max_iter: passes over the training samples.
        batch_size: most samples in a step.
        early_stopping: keep ``validation_fraction`` of the samples out of training, stop when the loss there has not fallen
            for ``n_iter_no_change`` passes, and go back to the best pass.
        validation_fraction: share of each class in the validation part.
        n_iter_no_change: patience of early stopping, in passes.
        device: where torch computes, such as ``"cuda"``.
        random_state: seed of weights, batches and the validation part.
        verbose: print the loss of each pass.

    Attributes:
        classes_: the labels, in the order of the columns of :meth:`predict_proba`.
        scaler_: the ``StandardScaler`` of the columns.
        network_: from standardised columns to features.
        criterion_: the loss, with its centroids and centre.
        exponent_: k that it was trained with.
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
        temperature: float = 0.2,
        exponent: float = EXPONENT,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        max_iter: int = 100,
        batch_size: int = 64,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.temperature = temperature
        self.exponent = exponent
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
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
        self._learner = self._start(random.randint(_SEEDS))
        validation = None
        if self.early_stopping:
            samples, validation = self._split(samples, random.randint(_SEEDS))
        curves = self._learner.learn(samples, self.max_iter, validation, self.n_iter_no_change, self.verbose)
        self.loss_curve_, self.validation_loss_curve_ = curves
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "NCMIClassifier":
        """This estimator after one more pass, over these samples alone, at the rate ``learning_rate``.

        The first call needs ``classes``, every label there will be. It goes on from ``fit`` too. Columns are standardised by
        all samples so far.
        """
        self._check_settings()
        first = not hasattr(self, "_learner")
        X, y = validate_data(self, X, y, dtype=_FLOATS, reset=first)
        check_classification_targets(y)
        self.classes_ = _known_classes(y, classes, None if first else self.classes_)
        if first:
            self.scaler_ = StandardScaler()
            self.loss_curve_ = []
            self._learner = self._start(check_random_state(self.random_state).randint(_SEEDS))
        loss = self._learner.epoch(self._samples(X, y, sample_weight))
        self.loss_curve_ = [*self.loss_curve_, loss]
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """A logit for each class (N, C), the largest for the nearest centroid; with two classes their difference (N,)."""
        logits = self._logits(self._features(X)).numpy(force=True)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X: Any) -> np.ndarray:
        """The label (N,) with the nearest centroid."""
        nearest = self._logits(self._features(X)).argmax(dim=1).numpy(force=True)
        return self.classes_[nearest]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (N, C) of ``classes_``: the softmax of the logits."""
        return self._logits(self._features(X)).softmax(dim=1).numpy(force=True)

    def transform(self, X: Any) -> np.ndarray:
        """The learned features (N, D)."""
        return self._features(X).numpy(force=True)

    @property
    def n_iter_(self) -> int:
        """Passes made."""
        return len(self.loss_curve_)

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

    def _samples(self, X: np.ndarray, y: np.ndarray, sample_weight: Any) -> Samples:
        """Tensors for training; the scaler takes them in. Weights have a mean of one."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        weight = weight / weight.mean()
        self.scaler_.partial_fit(X, sample_weight=weight)
        targets = torch.from_numpy(np.searchsorted(self.classes_, y)).to(self.device)
        return Samples(self._rows(X), targets, torch.from_numpy(weight).float().to(self.device))

    def _rows(self, X: np.ndarray) -> Tensor:
        return torch.from_numpy(self.scaler_.transform(X)).float().to(self.device)

    def _start(self, seed: int) -> Learner:
        """A network and a loss with fresh weights; the global random numbers are left alone."""
        num_classes = len(self.classes_)
        self.exponent_ = self.exponent
        objective = harmonic(self.exponent_)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = MLP(self.n_features_in_, tuple(self.hidden_layer_sizes))
            criterion = NCMILoss(
                num_classes, network.num_features, objective, temperature=self.temperature, reduction="none"
            )
        self.network_, self.criterion_ = network.to(self.device), criterion.to(self.device)
        return Learner(
            self.network_,
            self.criterion_,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            batch_size=self.batch_size,
            seed=seed,
        )

    def _split(self, samples: Samples, seed: int) -> tuple[Samples, Samples]:
        """Training part and validation part, with the same share of each class."""
        training, validation = train_test_split(
            np.arange(len(samples.targets)),
            test_size=self.validation_fraction,
            stratify=samples.targets.numpy(force=True),
            random_state=seed,
        )
        return samples.take(torch.as_tensor(training)), samples.take(torch.as_tensor(validation))

    def _features(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=_FLOATS, reset=False)
        return self._learner.features(self._rows(X))

    @torch.no_grad()
    def _logits(self, features: Tensor) -> Tensor:
        """−k ln D (N, C) for each centroid; small divergences want float64, the network's digits are those of float32."""
        points = self.criterion_.points(features.double())
        return harmonic_logits(points, self.criterion_.centroids(dtype=torch.float64), self.exponent_).float()

    @property
    def _n_features_out(self) -> int:
        return self.criterion_.num_features


def _known_classes(y: np.ndarray, classes: Any, before: np.ndarray | None) -> np.ndarray:
    """The labels of all calls of ``partial_fit``: those of the calls before, or ``classes`` of the first; they hold ``y``."""
    if before is None and classes is None:
        raise ValueError(
            "NCMIClassifier: the first call of partial_fit must name every label there will be; got none. Pass classes."
        )
    known = np.unique(classes) if before is None else before
    if classes is not None and not np.array_equal(np.unique(classes), known):
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
    return known
