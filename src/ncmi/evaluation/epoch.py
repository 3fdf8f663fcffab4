"""``validate``: the numbers of one pass over a data set, exact over any number of ranks.

Shapes: B samples of a batch, C classes, D feature width.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ncmi.checks import check_features, check_targets
from ncmi.distributed import sum_over_ranks
from ncmi.evaluation.features import Batches, Progress, network_features, without_ddp
from ncmi.evaluation.information import ClassSums, terms
from ncmi.evaluation.protocol import Criterion, as_module, device_of
from ncmi.evaluation.scores import TOP, check_scores, places
from ncmi.functional import ClassStatistics
from ncmi.heads.inputs import IGNORE_INDEX, frozen
from ncmi.loss import full_precision
from ncmi.metric import drop_ignored


class Validation(NamedTuple):
    r"""What one pass over a data set says; accuracies are fractions in [0, 1].

    ``loss``: mean over samples (see :func:`validate` for ratio objectives).
    ``top1``: share of samples that the criterion's own decision gets right.
    ``top5``: share whose class is among the five best; with five classes or fewer all are, and it is 1.
    ``cmi``, ``gamma``, ``ncmi``: Eqs. 5–8 of the whole set; ``ncmi`` is NaN where Γ is zero.
    ``decided_classes``: exp of the entropy of the histogram of decisions, the effective number of classes decided for: C
    when all are decided for equally often, 1 when it is always the same.
    ``shared_classes``: number of classes present minus the number of distinct classes that their mean scores decide for; 0
    when each class has a decision of its own, m − 1 for m classes that have merged. For centroid scores that is exactly the
    nearest centroid of the class mean :math:`s^y`: the mean over class y of :math:`-D(p_x\|q^v)` and
    :math:`-D(s^y\|q^v)` are both :math:`s^y\cdot\ln q^v` plus a number that does not depend on v.
    ``output_entropy``: entropy of the mean output p̄ over ln D; 1 for a uniform mean output.
    """

    loss: float
    top1: float
    top5: float
    cmi: float
    gamma: float
    ncmi: float
    decided_classes: float
    shared_classes: float
    output_entropy: float


@torch.no_grad()
def validate(network: nn.Module, criterion: Criterion, loader: Batches, progress: Progress | None = None) -> Validation:
    """Loss, accuracy, CMI, Γ, NCMI and the signs of collapse over all samples of all ranks.

    Network and criterion run in evaluation mode and get their modes back. Everything is a sum in float64 (the largest are
    C×D and C×C); the ranks add theirs once, at the end, so their numbers of steps may differ, and each rank gets the same
    result. All ranks must hold the same network: after training under DDP with BatchNorm, whose running statistics differ
    from rank to rank, call :func:`ncmi.distributed.broadcast_state` first.

    The loss is the mean over samples of what the criterion says batch by batch. For an objective that compares samples
    (``"rivals"``, ``"theorem1"``, ``"centroid"``), it depends on how the set is cut into batches, which should be of mixed
    classes; ``ncmi`` does not.

    Args:
        network: maps images to features (B, D).
        criterion: decides, and maps features to the simplex.
        loader: a loader of ``ncmi.data`` that goes through the set in order; samples labelled −100 are left out.
        progress: called after each batch with the steps done and their number.
    """
    device = device_of(criterion, network)
    network, sums = without_ddp(network), _Sums(criterion, device)
    with frozen(network), frozen(as_module(criterion)):
        for step, batch in enumerate(loader, start=1):
            features = network_features("validate", network, batch.images).to(device)
            targets = batch.targets.to(device)
            check_features("validate", features, criterion.num_features)
            check_targets("validate", targets, len(features), criterion.num_classes, IGNORE_INDEX)
            # Autocast, if any, was for the network: scores of half precision would decide by their rounding.
            with full_precision(features):
                sums.add(*drop_ignored(features, targets, IGNORE_INDEX))
            if progress is not None:
                progress(step, len(loader))
    return sums.over_ranks()


class _Sums:
    """Everything that a pass adds up, all float64."""

    def __init__(self, criterion: Criterion, device: torch.device):
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        num_classes = criterion.num_classes
        self.criterion = criterion
        self.scalars = zeros(4)  # samples, loss, right decisions, right among the top five
        self.decided = zeros(num_classes)
        self.scores = zeros(num_classes, num_classes)
        self.classes = ClassSums(num_classes, criterion.num_features, device)

    def add(self, features: Tensor, targets: Tensor) -> None:
        count, num_classes = len(targets), self.criterion.num_classes
        if not count:
            return
        loss = self.criterion(features, targets)
        if loss.ndim:
            raise ValueError(
                f"validate: the criterion must return one number, the mean loss of the batch; got shape "
                f"{tuple(loss.shape)}. Use reduction='mean'."
            )
        scores = self.criterion.scores(features).double()
        check_scores("validate", scores, count, num_classes)
        place = places(scores, targets)
        self.scalars += torch.stack(
            [self.scalars.new_tensor(count), loss.double() * count, (place < 1).sum(), (place < TOP).sum()]
        )
        self.decided += scores.argmax(dim=1).bincount(minlength=num_classes)
        self.scores.index_add_(0, targets, scores)
        self.classes.add(self.criterion.points(features.double()), targets)

    def over_ranks(self) -> Validation:
        scalars, decided, scores, *statistics = sum_over_ranks(
            self.scalars, self.decided, self.scores, *self.classes.statistics
        )
        statistics = ClassStatistics(*statistics)
        count, loss, top1, top5 = scalars.tolist()
        if not count:
            raise ValueError(
                "validate: the loader gave no labelled sample on any rank. Pass a loader with samples in it."
            )
        present = statistics.counts > 0
        # The sum decides as the mean does: each row has one positive count.
        distinct = len(scores[present].argmax(dim=1).unique())
        output = statistics.prob_sum.sum(dim=0) / count
        return Validation(
            loss / count,
            top1 / count,
            top5 / count,
            *terms(statistics),
            decided_classes=math.exp(_entropy(decided / count)),
            shared_classes=float(int(present.sum()) - distinct),
            output_entropy=_entropy(output) / math.log(len(output)),
        )


def _entropy(probs: Tensor) -> float:
    """Entropy in nats; an entry of zero adds nothing."""
    return -torch.special.xlogy(probs, probs).sum().item()
