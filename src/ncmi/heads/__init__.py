"""Decisions on trained features: by the nearest centroid, or by a linear probe."""

from ncmi.heads.centroid import CentroidClassifier
from ncmi.heads.probe import LinearProbe

__all__ = ["CentroidClassifier", "LinearProbe"]
