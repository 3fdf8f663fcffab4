"""Classes of files: images or slide features in, a table of probabilities out, by any form that a trained run has."""

from ncmi.prediction.inputs import find_files, read_input
from ncmi.prediction.model import Model, open_model
from ncmi.prediction.table import Prediction, predict, write_csv

__all__ = ["Model", "Prediction", "find_files", "open_model", "predict", "read_input", "write_csv"]
