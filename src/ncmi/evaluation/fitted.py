"""``FittedDecision``: a way to decide with the temperature that makes probabilities of its scores.

Shapes: N samples, B of a piece, C classes.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from ncmi.data.splits import stratified_subset
from ncmi.evaluation.decisions import DECISIONS, Decision, Fitting
from ncmi.evaluation.features import LabelledFeatures
from ncmi.evaluation.information import CHUNK
from ncmi.evaluation.protocol import Criterion, device_of
from ncmi.evaluation.temperature import fit_temperature
from ncmi.heads.inputs import labelled

_TEMPERATURE_NUMBERS = 2**26  # scores N·C that a temperature is fitted on


class FittedDecision(NamedTuple):
    """``decision`` with its ``temperature``: the softmax of scores / temperature are probabilities; ``note`` for readers."""

    decision: Decision
    temperature: float
    note: str

    def scored(self, part: LabelledFeatures, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        """Scores (B, C) and classes (B,) of a part, piece by piece: N·C numbers may not fit in memory."""
        for features, targets in part.chunks(CHUNK):
            yield self.decision.scores(features.to(device)), targets.to(device)


def checked_part(name: str, part: LabelledFeatures, criterion: Criterion) -> LabelledFeatures:
    """A part of the data without its unlabelled samples; a sentence if it does not fit the criterion."""
    owner = f"evaluate, {name} part"
    features, targets = labelled(owner, part.features, part.targets, criterion.num_features, criterion.num_classes)
    return LabelledFeatures(features, targets)


def fit_decision(name: str, fitting: Fitting, parts: Mapping[str, LabelledFeatures]) -> FittedDecision:
    """A decision by name, fitted on the training features; its temperature on the validation part, or without one on train."""
    decision = DECISIONS[name](fitting)
    notes = [decision.note] if decision.note else []
    fitted = FittedDecision(decision, 1.0, "; ".join(notes))
    if not decision.needs_temperature:
        return fitted
    fitted_on = "validation" if "validation" in parts else "train"
    temperature, note = _temperature(fitted, parts[fitted_on], fitting)
    notes.append(f"temperature fitted on the {fitted_on} part{note}")
    return FittedDecision(decision, temperature, "; ".join(notes))


def _temperature(fitted: FittedDecision, part: LabelledFeatures, fitting: Fitting) -> tuple[float, str]:
    """The temperature of the decision's scores, and what is to be said of it."""
    notes = []
    most = max(1, _TEMPERATURE_NUMBERS // fitting.criterion.num_classes)
    if len(part) > most:
        notes.append(f" ({most} of {len(part)} samples)")
        part = part.rows(stratified_subset(part.targets, most, fitting.seed))
    scores, targets = zip(*fitted.scored(part, device_of(fitting.criterion)), strict=True)
    temperature, problem = fit_temperature(torch.cat(scores), torch.cat(targets))
    if problem:
        notes.append(f", where {problem}")
    return temperature, "".join(notes)
