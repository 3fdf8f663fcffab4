"""Numbers for slides: macro F1, micro F1, macro AUC and balanced accuracy, with intervals over patients.

Micro F1 is the accuracy; many published "F1" of whole slides are that, so it stands beside macro F1 under its own name.

Shapes: N slides, C classes, P patients, R resamples.
"""

import math
import statistics
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc, multiclass_f1_score, multiclass_recall

from ncmi.data.keyed import integers, random_bits
from ncmi.evaluation.scores import check_probabilities

_BOOTSTRAP = 3  # a stream of its own beside those of ncmi.data.keyed
_CHUNK = 2**22  # numbers of a (resamples, slides) matrix: 32 MB in float64


class SlideMetrics(NamedTuple):
    """Four numbers in [0, 1].

    ``macro_f1``: mean F1 of the classes that occur, as a label or as a decision.
    ``micro_f1``: F1 of all decisions together, which is the accuracy.
    ``macro_auc``: mean one-versus-rest AUC of the classes that occur as a label; NaN where only one does.
    ``balanced_accuracy``: mean recall of the classes that occur as a label.
    """

    macro_f1: float
    micro_f1: float
    macro_auc: float
    balanced_accuracy: float


class SlideEvaluation(NamedTuple):
    """The metrics of a test part with a bootstrap interval over patients.

    ``absent_classes``: classes without a slide, over which AUC and balanced accuracy do not average.
    ``low`` and ``high``: ends of the interval of each metric; NaN where the metric is defined in no resample.
    """

    num_slides: int
    num_patients: int
    absent_classes: tuple[int, ...]
    metrics: SlideMetrics
    low: SlideMetrics
    high: SlideMetrics
    resamples: int


class SplitSummary(NamedTuple):
    """Mean and standard deviation (n − 1 in the denominator; NaN for one split) of the metrics of ``n`` splits or seeds."""

    n: int
    mean: SlideMetrics
    sd: SlideMetrics


def slide_metrics(probabilities: Tensor, targets: Tensor) -> SlideMetrics:
    """Macro F1, micro F1, macro AUC over present classes, and balanced accuracy.

    Args:
        probabilities: (N, C), rows that sum to one; of scores, their softmax. The decision is the largest, the lower class
            among equals.
        targets: class indices (N,).

    >>> metrics = slide_metrics(torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]), torch.tensor([0, 0, 1]))
    >>> [round(value, 3) for value in metrics]
    [0.4, 0.667, 0.5, 0.5]
    """
    probabilities, targets = _checked("slide_metrics", probabilities, targets)
    num_classes = probabilities.shape[1]
    decisions = probabilities.argmax(dim=1)
    sizes = torch.bincount(targets, minlength=num_classes)
    # The macro recall of torchmetrics also averages over classes that were decided for but do not occur.
    recall = multiclass_recall(decisions, targets, num_classes, average="none").double()
    # One class at a time, because multiclass_auroc counts an absent class as zero. Above 1, even by a rounding, torchmetrics
    # would take probabilities for logits.
    aucs = [
        float(binary_auroc(probabilities[:, label].clamp_max(1.0), (targets == label).long()))
        for label in range(num_classes)
        if 0 < sizes[label] < len(targets)
    ]
    return SlideMetrics(
        macro_f1=float(multiclass_f1_score(decisions, targets, num_classes, average="macro")),
        micro_f1=float(multiclass_f1_score(decisions, targets, num_classes, average="micro")),
        macro_auc=statistics.fmean(aucs) if aucs else math.nan,
        balanced_accuracy=float(recall[sizes > 0].mean()),
    )


