"""``evaluate``: every decision on every part of the data, from features.

Shapes: N samples, B of a piece, C classes, D feature width.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ncmi.checks import choose
from ncmi.evaluation.calibration import confidence_error
from ncmi.evaluation.decisions import DECISIONS, Fitting
from ncmi.evaluation.features import LabelledFeatures
from ncmi.evaluation.fitted import checked_part, fit_decision
from ncmi.evaluation.information import class_sums, terms
from ncmi.evaluation.protocol import Criterion, as_module, device_of
from ncmi.evaluation.records import DecisionResult, Evaluation, Information, Score
from ncmi.evaluation.scores import TOP, check_scores, places
from ncmi.evaluation.slides import SlideMetrics, evaluate_slides, slide_metrics
from ncmi.heads.inputs import frozen

_METRIC_NUMBERS = 2**24  # probabilities N·C that are held for metrics by class


@torch.no_grad()
def evaluate(
    criterion: Criterion,
    train: LabelledFeatures,
    validation: LabelledFeatures | None = None,
    test: LabelledFeatures | None = None,
    *,
    decisions: Sequence[str] = tuple(DECISIONS),
    patients: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> Evaluation:
    """Accuracy, likelihood and calibration of each decision on each part, and the parts' CMI, Γ and NCMI.

    Decisions are fitted on the training features: ``"own"`` (what the criterion was trained with), ``"class means"`` (nearest
    class mean under the criterion's map), ``"fitted centroids"``, ``"linear probe"`` and ``"knn"``. How far the fitted
    centroids may leave the class means is chosen on the validation part, if there is one. Divergences become probabilities
    with a temperature fitted on the validation part, or, without one, on the training part; the note says which. Logits and
    votes need none. Nothing is communicated: under a process group call it on one rank, with gathered features.

    Args:
        criterion: decides, and maps features to the simplex; it runs in evaluation mode and gets its mode back.
        train: features of the training set, without augmentation.
        validation: features held out from training.
        test: features of the test set.
        decisions: which decisions, by name.
        patients: whom each sample comes from, by the name of the part; the test part's give intervals.
        seed: of the probe's held-out part, and of subsets of very large sets.
    """
    for name in decisions:
        choose("evaluate", "a decision", name, DECISIONS)
    given = {"train": train, "validation": validation, "test": test}
    parts = {name: checked_part(name, part, criterion) for name, part in given.items() if part is not None}
    with frozen(as_module(criterion)):
        statistics = {name: class_sums(criterion, part).statistics for name, part in parts.items()}
        fitting = Fitting(criterion, parts["train"], statistics["train"], seed, parts.get("validation"))
        rows = tuple(_decide(name, fitting, parts, patients or {}) for name in dict.fromkeys(decisions))
    information = {}
    for name, part in parts.items():
        cmi, gamma, ratio = terms(statistics[name])
        information[name] = Information(len(part), cmi, gamma, _finite(ratio))
    return Evaluation(criterion.num_classes, criterion.num_features, seed, rows, information)


def _decide(
    name: str, fitting: Fitting, parts: dict[str, LabelledFeatures], patients: Mapping[str, Sequence[str]]
) -> DecisionResult:
    start = time.perf_counter()
    fitted = fit_decision(name, fitting, parts)
    decision, device = fitted.decision, device_of(fitting.criterion)
    results = {}
    for part_name, part in parts.items():
        if part_name == "train" and decision.training_scores is not None:
            pieces = decision.training_scores()
        else:
            pieces = fitted.scored(part, device)
        people = patients.get(part_name, ()) if part_name == "test" else ()
        results[part_name] = _score(pieces, fitting.criterion.num_classes, fitted.temperature, people)
    return DecisionResult(name, decision.source, time.perf_counter() - start, fitted.note, results)


def _score(
    pieces: Iterable[tuple[Tensor, Tensor]], num_classes: int, temperature: float, patients: Sequence[str]
) -> Score:
    likelihood, place, confidence, log_probs, labels = [], [], [], [], []
    count = 0
    for scores, targets in pieces:
        check_scores("evaluate", scores, len(targets), num_classes)
        piece = (scores.double() / temperature).log_softmax(dim=1)
        likelihood.append(piece.gather(1, targets.unsqueeze(1)).squeeze(1))
        confidence.append(piece.amax(dim=1).exp())
        place.append(places(scores, targets))
        labels.append(targets)
        count += piece.numel()
        log_probs = [*log_probs, piece] if count <= _METRIC_NUMBERS else []
    ahead = torch.cat(place)
    score = Score(
        n=len(ahead),
        top1=(ahead < 1).double().mean().item(),
        top5=(ahead < TOP).double().mean().item(),
        nll=_finite(-torch.cat(likelihood).mean().item()),
        ece=confidence_error(torch.cat(confidence), ahead < 1),
    )
    if count > _METRIC_NUMBERS:
        return score
    return replace(score, **_class_metrics(torch.cat(log_probs).exp().cpu(), torch.cat(labels).cpu(), patients))


def _class_metrics(probabilities: Tensor, targets: Tensor, patients: Sequence[str]) -> dict[str, Any]:
    """Macro F1, macro AUC and balanced accuracy, with intervals if the samples come from patients."""
    names = ("macro_f1", "macro_auc", "balanced_accuracy")
    if not patients:
        metrics = slide_metrics(probabilities, targets)
        return {name: _finite(getattr(metrics, name)) for name in names}
    result = evaluate_slides(probabilities, targets, patients)
    ends = {field: (getattr(result.low, field), getattr(result.high, field)) for field in SlideMetrics._fields}
    ends["top1"] = ends.pop("micro_f1")
    intervals = {name: pair for name, pair in ends.items() if all(map(math.isfinite, pair))}
    return {name: _finite(getattr(result.metrics, name)) for name in names} | {"intervals": intervals}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
