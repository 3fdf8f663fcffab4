"""ncmi: train deep classifiers by minimising normalized conditional mutual information."""

from ncmi import functional
from ncmi.loss import NCMILoss
from ncmi.objective import PerSample, RatioOfMeans, harmonic
from ncmi.optim import parameter_groups
from ncmi.presets import PRESETS

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "NCMILoss",
    "PerSample",
    "RatioOfMeans",
    "functional",
    "harmonic",
    "parameter_groups",
]
