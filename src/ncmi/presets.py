"""Settings by name: what the paper prints and what the authors' published script does.

Only ``loss`` concerns :class:`ncmi.NCMILoss`; ``training`` records the rest of the recipe for whoever repeats it.
"""

from dataclasses import dataclass, field
from typing import Any

from ncmi.center import EMACenter, PrintedCenter
from ncmi.centroids import FixedCentroids, LearnedCentroids
from ncmi.checks import choose


@dataclass(frozen=True)
class Preset:
    """A published setting: where it comes from, the loss it needs, and the training it was used with."""

    source: str
    objective: str
    temperature: float
    training: dict[str, Any] = field(default_factory=dict)


PRESETS = {
    "paper": Preset(
        source="the paper's text, with Theorem 1's index corrected; τ, the centre's momentum and ξ's start are not printed "
        "and are the published script's, ours, and the only start with a positive denominator",
        objective="theorem1",
        temperature=0.2,
        training={
            "optimizer": "SGD, momentum 0.9, weight decay 5e-4",
            "lr": 0.1,
            "schedule": "×0.1 at epochs 60, 120, 160 of 200",
            "batch_size": 64,
        },
    ),
    "released": Preset(
        source="the authors' published CIFAR-100 script",
        objective="released",
        temperature=0.2,
        training={
            "optimizer": "SGD, momentum 0.9, weight decay 5e-4",
            "lr": 0.1,
            "schedule": "×0.2 at epochs 60, 120, 160 of 200, one epoch of warm-up",
            "batch_size": 128,
            "augmentation": "crop, flip, rotation by up to 15°",
        },
    ),
}


def preset_arguments(name: str, num_classes: int, num_features: int, **overrides: Any) -> dict[str, Any]:
    """Keyword arguments of ``NCMILoss`` for a preset, with ``overrides`` in place of its own."""
    preset = PRESETS[choose("NCMILoss", "preset", name, PRESETS)]
    simplex = overrides.get("simplex", "nsf")
    arguments: dict[str, Any] = {"objective": preset.objective, "temperature": preset.temperature}
    if name == "paper":
        # Algorithm 1: an average of the centred features; centroids learned from q uniform.
        arguments["center"] = PrintedCenter(num_features, momentum=0.999)
        arguments["centroids"] = LearnedCentroids(num_classes, num_features, start="uniform", simplex=simplex)
    else:
        # First batch's mean, then an average with a memory of a million steps; q^y = NSF(10·e_y) for the whole run.
        arguments["center"] = EMACenter(num_features, momentum=0.999999, start="first_batch")
        arguments["centroids"] = FixedCentroids(num_classes, num_features, start="axis", simplex=simplex)
    return arguments | overrides
