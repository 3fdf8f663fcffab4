"""Samples from elsewhere: how far they are from every class.

Shapes: N samples of the run's own test set, M of another set.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ncmi.data import FolderSet, fit_images, load_data
from ncmi.evaluation import LabelledFeatures
from ncmi.information.ranks import auroc
from ncmi.information.trained import Trained

SCORES = {
    "divergence": "smallest divergence from a centroid",
    "probability": "1 − largest probability",
}


@dataclass(frozen=True, eq=False)
class Novelty:
    """Numbers that should be larger for samples from elsewhere.

    Args:
        own: the name of the run's data set.
        other: that of the other.
        scores: by name of :data:`SCORES`: those of the own test set (N,), and those of the other set (M,).
    """

    own: str
    other: str
    scores: dict[str, tuple[Tensor, Tensor]]

    def auroc(self, name: str) -> float:
        """How well a score tells the two sets apart; 0.5 is chance."""
        inside, outside = self.scores[name]
        return auroc(torch.cat([inside, outside]), torch.arange(len(inside) + len(outside)) >= len(inside))

    def rows(self) -> list[tuple[str, int, float, float]]:
        """A line a sample: its set, its index there, and both scores."""
        found = []
        for place, name in enumerate((self.own, self.other)):
            columns = [self.scores[score][place].tolist() for score in SCORES]
            found += [(name, index, *values) for index, values in enumerate(zip(*columns, strict=True))]
        return found


def measure_novelty(run: Trained, other: str, data_dir: str | Path | None = None) -> Novelty:
    """Scores of the run's test set, and of the test set of ``other``, a name of :func:`ncmi.data.load_data`.

    Images of another shape are fitted to the run's (:func:`ncmi.data.fit_images`).
    """
    source = run.setup.source
    if source.test is None:
        raise ValueError(f"ood: {run.setup.config.data.name} has no test part here, so nothing to compare with.")
    second = load_data(other, data_dir).test
    if not isinstance(second, FolderSet):
        side = run.setup.config.data.test_resolution
        shape = (3, side, side) if isinstance(source.train, FolderSet) else source.train.image_shape
        second = fit_images(second, shape)
    elif not isinstance(source.train, FolderSet):
        raise ValueError(
            f"ood: a folder of photographs has no fixed size, and the run, on {run.setup.config.data.name}, needs images of "
            f"{source.train.image_shape}. Name a data set in memory, such as cifar10."
        )
    inside, outside = (_scores(run, run.features(part)) for part in (source.test, second))
    return Novelty(run.setup.config.data.name, other, {name: (inside[name], outside[name]) for name in SCORES})


def _scores(run: Trained, part: LabelledFeatures) -> dict[str, Tensor]:
    # From the logarithm, because 1 − p of a sure decision would lose its digits to the 1.
    largest = run.log_probabilities(part).amax(dim=1)
    return {"divergence": run.divergences(part).amin(dim=1), "probability": -torch.expm1(largest)}
