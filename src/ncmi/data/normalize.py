"""From bytes to numbers around zero: mean and standard deviation of each channel.

Shapes: B images of (channels, height, width).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Statistics(NamedTuple):
    """Mean and standard deviation of each channel, for pixels scaled to [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


# Over all pixels of the training set, to four digits (a test compares them with the data); ImageNet's are the values that
# published weights were trained with.
STATISTICS = {
    "digits": Statistics((0.3059,), (0.3762,)),
    "mnist": Statistics((0.1307,), (0.3081,)),
    "fashion-mnist": Statistics((0.2860,), (0.3530,)),
    "cifar10": Statistics((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": Statistics((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "imagenet": Statistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


def image_statistics(images: Tensor, chunk: int = 4096) -> Statistics:
    """Mean and standard deviation of each channel of uint8 images (N, channels, height, width), in exact integer sums.

    >>> image_statistics(torch.tensor([0, 255], dtype=torch.uint8).view(1, 1, 1, 2))
    Statistics(mean=(0.5,), std=(0.5,))
    """
    total = square = torch.zeros(images.shape[1], dtype=torch.int64, device=images.device)
    for part in images.split(chunk):
        values = part.to(torch.int64)
        total, square = total + values.sum(dim=(0, 2, 3)), square + values.square().sum(dim=(0, 2, 3))
    count = images.numel() // images.shape[1]
    mean = total.double() / count
    std = (square.double() / count - mean.square()).clamp_min(0).sqrt()
    return Statistics(tuple((mean / 255).tolist()), tuple((std / 255).tolist()))


@dataclass(frozen=True)
class Normalize:
    """Images as float32 with mean 0 and standard deviation 1 a channel; what evaluation uses.

    Takes the arguments of :class:`ncmi.data.Augment` and leaves all but the images unused, so that either can stand in a
    loader.

    Args:
        mean: of each channel, for pixels in [0, 1].
        std: of each channel, likewise.

    >>> Normalize(mean=(0.5,), std=(0.5,))(torch.tensor([0, 255], dtype=torch.uint8).view(1, 1, 1, 2)).flatten().tolist()
    [-1.0, 1.0]
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        check_statistics("Normalize", self.mean, self.std)

    def __call__(self, images: Tensor, indices: Tensor | None = None, epoch: int = 0, seed: int = 0) -> Tensor:
        """Float images (B, channels, height, width) of uint8 images."""
        return normalize_(images.to(torch.float32), self.mean, self.std)


def normalize_(pixels: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """``pixels`` (B, channels, height, width) in [0, 255], changed in place to (pixels / 255 − mean) / std."""
    if pixels.shape[1] != len(mean):
        raise ValueError(
            f"Normalize: images have {pixels.shape[1]} channels, but mean and std are given for {len(mean)}. Pass "
            "one number a channel."
        )
    scale = pixels.new_tensor([1 / (255 * value) for value in std]).view(-1, 1, 1)
    shift = pixels.new_tensor([-m / s for m, s in zip(mean, std, strict=True)]).view(-1, 1, 1)
    return pixels.mul_(scale).add_(shift)


def check_statistics(owner: str, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """As many means as deviations, and positive deviations."""
    if not mean or len(mean) != len(std):
        raise ValueError(f"{owner}: mean and std must hold one number a channel; got {len(mean)} and {len(std)}.")
    if not all(value > 0 for value in std):
        raise ValueError(
            f"{owner}: std must be positive; got {std}. A channel that never changes has std 0: pass 1.0 for it."
        )
