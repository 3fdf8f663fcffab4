"""What divergences are good for beside a decision: samples from elsewhere, wrong labels, classes that are alike."""

from ncmi.information.classes import ClassMap, class_map
from ncmi.information.labels import Suspects, find_suspects
from ncmi.information.novelty import Novelty, measure_novelty
from ncmi.information.trained import Trained, open_run

__all__ = [
    "ClassMap",
    "Novelty",
    "Suspects",
    "Trained",
    "class_map",
    "find_suspects",
    "measure_novelty",
    "open_run",
]
