"""ncmi: train deep classifiers by minimising normalized conditional mutual information."""

from ncmi import functional
from ncmi.heads import CentroidClassifier, LinearProbe
from ncmi.loss import NCMILoss
from ncmi.metric import NCMIMetric
from ncmi.objective import PerSample, RatioOfMeans, harmonic
from ncmi.optim import parameter_groups
from ncmi.presets import PRESETS

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "CentroidClassifier",
    "LinearProbe",
    "NCMILoss",
    "NCMIMetric",
    "PerSample",
    "RatioOfMeans",
    "functional",
    "harmonic",
    "parameter_groups",
]