def evaluate_slides(
    probabilities: Tensor,
    targets: Tensor,
    patients: Sequence[Hashable],
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> SlideEvaluation:
    """The metrics with percentile intervals of a bootstrap over patients.

    A resample draws P of the P patients with replacement and takes all slides of each, because slides of one patient are not
    independent. A metric that a resample does not define (the AUC of one class) is left out of its interval.

    Args:
        probabilities: (N, C), as in :func:`slide_metrics`.
        targets: class indices (N,).
        patients: of each slide, N names or numbers.
        resamples: R, at least 1000; 2000 is usual for percentiles.
        level: of the interval.
        seed: of the resamples, which are the same on every machine.

    >>> probabilities = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]])
    >>> result = evaluate_slides(probabilities, torch.tensor([0, 0, 1, 1]), ["p", "p", "q", "r"])
    >>> result.num_patients, round(result.metrics.macro_auc, 3), result.low.micro_f1, result.high.micro_f1
    (3, 0.75, 0.0, 1.0)
    """
    if resamples < 1000:
        raise ValueError(
            f"evaluate_slides: resamples must be at least 1000 for a percentile interval; got {resamples}."
        )
    if not 0 < level < 1:
        raise ValueError(f"evaluate_slides: level must lie in (0, 1); got {level}. 0.95 is usual.")
    probabilities, targets = _checked("evaluate_slides", probabilities, targets)
    if len(patients) != len(targets):
        raise ValueError(f"evaluate_slides: patients must name one a slide, {len(targets)}; got {len(patients)}.")
    people = {patient: index for index, patient in enumerate(dict.fromkeys(patients))}
    owners = torch.tensor([people[patient] for patient in patients])
    parts = [
        weighted_metrics(probabilities, targets, weights)
        for weights in _resampled_weights(owners, len(people), resamples, seed)
    ]
    ends = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = torch.cat(parts).nanquantile(ends, dim=0).tolist()
    sizes = torch.bincount(targets, minlength=probabilities.shape[1])
    return SlideEvaluation(
        num_slides=len(targets),
        num_patients=len(people),
        absent_classes=tuple((sizes == 0).nonzero().flatten().tolist()),
        metrics=slide_metrics(probabilities, targets),
        low=SlideMetrics(*low),
        high=SlideMetrics(*high),
        resamples=resamples,
    )


def over_splits(results: Sequence[SlideMetrics]) -> SplitSummary:
    """Mean and standard deviation of several splits or seeds.

    >>> summary = over_splits([SlideMetrics(0.5, 0.6, 0.7, 0.5), SlideMetrics(0.7, 0.6, 0.9, 0.7)])
    >>> summary.n, round(summary.mean.macro_auc, 3), round(summary.sd.macro_auc, 3)
    (2, 0.8, 0.141)
    """
    if not results:
        raise ValueError("over_splits: results must hold the metrics of at least one split; it is empty.")
    columns = list(zip(*results, strict=True))
    sds = [statistics.stdev(column) if len(column) > 1 else math.nan for column in columns]
    return SplitSummary(len(results), SlideMetrics(*map(statistics.fmean, columns)), SlideMetrics(*sds))


def weighted_metrics(probabilities: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """The four metrics (R, 4) in float64 when slide i counts ``weights[r, i]`` times, for R sets of weights (R, N).

    Those of :func:`slide_metrics` on repeated slides, without repeating them.
    """
    labels = torch.nn.functional.one_hot(targets, probabilities.shape[1]).double()
    decided = torch.nn.functional.one_hot(probabilities.argmax(dim=1), probabilities.shape[1]).double()
    positives, chosen, right = weights @ labels, weights @ decided, weights @ (labels * decided)
    total = weights.sum(dim=1)
    present = positives > 0
    # 0/0 where a class neither occurs nor is decided for: NaN, which nanmean leaves out.
    f1 = 2 * right / (positives + chosen)
    aucs = [_weighted_auc(column, label, weights) for column, label in zip(probabilities.T, labels.T, strict=True)]
    columns = (
        f1.nanmean(dim=1),
        right.sum(dim=1) / total,
        torch.stack(aucs, dim=1).nanmean(dim=1),
        torch.where(present, right / positives, torch.nan).nanmean(dim=1),
    )
    return torch.stack(columns, dim=1)


def _weighted_auc(scores: Tensor, positive: Tensor, weights: Tensor) -> Tensor:
    """AUC (R,): the chance that a positive slide stands above a negative one, ties half; NaN without one of the two."""
    levels, rank = scores.unique(return_inverse=True)

    def by_level(own: Tensor) -> Tensor:
        return weights.new_zeros(len(weights), len(levels)).index_add_(1, rank, weights * own)

    above, below = by_level(positive), by_level(1 - positive)
    beaten = below.cumsum(dim=1) - below / 2
    return (above * beaten).sum(dim=1) / (above.sum(dim=1) * below.sum(dim=1))


def _resampled_weights(owners: Tensor, num_patients: int, resamples: int, seed: int) -> Iterator[Tensor]:
    """How often each slide (N,) is in each resample, in pieces of (at most R, N)."""
    step = max(1, _CHUNK // len(owners))
    for start in range(0, resamples, step):
        rows = torch.arange(start, min(start + step, resamples))
        drawn = integers(random_bits(rows, num_patients, seed=seed, purpose=_BOOTSTRAP), num_patients)
        times = torch.zeros(len(rows), num_patients, dtype=torch.float64)
        times.scatter_add_(1, drawn, torch.ones_like(times))
        yield times[:, owners]


def _checked(owner: str, probabilities: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities in float64 and class indices, on the CPU: these are a few hundred numbers."""
    check_probabilities(owner, probabilities, targets)
    return probabilities.detach().double().cpu(), targets.long().cpu()
