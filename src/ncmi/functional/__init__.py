"""The mathematics as pure functions: maps to the simplex, divergences, class statistics, objectives."""

from ncmi.functional.directions import spread_directions
from ncmi.functional.divergence import cross_entropy, kl_divergence, kl_to_centroids, kl_to_own
from ncmi.functional.objectives import Ratio, centroid, harmonic, released, theorem1
from ncmi.functional.simplex import (
    FeaturePoints,
    LogDensity,
    SimplexPoint,
    feature_point,
    log_density,
    log_nsf,
    log_softmax,
    nsf,
    scale_features,
    simplex_point,
    softmax,
    to_log_probs,
    to_logits,
)
from ncmi.functional.statistics import (
    ClassStatistics,
    NCMITerms,
    class_statistics,
    cmi,
    compact_labels,
    gamma,
    merge_statistics,
    ncmi,
)

__all__ = [
    "ClassStatistics",
    "FeaturePoints",
    "LogDensity",
    "NCMITerms",
    "Ratio",
    "SimplexPoint",
    "centroid",
    "class_statistics",
    "cmi",
    "compact_labels",
    "cross_entropy",
    "feature_point",
    "gamma",
    "harmonic",
    "kl_divergence",
    "kl_to_centroids",
    "kl_to_own",
    "log_density",
    "log_nsf",
    "log_softmax",
    "merge_statistics",
    "ncmi",
    "nsf",
    "released",
    "scale_features",
    "simplex_point",
    "softmax",
    "spread_directions",
    "theorem1",
    "to_log_probs",
    "to_logits",
]
