"""``predict``: the class of each file with its probability, as lines and as a table.

Shapes: C classes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ncmi.prediction.inputs import read_input
from ncmi.prediction.model import Model
from ncmi.report.csv_table import write_rows

_BATCH = 64  # images that are held and run at a time


@dataclass(frozen=True)
class Prediction:
    """What a model says of a file: the probability of each of its classes.

    >>> print(Prediction("cat.png", ("bird", "cat", "dog"), (0.01, 0.93, 0.06)).line(top=2))
    cat.png: cat 93.0 %, dog 6.0 %
    """

    file: str
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def decided(self) -> int:
        """The index of the class with the largest probability."""
        return max(range(len(self.classes)), key=self.probabilities.__getitem__)

    def line(self, top: int = 3) -> str:
        """The ``top`` most probable classes in words."""
        order = sorted(range(len(self.classes)), key=lambda place: -self.probabilities[place])[:top]
        words = [f"{self.classes[place]} {100 * self.probabilities[place]:.1f} %" for place in order]
        return f"{self.file}: {', '.join(words)}"


def predict(model: Model, files: Sequence[Path]) -> Iterator[Prediction]:
    """A prediction for each file, in order; images go through the model in batches, slides one by one."""
    classes = model.description.classes
    size = _BATCH if model.description.takes == "images" else 1
    for start in range(0, len(files), size):
        part = files[start : start + size]
        inputs = [read_input(file, model.description) for file in part]
        _, probabilities = model(torch.stack(inputs) if model.description.takes == "images" else inputs[0])
        for file, row in zip(part, _checked(model, probabilities), strict=True):
            yield Prediction(str(file), classes, tuple(row))


def write_csv(predictions: Sequence[Prediction], path: str | Path) -> None:
    """Write a line a file: its name, the class decided for, its probability, and that of every class."""
    classes = predictions[0].classes
    header = ["file", "class", "probability", *(f"P({name})" for name in classes)]
    rows = [[row.file, classes[row.decided], row.probabilities[row.decided], *row.probabilities] for row in predictions]
    write_rows(path, header, rows)


def _checked(model: Model, probabilities: Tensor) -> list[list[float]]:
    if probabilities.shape[1:] != (len(model.description.classes),) or not bool(probabilities.isfinite().all()):
        raise ValueError(
            f"predict: the model must give {len(model.description.classes)} finite numbers a file; got shape "
            f"{tuple(probabilities.shape)}, or NaN. The file of the model is damaged; export the run again."
        )
    return probabilities.tolist()
