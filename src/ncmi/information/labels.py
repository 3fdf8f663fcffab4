"""Training samples whose label is probably wrong: nearer to another class than to their own.

Shapes: N training samples.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ncmi.data import FolderSet
from ncmi.information.ranks import auroc, precision_at
from ncmi.information.trained import Trained

SCORES = {
    "margin": "divergence from the own centroid minus that from the nearest other",
    "loss": "−ln of the label's probability",
}


@dataclass(frozen=True, eq=False)
class Suspects:
    """Numbers that should be larger for wrong labels.

    Args:
        names: of the samples: their files, or their numbers in the training part.
        labels: class indices (N,) as they are in the data.
        nearest: the nearest other class (N,).
        scores: (N,) by name of :data:`SCORES`.
        flipped: bool (N,), labels that were made wrong on purpose; ``None`` where none were.
        class_names: C names.
    """

    names: tuple[str, ...]
    labels: Tensor
    nearest: Tensor
    scores: dict[str, Tensor]
    flipped: Tensor | None
    class_names: tuple[str, ...]

    def found(self, score: str) -> tuple[float, float]:
        """AUROC of a score for labels made wrong on purpose, and its precision at their number."""
        if self.flipped is None:
            raise ValueError(
                "mislabeled: no label of this run was made wrong on purpose; train with data.flip_labels=0.1."
            )
        numbers = self.scores[score]
        return auroc(numbers, self.flipped), precision_at(numbers, self.flipped, int(self.flipped.sum()))

    def rows(self, score: str = "margin") -> list[tuple[str, str, str, float, float, str]]:
        """A line a sample, most suspicious first: name, label, nearest other class, both scores, and whether it was flipped."""
        found = []
        for place in self.scores[score].argsort(descending=True, stable=True).tolist():
            label, nearest = (self.class_names[int(classes[place])] for classes in (self.labels, self.nearest))
            known = "" if self.flipped is None else ("yes" if self.flipped[place] else "no")
            found.append((self.names[place], label, nearest, *(float(self.scores[s][place]) for s in SCORES), known))
        return found


def find_suspects(run: Trained) -> Suspects:
    """The training samples of a run, each with how much its label looks wrong."""
    source = run.setup.source
    features = run.features(source.train)
    labels = features.targets
    divergences, own = run.divergences(features), labels.unsqueeze(1)
    others = divergences.scatter(1, own, torch.inf)
    nearest = others.argmin(dim=1)
    margin = divergences.gather(1, own).squeeze(1) - others.amin(dim=1)
    loss = -run.log_probabilities(features).gather(1, own).squeeze(1)
    flipped = None
    if source.flips is not None:
        flipped = torch.zeros(len(labels), dtype=torch.bool)
        flipped[source.flips.changed] = True
    names = source.train.paths if isinstance(source.train, FolderSet) else tuple(map(str, range(len(labels))))
    return Suspects(names, labels, nearest, {"margin": margin, "loss": loss}, flipped, run.class_names)
