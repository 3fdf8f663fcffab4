"""The feature centre c that is subtracted before normalisation: four small modules.

Shapes: B samples, D feature width.

``forward(features, valid)`` returns the centre to subtract and, in training mode only, moves it. The centre of a step comes
from earlier steps, as in Algorithm 1; the first batch serves as its own. It never carries a gradient.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from ncmi.buffers import set_buffers
from ncmi.checks import choose
from ncmi.distributed import sum_over_ranks, world_size

Start = Literal["debiased", "first_batch"]


class EMACenter(nn.Module):
    """Exponential moving average of the raw feature mean, over the whole global batch.

    A lone first sample is not its own centre (its difference would be zero): that step subtracts nothing.

    Args:
        num_features: D.
        momentum: weight m of the past in ``c ← m·c + (1−m)·mean``; 0.999 remembers about a thousand steps.
        start: ``"debiased"`` weighs all steps so far equally until the memory is full (the EMA divided by 1 − mᵗ);
            ``"first_batch"`` starts from the first batch's mean and lets it fade, as the published script does.
    """

    mean: Tensor
    weight: Tensor

    def __init__(self, num_features: int, momentum: float = 0.999, start: Start = "debiased"):
        super().__init__()
        if not 0 <= momentum < 1:
            raise ValueError(f"{type(self).__name__}: momentum must lie in [0, 1); got {momentum}.")
        choose(type(self).__name__, "start", start, ("debiased", "first_batch"))
        self.momentum = momentum
        self.start = start
        self.register_buffer("mean", torch.zeros(num_features))
        # What the weights of all past steps add up to: 0 before the first step, towards 1 after many.
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, features: Tensor, valid: Tensor | None = None) -> Tensor:
        """The centre (D,) for these features; ``valid`` (B,) marks the rows that count towards it."""
        if not self.training:
            return self.mean.to(features.dtype)
        batch_mean, count = _global_mean(features, valid)
        center = self._center(batch_mean, count)
        self._track(batch_mean.to(self.mean.dtype))
        return center

    def set_mean(self, mean: Tensor) -> None:
        """Start from a known mean (D,), as after a pass over the training set."""
        self.mean.copy_(mean)
        self.weight.fill_(1)

    def _center(self, batch_mean: Tensor, count: Tensor | int) -> Tensor:
        first = batch_mean if isinstance(count, int) and count > 1 else batch_mean * (count > 1)
        return torch.where(self.weight == 0, first, self.mean.to(batch_mean.dtype))

    def _track(self, batch_mean: Tensor) -> None:
        if self.start == "debiased":
            weight = self.weight * self.momentum + (1 - self.momentum)
            rate = (1 - self.momentum) / weight
        else:
            weight = torch.ones_like(self.weight)
            rate = torch.where(self.weight == 0, weight, 1 - self.momentum)
        set_buffers(self, weight=weight, mean=self.mean.lerp(batch_mean, rate))

    def extra_repr(self) -> str:
        """Settings for ``print(loss)``."""
        return f"{self.mean.numel()}, momentum={self.momentum}, start={self.start!r}"


class BatchCenter(EMACenter):
    """The batch's own mean in training; the moving average is kept for evaluation. A lone sample uses the average."""

    def _center(self, batch_mean: Tensor, count: Tensor | int) -> Tensor:
        mean = self.mean.to(batch_mean.dtype, copy=True)
        if isinstance(count, int):
            return batch_mean if count > 1 else mean
        return torch.where(count > 1, batch_mean, mean)


class PrintedCenter(EMACenter):
    """Algorithm 1 as printed: an average of the already centred features, from zero. It settles at half the mean."""

    def _center(self, batch_mean: Tensor, count: Tensor | int) -> Tensor:
        return self.mean.to(batch_mean.dtype, copy=True)

    def _track(self, batch_mean: Tensor) -> None:
        set_buffers(self, mean=self.mean.lerp(batch_mean - self.mean, 1 - self.momentum))


class NoCenter(nn.Module):
    """No centring, for the paper's ablation."""

    mean = None

    def set_mean(self, mean: Tensor) -> None:
        """There is no centre to set."""

    def forward(self, features: Tensor, valid: Tensor | None = None) -> None:
        """Nothing to subtract."""
        return None


CENTERS: dict[str, type[EMACenter] | type[NoCenter]] = {
    "ema": EMACenter,
    "batch": BatchCenter,
    "printed": PrintedCenter,
    "none": NoCenter,
}


def make_center(center: str | EMACenter | NoCenter, num_features: int) -> EMACenter | NoCenter:
    """The centre module that a name stands for, with its defaults; a module as it is, if it fits."""
    if isinstance(center, str):
        choose("NCMILoss", "center", center, CENTERS)
        return NoCenter() if center == "none" else CENTERS[center](num_features)
    if not isinstance(center, EMACenter | NoCenter):
        raise TypeError(
            f"NCMILoss: center must be one of {', '.join(map(repr, CENTERS))} or a module of ncmi.center, built with its "
            f"width, such as EMACenter({num_features}); got {center!r}."
        )
    if center.mean is not None and len(center.mean) != num_features:
        raise ValueError(
            f"NCMILoss: center must have num_features={num_features} numbers; got {len(center.mean)}. "
            f"Build it as {type(center).__name__}({num_features}, ...)."
        )
    return center


def _global_mean(features: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor | int]:
    """Mean of the valid rows over all ranks, and their number: sums first, never a mean of means."""
    features = features.detach()
    if valid is None and world_size() == 1:
        return features.mean(dim=0), len(features)
    if valid is None:
        total, count = features.sum(dim=0), features.new_full((1,), len(features))
    else:
        total, count = valid.to(features.dtype) @ features, valid.sum(dtype=features.dtype).reshape(1)
    total, count = sum_over_ranks(total, count)
    return total / count, count
