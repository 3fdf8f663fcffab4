"""``Outputs``: what a run's last decision said of each test sample, small enough to stay in the run folder.

A report draws its confusion matrix, calibration, distances of classes and t-SNE from it, long after the network is gone.

Shapes: N samples, n of a choice of them, C classes, D feature width.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ncmi.data.splits import stratified_subset
from ncmi.evaluation.decisions import Fitting
from ncmi.evaluation.features import LabelledFeatures
from ncmi.evaluation.fitted import checked_part, fit_decision
from ncmi.evaluation.information import class_mean_log_density, class_sums
from ncmi.evaluation.protocol import Criterion, as_module, device_of
from ncmi.evaluation.scores import check_scores
from ncmi.functional import ClassStatistics, kl_divergence
from ncmi.heads.inputs import frozen

_SAMPLE = 1000  # of the features that are kept, for t-SNE
_SAMPLE_NUMBERS = 2**21  # 4 MB in half precision
_DIVERGENCE_CLASSES = 1024  # 4 MB of divergences


@dataclass(frozen=True, eq=False)
class Outputs:
    """One decision on one part of the data, and how far the classes are from each other.

    Args:
        part: ``"test"``, or ``"validation"`` where the data have no test part.
        decision: what decides, in words.
        class_names: C names.
        targets: class indices int32 (N,).
        decisions: the class decided for, int32 (N,).
        confidences: its probability, float32 (N,).
        divergences: D(s^u‖s^v) between class means of the training part under the criterion's map, float32 (C, C); (0, 0) where
            there are more than 1,024 classes. Row and column of a class without training samples are NaN.
        sample: indices int32 (n,) of a stratified choice of the samples, at most 1,000.
        features: of that choice, float16 (n, D), divided by their largest magnitude so that none overflows.
    """

    part: str
    decision: str
    class_names: list[str]
    targets: Tensor
    decisions: Tensor
    confidences: Tensor
    divergences: Tensor
    sample: Tensor
    features: Tensor

    def to_dict(self) -> dict[str, Any]:
        """Tensors, strings and a list of strings by name: what ``tensor_files.save_checkpoint`` takes."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, record: Any) -> "Outputs":
        """The outputs that :meth:`to_dict` made this record of."""
        names = [field.name for field in fields(cls)]
        if not isinstance(record, dict) or not set(names) <= record.keys():
            raise ValueError(
                "Outputs: from_dict needs a record that to_dict made; this one does not fit. It may come from another version: "
                "evaluate again."
            )
        return cls(**{name: record[name] for name in names})


@torch.no_grad()
def outputs_of(
    criterion: Criterion, parts: Mapping[str, LabelledFeatures], decision: str, class_names: tuple[str, ...]
) -> Outputs | None:
    """What ``decision`` says of the test part, or of the validation part where there is none; ``None`` without either.

    The decision is fitted as in :func:`ncmi.evaluation.evaluate`, so its accuracy and calibration are those of the table.

    Args:
        criterion: decides, and maps features to the simplex.
        parts: features of ``"train"`` and of ``"validation"`` or ``"test"``.
        decision: by name, as ``"own"``.
        class_names: C names.

    >>> from ncmi.criteria import create_criterion
    >>> part = LabelledFeatures(torch.eye(4), torch.tensor([0, 1, 0, 1]))
    >>> outputs = outputs_of(create_criterion("ncmi", 2, 4), {"train": part, "test": part}, "class means", ("cat", "dog"))
    >>> outputs.decisions.tolist(), outputs.divergences.shape
    ([0, 1, 0, 1], torch.Size([2, 2]))
    """
    name = next((name for name in ("test", "validation") if name in parts), None)
    if name is None:
        return None
    parts = {name: checked_part(name, part, criterion) for name, part in parts.items()}
    part, device = parts[name], device_of(criterion)
    decided, confidences = [], []
    with frozen(as_module(criterion)):
        statistics = class_sums(criterion, parts["train"]).statistics
        fitted = fit_decision(decision, Fitting(criterion, parts["train"], statistics, seed=0), parts)
        for scores, targets in fitted.scored(part, device):
            check_scores("evaluate", scores, len(targets), criterion.num_classes)
            decided.append(scores.argmax(dim=1))
            confidences.append((scores.double() / fitted.temperature).softmax(dim=1).amax(dim=1))
    sample = _sample(part)
    features = part.features[sample].double()
    largest = features.abs().amax()
    return Outputs(
        part=name,
        decision=fitted.decision.source,
        class_names=list(class_names),
        targets=part.targets.cpu().int(),
        decisions=torch.cat(decided).cpu().int(),
        confidences=torch.cat(confidences).cpu().float(),
        divergences=_divergences(statistics).cpu().float(),
        sample=sample.int(),
        features=(features / torch.where(largest > 0, largest, 1.0)).half(),
    )


def _sample(part: LabelledFeatures) -> Tensor:
    most = min(len(part), _SAMPLE, max(1, _SAMPLE_NUMBERS // part.num_features))
    return stratified_subset(part.targets, most)


def _divergences(statistics: ClassStatistics) -> Tensor:
    """Divergences (C, C) of the class means from each other, a row at a time: nothing of shape C×C×D."""
    if len(statistics.counts) > _DIVERGENCE_CLASSES:
        return statistics.counts.new_zeros(0, 0)
    log_density = class_mean_log_density(statistics)
    log_probs = log_density.log_softmax(dim=1)  # ln s, from ln(D·s)
    return torch.stack([kl_divergence(row, log_probs) for row in log_probs])
