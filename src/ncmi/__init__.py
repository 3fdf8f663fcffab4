"""ncmi: train deep classifiers by minimising normalized conditional mutual information.

Names are imported when they are first used, so that the command line can answer before torch is there.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ncmi import functional
    from ncmi.heads import CentroidClassifier, LinearProbe
    from ncmi.loss import NCMILoss
    from ncmi.metric import NCMIMetric
    from ncmi.objective import PerSample, RatioOfMeans, WithRivals, harmonic, rivals
    from ncmi.optim import parameter_groups
    from ncmi.presets import PRESETS
    from ncmi.sklearn import NCMIClassifier as NCMIClassifier

__version__ = "0.1.0"

_HOMES = {
    "PRESETS": "presets",
    "CentroidClassifier": "heads",
    "LinearProbe": "heads",
    "NCMIClassifier": "sklearn",
    "NCMILoss": "loss",
    "NCMIMetric": "metric",
    "PerSample": "objective",
    "RatioOfMeans": "objective",
    "WithRivals": "objective",
    "functional": "",
    "harmonic": "objective",
    "parameter_groups": "optim",
    "rivals": "objective",
}

# Without NCMIClassifier: ``from ncmi import *`` shall not need scikit-learn.
__all__ = [
    "PRESETS",
    "CentroidClassifier",
    "LinearProbe",
    "NCMILoss",
    "NCMIMetric",
    "PerSample",
    "RatioOfMeans",
    "WithRivals",
    "functional",
    "harmonic",
    "parameter_groups",
    "rivals",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ncmi' has no attribute {name!r}")
    home = _HOMES[name]
    value = getattr(import_module(f"ncmi.{home}"), name) if home else import_module(f"ncmi.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
