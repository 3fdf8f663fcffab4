"""A trained run as one module, and as one file: raw pixels or slide features in, class scores and probabilities out.

``.pt2`` files are read by torch alone, ``.onnx`` files by any runtime; both say in themselves what they take and mean.
"""

from ncmi.export.classifier import BagClassifier, Classifier, ImageClassifier
from ncmi.export.description import Description
from ncmi.export.from_run import classifier_of
from ncmi.export.onnx_file import open_onnx, write_onnx
from ncmi.export.pt2_file import open_pt2, write_pt2

__all__ = [
    "BagClassifier",
    "Classifier",
    "Description",
    "ImageClassifier",
    "classifier_of",
    "open_onnx",
    "open_pt2",
    "write_onnx",
    "write_pt2",
]
