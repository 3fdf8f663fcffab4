"""The losses that NCMI is compared with, each as its own paper defines it: one loss a file, cards in ``docs/losses.md``."""

from typing import Any

from ncmi.baselines.anticlass import AntiClass
from ncmi.baselines.base import Baseline, LogitsLoss
from ncmi.baselines.center import CenterLoss
from ncmi.baselines.cmic import CMIC
from ncmi.baselines.contrastive_center import ContrastiveCenterLoss
from ncmi.baselines.cross_entropy import CrossEntropy
from ncmi.baselines.focal import Focal
from ncmi.baselines.label_smoothing import LabelSmoothing
from ncmi.baselines.opl import OPL
from ncmi.baselines.poly1 import Poly1
from ncmi.baselines.projection import ProjectionHead
from ncmi.baselines.square import SquareLoss
from ncmi.baselines.squentropy import Squentropy
from ncmi.baselines.supcon import SupCon
from ncmi.checks import choose

BASELINES: dict[str, type[Baseline]] = {
    "ce": CrossEntropy,
    "label-smoothing": LabelSmoothing,
    "focal": Focal,
    "poly1": Poly1,
    "squentropy": Squentropy,
    "square": SquareLoss,
    "anticlass": AntiClass,
    "supcon": SupCon,
    "opl": OPL,
    "cmic": CMIC,
    "center": CenterLoss,
    "contrastive-center": ContrastiveCenterLoss,
}


def make_baseline(name: str, num_classes: int, num_features: int, **settings: Any) -> Baseline:
    """The baseline of that name; ``num_features`` goes to those that hold a vector for each class.

    >>> make_baseline("focal", num_classes=10, num_features=512, gamma=3.0)
    Focal(
      10, reduction='mean', gamma=3.0
      (weighting): Weighting(batch, ignore_index=-100)
    )
    """
    kind = BASELINES[choose("make_baseline", "name", name, BASELINES)]
    sizes = (num_classes, num_features) if kind.takes_num_features else (num_classes,)
    return kind(*sizes, **settings)


__all__ = [
    "BASELINES",
    "CMIC",
    "OPL",
    "AntiClass",
    "Baseline",
    "CenterLoss",
    "ContrastiveCenterLoss",
    "CrossEntropy",
    "Focal",
    "LabelSmoothing",
    "LogitsLoss",
    "Poly1",
    "ProjectionHead",
    "SquareLoss",
    "Squentropy",
    "SupCon",
    "make_baseline",
]
