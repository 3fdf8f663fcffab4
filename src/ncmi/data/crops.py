"""From a decoded image of any size to a square of bytes: at random for training, from the centre for evaluation.

Shapes: output uint8 (3, size, size).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ncmi.data.keyed import sample_uniforms

if TYPE_CHECKING:
    from PIL.Image import Image

_TRIES = 10  # as torchvision's RandomResizedCrop
_FLIP = 4 * _TRIES  # the draw after those of the tries


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of the image, resized to a square and mirrored half the time (Szegedy et al. 2015); picklable.

    What an image gets is a function of (seed, epoch, sample index) alone. Ten tries are made to fit a part of the drawn
    area and shape into the image; then the largest centred part of an allowed shape is taken.

    Args:
        size: height and width of the result; 224 in the paper's ImageNet recipe.
        scale: smallest and largest share of the image's area.
        ratio: smallest and largest width / height.
        flip: mirror left and right with probability 1/2.
    """

    size: int = 224
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True

    def __post_init__(self) -> None:
        _check_size("RandomResizedCrop", self.size)
        for name, (low, high) in {"scale": self.scale, "ratio": self.ratio}.items():
            if not 0 < low <= high:
                raise ValueError(f"RandomResizedCrop: {name} must be two positive rising numbers; got ({low}, {high}).")

    def __call__(self, image: "Image", index: int, epoch: int, seed: int) -> Tensor:
        """A crop of ``image``, which is sample ``index`` of its set."""
        draws = sample_uniforms(index, _FLIP + 1, seed=seed, epoch=epoch)
        left, upper, width, height = self.box(*image.size, draws)
        part = image.crop((left, upper, left + width, upper + height))
        return _tensor(_resized(part, self.size), mirrored=self.flip and draws[_FLIP] < 0.5)

    def box(self, width: int, height: int, draws: tuple[float, ...]) -> tuple[int, int, int, int]:
        """Left, upper, width and height of the part that is taken."""
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for first in range(0, 4 * _TRIES, 4):
            share, shape, across, down = draws[first : first + 4]
            area = width * height * (self.scale[0] + share * (self.scale[1] - self.scale[0]))
            ratio = math.exp(low + shape * (high - low))
            part_width, part_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < part_width <= width and 0 < part_height <= height:
                left, upper = int(across * (width - part_width + 1)), int(down * (height - part_height + 1))
                return left, upper, part_width, part_height
        part_width = min(width, max(round(height * self.ratio[1]), 1))
        part_height = min(height, max(round(width / self.ratio[0]), 1))
        return (width - part_width) // 2, (height - part_height) // 2, part_width, part_height


@dataclass(frozen=True)
class CenterCrop:
    """The centre of the image after its shorter side was resized; picklable.

    Args:
        size: height and width of the result; 280 in the paper's ImageNet recipe, more than in training, because random crops
            make objects look larger than central ones (Touvron et al. 2019).
        resize: length of the shorter side before the crop; ``None`` stands for size / 0.875, as is usual (256 for 224).
    """

    size: int = 280
    resize: int | None = None

    def __post_init__(self) -> None:
        _check_size("CenterCrop", self.size)
        if self.resize is not None and self.resize < self.size:
            raise ValueError(
                f"CenterCrop: resize must be at least size={self.size}, or the crop would leave the image; got {self.resize}."
            )

    def __call__(self, image: "Image", index: int = 0, epoch: int = 0, seed: int = 0) -> Tensor:
        """The centre of ``image``; the other arguments are there for :class:`RandomResizedCrop`'s sake."""
        width, height = image.size
        # What is cut off later is not computed; its pixels still count where the filter reaches over the edge.
        part = min(width, height) * self.size / (self.resize or round(self.size / 0.875))
        left, upper = (width - part) / 2, (height - part) / 2
        return _tensor(_resized(image, self.size, (left, upper, left + part, upper + part)))


def _resized(image: "Image", size: int, box: tuple[float, float, float, float] | None = None) -> "Image":
    from PIL.Image import Resampling

    return image.resize((size, size), Resampling.BILINEAR, box=box)


def _tensor(image: "Image", mirrored: bool = False) -> Tensor:
    from PIL.Image import Transpose

    image = image.transpose(Transpose.FLIP_LEFT_RIGHT) if mirrored else image
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return pixels.view(image.height, image.width, 3).permute(2, 0, 1).contiguous()


def _check_size(owner: str, size: int) -> None:
    if size < 1:
        raise ValueError(f"{owner}: size must be a positive number of pixels; got {size}.")
