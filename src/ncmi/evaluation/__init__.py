"""What a trained network is worth: decisions, calibration, neighbours, and CMI, Γ and NCMI of its features.

Nothing here trains the network or changes it. A criterion is anything that keeps the promise of ``protocol.py``.
"""

from ncmi.evaluation.calibration import Reliability, calibration_error, reliability
from ncmi.evaluation.epoch import Validation, validate
from ncmi.evaluation.features import LabelledFeatures, collect, gather
from ncmi.evaluation.knn import KNNClassifier
from ncmi.evaluation.measure import Measurement, measure
from ncmi.evaluation.outputs import Outputs, outputs_of
from ncmi.evaluation.protocol import Criterion
from ncmi.evaluation.read import read_features
from ncmi.evaluation.records import DecisionResult, Evaluation, Information, Score
from ncmi.evaluation.report import evaluate

__all__ = [
    "Criterion",
    "DecisionResult",
    "Evaluation",
    "Information",
    "KNNClassifier",
    "LabelledFeatures",
    "Measurement",
    "Outputs",
    "Reliability",
    "Score",
    "Validation",
    "calibration_error",
    "collect",
    "evaluate",
    "gather",
    "measure",
    "outputs_of",
    "read_features",
    "reliability",
    "validate",
]
