"""How much each sample counts: class weights, class priors, ignored and soft labels.

Shapes: B samples, C classes.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ncmi.checks import choose
from ncmi.distributed import sum_over_ranks, world_size


class WeightedTargets(NamedTuple):
    """Labels ready for the objectives.

    ``targets``: class indices (B,), ignored ones replaced by 0; or soft labels (B, C) with the weights multiplied in.
    ``weight`` (B,): weight of each hard-labelled sample, ``None`` if all are one.
    ``valid`` (B,): False for ignored samples, ``None`` if there are none.
    ``total`` (): what a mean divides by, over the whole global batch.
    """

    targets: Tensor
    weight: Tensor | None
    valid: Tensor | None
    total: Tensor | int


class Weighting(nn.Module):
    """Turns the user's targets into :class:`WeightedTargets`.

    Args:
        num_classes: C.
        weight: weight (C,) of each class, as in ``nn.CrossEntropyLoss``.
        prior: ``"batch"`` takes classes as they come; ``"uniform"`` or class probabilities (C,), scaled to sum to
            one, reweight each sample by π_y·B/n_y, so that the classes present count as if they had been drawn with that prior.
        ignore_index: samples with this label count nothing and do not move the centre.
        owner: the loss that messages speak for.
    """

    weight: Tensor | None
    prior: Tensor | None

    def __init__(
        self,
        num_classes: int,
        weight: Tensor | None = None,
        prior: Literal["batch", "uniform"] | Tensor = "batch",
        ignore_index: int = -100,
        owner: str = "NCMILoss",
    ):
        super().__init__()
        self.owner = owner
        if isinstance(prior, str):
            choose(owner, "prior", prior, ("batch", "uniform"))
            class_prior = torch.ones(num_classes) if prior == "uniform" else None
        else:
            class_prior = prior
        if weight is not None and class_prior is not None:
            raise ValueError(f"{owner}: give weight or prior, not both: a prior replaces the weight of every class.")
        self.ignore_index = ignore_index
        self.register_buffer("weight", class_vector(owner, "weight", weight, num_classes))
        self.register_buffer("prior", class_vector(owner, "prior", class_prior, num_classes))
        if self.prior is not None and not bool(self.prior.sum() > 0):
            raise ValueError(f"{owner}: prior must give some class a positive probability; all are zero.")

    def class_prior(self, dtype: torch.dtype) -> Tensor | None:
        """Class probabilities (C,) that sum to one in ``dtype``, or ``None`` for the batch's own."""
        if self.prior is None:
            return None
        prior = self.prior.to(dtype)
        return prior / prior.sum()

    def forward(self, targets: Tensor, dtype: torch.dtype, may_ignore: bool = True) -> WeightedTargets:
        """Weights for a batch of checked targets, in the number type of the loss.

        ``may_ignore=False`` promises that no label is ignored, so that the common batch needs no weights.
        """
        soft = targets.is_floating_point()
        result = self._soft(targets.to(dtype)) if soft else self._hard(targets.long(), dtype, may_ignore)
        if not torch.compiler.is_compiling() and not result.total > 0:
            raise ValueError(
                f"{self.owner}: the batch has no sample with a positive weight ({len(targets)} samples, "
                f"ignore_index={self.ignore_index}). Skip such a batch."
            )
        return result

    def _hard(self, targets: Tensor, dtype: torch.dtype, may_ignore: bool) -> WeightedTargets:
        valid = weight = None
        if may_ignore:
            valid = targets != self.ignore_index
            targets = torch.where(valid, targets, 0)
            weight = valid.to(dtype)
        if self.weight is not None:
            own = self.weight.to(dtype).index_select(0, targets)
            weight = own if weight is None else own * weight
        elif self.prior is not None:
            ones = torch.ones_like(targets, dtype=dtype) if weight is None else weight
            count = torch.zeros_like(self.prior, dtype=dtype).index_add(0, targets, ones)
            own = self._prior_factor(count, dtype).index_select(0, targets)
            weight = own if weight is None else own * weight
        total = self._num_samples(targets, dtype) if weight is None else self._over_ranks(weight.sum())
        return WeightedTargets(targets, weight, valid, total)

    def _soft(self, targets: Tensor) -> WeightedTargets:
        # nn.CrossEntropyLoss divides soft-labelled losses by the batch size even when classes have weights.
        total = self._num_samples(targets, targets.dtype)
        if self.weight is not None:
            targets = targets * self.weight.to(targets.dtype)
        elif self.prior is not None:
            targets = targets * self._prior_factor(targets.sum(dim=0), targets.dtype)
            total = self._over_ranks(targets.sum())
        return WeightedTargets(targets, None, None, total)

    def _prior_factor(self, count: Tensor, dtype: torch.dtype) -> Tensor:
        """π_y·B/n_y over the global batch, 0 for absent classes."""
        prior = self.class_prior(dtype)
        assert prior is not None
        count = self._over_ranks(count)
        return torch.where(count > 0, prior * count.sum() / count, 0.0)

    def _over_ranks(self, tensor: Tensor) -> Tensor:
        return sum_over_ranks(tensor)[0] if self.training else tensor

    def _num_samples(self, targets: Tensor, dtype: torch.dtype) -> Tensor | int:
        if not self.training or world_size() == 1:
            return len(targets)
        return self._over_ranks(torch.full((), len(targets), dtype=dtype, device=targets.device))

    def extra_repr(self) -> str:
        """Settings for ``print(loss)``."""
        kind = "class weights" if self.weight is not None else "class prior" if self.prior is not None else "batch"
        return f"{kind}, ignore_index={self.ignore_index}"


def class_vector(owner: str, what: str, values: Tensor | None, num_classes: int) -> Tensor | None:
    """A copy of ``values`` (C,) as floats, if they are finite and not negative; ``None`` stays ``None``."""
    if values is None:
        return None
    values = torch.as_tensor(values)
    values = values.clone() if values.is_floating_point() else values.float()
    if values.shape != (num_classes,):
        raise ValueError(
            f"{owner}: {what} must have shape ({num_classes},), one number a class; got {tuple(values.shape)}."
        )
    if not bool((values >= 0).all() & values.isfinite().all()):
        raise ValueError(
            f"{owner}: {what} must be finite and not negative; got a smallest value of {float(values.min())}."
        )
    return values
