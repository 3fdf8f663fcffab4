"""``Trained``: a run's network and criterion with what every use of them asks for: features, divergences, probabilities.

Shapes: N samples, C classes, D feature width.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ncmi.criteria import NCMICriterion
from ncmi.data import FolderSet, ImageSet
from ncmi.evaluation import LabelledFeatures
from ncmi.evaluation.information import CHUNK, class_mean_log_density, class_sums
from ncmi.evaluation.temperature import fit_temperature
from ncmi.functional import kl_to_centroids
from ncmi.training.config import make_config
from ncmi.training.processes import join_processes
from ncmi.training.run import load_task
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup
from ncmi.training.task import Task


class Trained:
    """A trained task on its data. Features are computed once a part, and everything after them in float64.

    Args:
        setup: the run's data.
        task: its network and criterion, in evaluation mode.
    """

    def __init__(self, setup: Setup, task: Task):
        self.setup, self.task, self.criterion = setup, task, task.criterion
        self._features: dict[int, tuple[Any, LabelledFeatures]] = {}
        self._centroids: Tensor | None = None
        self._temperature: float | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """C names; the class index is the position."""
        return tuple(self.setup.source.class_names)

    @property
    def centroid_source(self) -> str:
        """What the centroids are: the loss's own, or the class means of the training set."""
        return self.criterion.decision if isinstance(self.criterion, NCMICriterion) else "class means"

    def features(self, part: ImageSet | FolderSet) -> LabelledFeatures:
        """Features of a part of the run's data, or of any set with images of the same shape."""
        if id(part) not in self._features:
            self._features[id(part)] = (
                part,
                self.setup.own_features(self.task, part),
            )  # kept, so that its id stays its own
        return self._features[id(part)][1]

    @torch.no_grad()
    def centroids(self) -> Tensor:
        """Centroids (C, D) as log-densities: NCMI's own; for other losses the class means under NCMI's default map."""
        if self._centroids is None:
            self._centroids = self._find_centroids()
        return self._centroids

    @torch.no_grad()
    def divergences(self, part: LabelledFeatures) -> Tensor:
        """KL divergences (N, C) of each sample from each centroid."""
        centroids = self.centroids()
        pieces = [features.to(centroids.device).double() for features, _ in part.chunks(CHUNK)]
        return torch.cat([kl_to_centroids(self.criterion.points(piece), centroids).cpu() for piece in pieces])

    @torch.no_grad()
    def log_probabilities(self, part: LabelledFeatures) -> Tensor:
        """Logarithms (N, C) of the probabilities of the criterion's own decision."""
        return (self._scores(part) / self.temperature()).log_softmax(dim=1)

    def temperature(self) -> float:
        """T of the probabilities: 1 for logits, else fitted on the validation part, or on the training part without one."""
        if self._temperature is None:
            self._temperature = 1.0
            if self.criterion.probabilities_need_temperature:
                source = self.setup.source
                held_out = self.features(source.train if source.validation is None else source.validation)
                self._temperature = fit_temperature(self._scores(held_out), held_out.targets).value
        return self._temperature

    def _find_centroids(self) -> Tensor:
        if isinstance(self.criterion, NCMICriterion):
            return self.criterion.loss.centroids(dtype=torch.float64).log_density
        sums = class_sums(self.criterion, self.features(self.setup.source.train))
        return class_mean_log_density(sums.statistics)

    @torch.no_grad()
    def _scores(self, part: LabelledFeatures) -> Tensor:
        device = self.setup.processes.device
        return torch.cat([self.criterion.scores(rows.to(device)).double().cpu() for rows, _ in part.chunks(CHUNK)])


def open_run(path: str | Path, overrides: Sequence[str] = (), checkpoint: str = "last") -> Trained:
    """The run in a folder, at its checkpoint ``last`` or ``best``.

    Args:
        path: the run folder.
        overrides: of its config, such as ``data.folder=…``.
        checkpoint: which weights.
    """
    folder = RunFolder(path)
    config = make_config(folder.read_config().to_dict(), overrides, owner=str(path))
    with join_processes("cpu") as processes:
        setup = Setup(config, processes)
        return Trained(setup, load_task(setup, folder, checkpoint))
