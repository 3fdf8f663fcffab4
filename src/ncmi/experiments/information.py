"""Uses of divergences, measured on real data: rows that the table in docs/information.md is made from.

``python -m ncmi.experiments.information OUT ood RUN… --other cifar10``, ``… mislabeled RUN…`` and ``… classes RUN…`` append a
row for each finished run and each score.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from ncmi.criteria import HeadCriterion
from ncmi.data import load_data
from ncmi.information import Trained, class_map, find_suspects, measure_novelty, open_run
from ncmi.information.classes import ClassMap
from ncmi.training.environment import describe_environment
from ncmi.training.run_folder import RunFolder


def main() -> None:
    """Measure finished runs and append their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the file of rows")
    parser.add_argument("use", choices=["ood", "mislabeled", "classes"])
    parser.add_argument("runs", nargs="+", help="run folders")
    parser.add_argument("--other", help="the other data set of ood")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for path in options.runs:
        run, folder = open_run(path), RunFolder(path)
        trained = folder.read_json(folder.environment)["started"]["commit"]
        with options.out.open("a", encoding="utf-8") as file:
            for row in measured(run, options.use, options.other):
                file.write(json.dumps({**row, "trained_commit": trained}) + "\n")
                print(row["loss"], row["seed"], row["score"], row["value"], flush=True)


def measured(run: Trained, use: str, other: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of one run for one use: what was run, and a number for each score."""
    config, environment = run.setup.config, describe_environment("cpu")
    about = {
        "use": use,
        "data": config.data.name,
        "other": other,
        "loss": config.loss.name,
        "seed": config.seed,
        "scale": config.scale,
        "centroids": run.centroid_source,
        "config": config.to_dict(),
        **{key: environment[key] for key in ("commit", "uncommitted_changes", "processor", "torch", "ncmi")},
    }
    values = {"ood": _ood, "mislabeled": _mislabeled, "classes": _classes}[use](run, other)
    for score, (value, n) in values.items():
        yield {**about, "score": score, "value": value, "n": n}


def _ood(run: Trained, other: str | None) -> dict[str, tuple[float, int]]:
    assert other is not None
    found = measure_novelty(run, other)
    return {name: (found.auroc(name), sum(map(len, pair))) for name, pair in found.scores.items()}


def _mislabeled(run: Trained, other: str | None) -> dict[str, tuple[float, int]]:
    found, values = find_suspects(run), {}
    for name in found.scores:
        area, precision = found.found(name)
        values[f"{name}, AUROC"] = area, len(found.labels)
        values[f"{name}, precision"] = precision, len(found.labels)
    return values


def _classes(run: Trained, other: str | None) -> dict[str, tuple[float, int]]:
    """Agreement with confusions; for CIFAR-100 also the share of classes whose nearest has the same superclass."""
    maps = {"divergence": class_map(run)}
    if isinstance(run.criterion, HeadCriterion):  # the usual distance between classes of a linear head
        weight = F.normalize(run.criterion.head.weight.detach().double().cpu(), dim=1)
        maps["head weights"] = ClassMap(1 - weight @ weight.T, (), maps["divergence"].confusions, "", run.class_names)
    values = {}
    for name, found in maps.items():
        pairs = len(found.distances) * (len(found.distances) - 1) // 2
        values[f"{name}, agreement"] = found.agreement(), pairs
        if run.setup.config.data.name == "cifar100":
            coarse = _superclasses(run)
            same = coarse[found.nearest().squeeze(1)] == coarse
            values[f"{name}, superclass"] = same.double().mean().item(), len(coarse)
    return values


def _superclasses(run: Trained) -> torch.Tensor:
    """The superclass (100,) of each class of CIFAR-100."""
    folder = run.setup.config.data.folder
    fine, coarse = (load_data("cifar100", folder, labels=labels).test.targets for labels in ("fine", "coarse"))
    found = torch.zeros(int(fine.max()) + 1, dtype=torch.int64)
    found[fine] = coarse
    return found


if __name__ == "__main__":
    main()
