"""Which classes are alike: divergences between their centroids.

Shapes: C classes, D feature width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ncmi.functional import SimplexPoint, kl_to_centroids
from ncmi.functional.simplex import LogDensity
from ncmi.information.ranks import rank_correlation
from ncmi.information.trained import Trained


@dataclass(frozen=True, eq=False)
class ClassMap:
    """Distances between classes.

    Args:
        distances: (C, C), the mean of D(q^u‖q^v) and D(q^v‖q^u); zero on the diagonal.
        order: the classes (C,) in the order of a hierarchical clustering, like beside like.
        confusions: (C, C), the share of test samples of a class taken for the other, the mean of both directions; ``None``
            without a test part.
        source: what the centroids are.
        class_names: C names.
    """

    distances: Tensor
    order: tuple[int, ...]
    confusions: Tensor | None
    source: str
    class_names: tuple[str, ...]

    def nearest(self, count: int = 1) -> Tensor:
        """The ``count`` nearest other classes (C, count) of each class, nearest first."""
        others = self.distances + torch.diag(torch.full((len(self.distances),), torch.inf, dtype=self.distances.dtype))
        return others.topk(count, largest=False).indices

    def agreement(self) -> float:
        """Spearman's correlation between nearness and confusion over all pairs of classes; 0 is chance."""
        if self.confusions is None:
            raise ValueError("classes: confusions need a test part, which this run's data have not.")
        rows, columns = torch.triu_indices(*self.distances.shape, offset=1)
        return rank_correlation(-self.distances[rows, columns], self.confusions[rows, columns])

    def rows(self) -> list[tuple[str, str, float, float | None]]:
        """A line a pair of classes, nearest first: both names, distance, and share of confusions."""
        rows, columns = torch.triu_indices(*self.distances.shape, offset=1)
        found = []
        for place in self.distances[rows, columns].argsort(stable=True).tolist():
            one, other = int(rows[place]), int(columns[place])
            confused = None if self.confusions is None else float(self.confusions[one, other])
            names = self.class_names[one], self.class_names[other]
            found.append((*names, float(self.distances[one, other]), confused))
        return found


def class_map(run: Trained) -> ClassMap:
    """The classes of a run, by its centroids."""
    distances = centroid_distances(run.centroids().cpu())
    confusions = None
    if run.setup.source.test is not None:
        test = run.features(run.setup.source.test)
        confusions = _confusions(run.log_probabilities(test).argmax(dim=1), test.targets, len(distances))
    return ClassMap(distances, similar_order(distances), confusions, run.centroid_source, run.class_names)


def centroid_distances(log_density: Tensor) -> Tensor:
    """Symmetric divergences (C, C) between centroids (C, D), given as log-densities in float64."""
    points = SimplexPoint(LogDensity(log_density).probs, log_density)
    divergences = kl_to_centroids(points, log_density)
    return ((divergences + divergences.T) / 2).clamp_min(0).fill_diagonal_(0)


def similar_order(distances: Tensor) -> tuple[int, ...]:
    """Classes in the order of the leaves of a tree by average linkage, turned so that neighbours are alike."""
    try:
        from scipy.cluster.hierarchy import leaves_list, linkage
        from scipy.spatial.distance import squareform
    except ImportError as error:
        raise ImportError(
            "classes: their order needs scipy, which is not installed: `pip install 'ncmi[train]'`."
        ) from error
    if len(distances) < 3:
        return tuple(range(len(distances)))
    tree = linkage(squareform(distances.numpy(), checks=False), "average", optimal_ordering=True)
    return tuple(int(leaf) for leaf in leaves_list(tree))


def _confusions(decided: Tensor, targets: Tensor, num_classes: int) -> Tensor:
    counts = torch.zeros(num_classes, num_classes, dtype=torch.float64)
    counts.index_put_((targets, decided), torch.ones(len(targets), dtype=torch.float64), accumulate=True)
    shares = counts / counts.sum(dim=1, keepdim=True).clamp_min(1)
    return ((shares + shares.T) / 2).fill_diagonal_(0)
