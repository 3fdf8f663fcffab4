"""Penultimate features of trained networks, and what NCMI and the nearest class mean say of them.

Shapes: N samples, C classes, D feature width.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch

from ncmi.data import STATISTICS, CenterCrop, FolderLoader, ImageSet, Normalize, TensorLoader, load_data, split_off
from ncmi.data.files import data_places
from ncmi.evaluation import LabelledFeatures, collect, measure
from ncmi.evaluation.information import ClassSums, class_mean_log_density, terms
from ncmi.functional import kl_to_centroids, simplex_point
from ncmi.information import open_run
from ncmi.models import create_model, load_weights

_BATCH = 250


class Family(NamedTuple):
    """Published networks of one kind: a file of weights each, in a folder beside the data.

    Args:
        name: in tables.
        data: whose test part they are measured on.
        folder: of the weights, below one of the places where data are looked for.
        files: the file of each network, by its name in :func:`ncmi.models.create_model`.
        statistics: whose mean and deviation they were trained with.
        resolution: pixels of a side, for folders of images.
    """

    name: str
    data: str
    folder: str
    files: dict[str, str]
    statistics: str = "imagenet"
    resolution: int = 224

    def weights(self, model: str) -> Path | None:
        """The file of a network; ``None`` if it is nowhere."""
        paths = [place / self.folder / self.files[model] for place in data_places(None)]
        return next((path for path in paths if path.is_file()), None)


def family_features(family: Family, model: str) -> LabelledFeatures:
    """Features (N, D) of the test part by a network of a family."""
    weights = family.weights(model)
    if weights is None:
        raise FileNotFoundError(
            f"{family.name}: {family.files[model]} is in none of {', '.join(str(place) for place in data_places(None))}. Put "
            f"it there in the folder {family.folder}."
        )
    part, normalize = load_data(family.data).test, Normalize(*STATISTICS[family.statistics])
    if isinstance(part, ImageSet):
        loader: Any = TensorLoader(part, normalize, _BATCH, shuffle=False)
    else:
        loader = FolderLoader(part, CenterCrop(family.resolution), normalize, _BATCH, shuffle=False)
    network = create_model(model)
    load_weights(network, weights)
    return collect(network.to(memory_format=torch.channels_last), loader)  # pyright: ignore[reportCallIssue]


def run_features(path: str | Path) -> LabelledFeatures:
    """Features (N, D) of the test part by the network of a run folder, at its last epoch."""
    run = open_run(path)
    part = run.setup.source.test
    assert part is not None, "a finished run was evaluated on its test part"
    return run.features(part)


def separation(features: LabelledFeatures, seed: int = 0) -> dict[str, Any]:
    """NCMI and nearest-class-mean accuracy on one half of the samples, by class means of the other half.

    ``softmax``: of the features as they are, as the paper's figure has it. ``method``: of the centred, L2-normalised features
    by NSF at temperature 0.2, as the loss has it. Halves are stratified. The means in CMI and Γ are those of the measured
    half itself (Eqs. 5–8).

    Args:
        features: of a set that the network was not trained on.
        seed: of the halves.
    """
    halves = split_off(features.targets, 0.5, seed)
    means, part = features.rows(halves.kept), features.rows(halves.held_out)
    method = measure(part, means)
    return {
        "samples": len(part),
        "softmax": _plain_softmax(part, means),
        "method": {
            "cmi": method.cmi,
            "gamma": method.gamma,
            "ncmi": method.ncmi,
            "accuracy": method.centroid_accuracy,
        },
    }


@torch.no_grad()
def _plain_softmax(part: LabelledFeatures, means: LabelledFeatures) -> dict[str, float]:
    classes = int(torch.cat([part.targets, means.targets]).max()) + 1
    statistics = []
    for half in (part, means):
        sums = ClassSums(classes, half.num_features)
        sums.add(simplex_point(half.features.double(), "softmax"), half.targets)
        statistics.append(sums.statistics)
    centroids = class_mean_log_density(statistics[1])
    decided = kl_to_centroids(simplex_point(part.features.double(), "softmax"), centroids).argmin(dim=1)
    cmi, gamma, ncmi = terms(statistics[0])
    right = float((decided == part.targets).double().mean())
    return {"cmi": cmi, "gamma": gamma, "ncmi": ncmi, "accuracy": right}
