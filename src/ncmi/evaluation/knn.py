"""``KNNClassifier``: the class that the nearest training samples vote for.

Shapes: N training samples, B samples, C classes, D feature width.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from ncmi.checks import check_features, check_sizes, check_temperature
from ncmi.heads.inputs import accuracy, labelled
from ncmi.loss import full_precision

_NUMBERS_A_CHUNK = 2**24  # similarities held at a time


class KNNClassifier:
    r"""Votes of the k training samples with the largest cosine similarity, weighted :math:`e^{(\cos - \cos_1)/T}`.

    As in Wu et al. 2018 (instance discrimination), whose T = 0.07 is the default. Their weight is :math:`e^{\cos/T}`; divided
    by that of the nearest neighbour it cannot overflow or vanish at any T, and decisions and shares of votes are the same.
    Features are raw, divided by their L2 norm; a row of zeros is equally far from all. Memory beyond the training features
    does not grow with N·B.

    Args:
        num_classes: C.
        num_features: D.
        k: number of neighbours; 20 is a usual choice for sets of a few thousand samples and more.
        temperature: T.

    Attributes:
        features_: the normalised training features (N, D); ``None`` before :meth:`fit`.
        targets_: their classes (N,).

    >>> features, targets = torch.randn(60, 4), torch.arange(60) % 2
    >>> features[:, 0] += 50.0 * targets - 25.0
    >>> knn = KNNClassifier(num_classes=2, num_features=4).fit(features, targets)
    >>> knn.score(features, targets)
    1.0
    """

    def __init__(self, num_classes: int, num_features: int, k: int = 20, temperature: float = 0.07):
        check_sizes("KNNClassifier", num_classes, num_features)
        if k < 1:
            raise ValueError(f"KNNClassifier: k must be at least 1; got {k}.")
        self.num_classes = num_classes
        self.num_features = num_features
        self.k = k
        self.temperature = check_temperature("KNNClassifier", temperature)
        self.features_: Tensor | None = None
        self.targets_: Tensor | None = None

    def fit(self, features: Tensor, targets: Tensor) -> "KNNClassifier":
        """This classifier, with features (N, D) and class indices (N,) of the training set to look among."""
        features, targets = labelled("KNNClassifier", features, targets, self.num_features, self.num_classes)
        if self.k > len(targets):
            raise ValueError(
                f"KNNClassifier: k must not exceed the number of training samples; got k={self.k} and {len(targets)} samples. "
                f"Pass k={len(targets)} or less."
            )
        self.features_, self.targets_ = _normalized(features), targets
        return self

    @torch.no_grad()
    def scores(self, features: Tensor) -> Tensor:
        """Votes (B, C) of features (B, D): zero for a class that none of the neighbours has."""
        check_features("KNNClassifier", features, self.num_features)
        known, _ = self._fitted()
        rows = _normalized(features.detach()).to(known)
        chunks = [self._votes(chunk) for chunk in rows.split(self._rows_a_chunk())]
        return torch.cat(chunks) if chunks else known.new_zeros(0, self.num_classes)

    @torch.no_grad()
    def leave_one_out(self, indices: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Votes (B, C) and classes (B,) of training samples, piece by piece, each without its own vote.

        With it, every training sample would find itself first.

        Args:
            indices: which training samples; ``None`` takes all.
        """
        known, labels = self._fitted()
        if self.k >= len(labels):
            raise ValueError(
                f"KNNClassifier: leave_one_out needs k below the number of training samples; got k={self.k} and "
                f"{len(labels)} samples. Pass k={len(labels) - 1} or less."
            )
        rows = torch.arange(len(labels)) if indices is None else indices
        for own in rows.to(labels.device).split(self._rows_a_chunk()):
            yield self._votes(known[own], own), labels[own]

    def predict(self, features: Tensor) -> Tensor:
        """The class (B,) with the most votes."""
        return self.scores(features).argmax(dim=1)

    def predict_proba(self, features: Tensor) -> Tensor:
        """Shares of the votes (B, C)."""
        votes = self.scores(features)
        return votes / votes.sum(dim=1, keepdim=True)

    def score(self, features: Tensor, targets: Tensor) -> float:
        """Accuracy of the decisions: features (N, D), targets (N,) class indices."""
        features, targets = labelled("KNNClassifier", features, targets, self.num_features, self.num_classes)
        return accuracy(self.predict(features), targets.to(self._fitted()[1].device))

    def _votes(self, rows: Tensor, own: Tensor | None = None) -> Tensor:
        known, labels = self._fitted()
        with full_precision(rows):
            similarity = rows @ known.T
        if own is not None:
            similarity.scatter_(1, own.unsqueeze(1), -torch.inf)
        nearest = similarity.topk(self.k, dim=1)
        weights = ((nearest.values - nearest.values[:, :1]) / self.temperature).exp()
        return weights.new_zeros(len(rows), self.num_classes).scatter_add_(1, labels[nearest.indices], weights)

    def _fitted(self) -> tuple[Tensor, Tensor]:
        if self.features_ is None or self.targets_ is None:
            raise RuntimeError("KNNClassifier: there are no training samples yet. Call fit(features, targets) first.")
        return self.features_, self.targets_

    def _rows_a_chunk(self) -> int:
        return max(1, _NUMBERS_A_CHUNK // len(self._fitted()[1]))

    def __repr__(self) -> str:
        size = 0 if self.targets_ is None else len(self.targets_)
        return (
            f"KNNClassifier({self.num_classes}, {self.num_features}, k={self.k}, temperature={self.temperature}; "
            f"{size} training samples)"
        )


def _normalized(features: Tensor) -> Tensor:
    return F.normalize(features.to(torch.promote_types(features.dtype, torch.float32)), dim=1)
