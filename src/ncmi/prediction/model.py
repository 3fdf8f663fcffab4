"""``open_model``: a run folder, a ``.pt2`` or an ``.onnx`` file as one thing that predicts.

Shapes: B images or one bag, C classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ncmi.export import Description, classifier_of, open_onnx, open_pt2
from ncmi.training.processes import join_processes
from ncmi.training.run import load_task
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup


@dataclass(frozen=True)
class Model:
    """What predicts, whatever it was read from.

    Args:
        run: inputs to scores and probabilities, each (B, C).
        description: what it takes and means.
    """

    run: Callable[[Tensor], tuple[Tensor, Tensor]]
    description: Description

    @torch.no_grad()
    def __call__(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and probabilities (B, C) of uint8 images (B, …), or of one bag (N, F)."""
        return self.run(inputs)


def open_model(path: str | Path) -> Model:
    """The model at ``path``: a run folder (its last checkpoint), a ``.pt2`` or an ``.onnx`` file of ``ncmi export``."""
    path = Path(path)
    if path.is_dir():
        return _open_run(path)
    if path.suffix not in (".pt2", ".onnx"):
        raise ValueError(f"MODEL must be a run folder, a .pt2 or an .onnx file of `ncmi export`; got {str(path)!r}.")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file. Check the path, or write it with `ncmi export RUN -o {path}`.")
    return Model(*(open_pt2(path) if path.suffix == ".pt2" else open_onnx(path)))


def _open_run(path: Path) -> Model:
    folder = RunFolder(path)
    config = folder.read_config()
    with join_processes("cpu") as processes:
        setup = Setup(config, processes)
        return Model(*classifier_of(setup, load_task(setup, folder)))
