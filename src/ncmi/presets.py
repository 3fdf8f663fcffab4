"""Settings by name: what the paper prints and what the authors' published script does.

The first fields concern :class:`ncmi.NCMILoss`; ``training`` records the rest of the recipe for whoever repeats it.
"""

from dataclasses import dataclass
from typing import Any

from ncmi.center import CENTERS
from ncmi.centroids import CENTROIDS
from ncmi.checks import choose


@dataclass(frozen=True)
class Preset:
    """A published setting: where it comes from, the loss it needs, and the training it was used with."""

    source: str
    objective: str
    temperature: float
    center: str
    center_settings: dict[str, Any]
    centroids: str
    centroids_start: str
    training: dict[str, Any]


PRESETS = {
    "paper": Preset(
        source="the paper's text, with Theorem 1's index corrected. Not printed: τ (here the published script's), the centre's "
        "momentum (ours) and ξ's start (the one that makes the denominator positive)",
        objective="theorem1",
        temperature=0.2,
        # Algorithm 1: an average of the centred features.
        center="printed",
        center_settings={"momentum": 0.999},
        centroids="learned",
        centroids_start="uniform",
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
        # The first batch's mean, then an average with a memory of a million steps.
        center="ema",
        center_settings={"momentum": 0.999999, "start": "first_batch"},
        # q^y = NSF(10·e_y) for the whole run.
        centroids="fixed",
        centroids_start="axis",
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
    arguments = {"objective": preset.objective, "temperature": preset.temperature} | overrides
    if "center" not in overrides:
        arguments["center"] = CENTERS[preset.center](num_features, **preset.center_settings)
    if "centroids" not in overrides:
        arguments["centroids"] = CENTROIDS[preset.centroids](
            num_classes,
            num_features,
            preset.centroids_start,
            temperature=arguments["temperature"],
            simplex=overrides.get("simplex", "nsf"),
        )
    return arguments
