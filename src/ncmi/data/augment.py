"""``Augment``: pad-crop, flip and rotation of a whole batch, on the device, from bytes to normalised numbers.

Shapes: B images of (channels, H, W); p pixels of padding on each side.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ncmi.checks import choose
from ncmi.data.keyed import integers, random_bits
from ncmi.data.normalize import check_statistics, normalize_

Padding = Literal["zero", "reflect"]

_ROW, _COLUMN, _FLIP, _ANGLE, _DRAWS = 0, 1, 2, 3, 4
_ANGLES = 4096  # steps from −rotation to +rotation; a table makes the sines equal on all devices


@dataclass(frozen=True)
class Augment:
    """Randomly shifted, mirrored and rotated images as normalised float32; picklable.

    What a sample gets is a function of (seed, epoch, sample index) alone. Without rotation pixels are only moved, so the
    result is exact; with rotation all three are one bilinear resampling of the original image.

    Args:
        mean: of each channel, for pixels in [0, 1].
        std: of each channel, likewise.
        crop: p, by which the image is padded on each side before a crop of its own size: a shift by up to ±p pixels. 4 is
            the usual value for CIFAR.
        flip: mirror left and right with probability 1/2.
        rotation: largest angle in degrees, uniform in ±rotation; 15 in the NCMI paper's CIFAR-100 recipe, 0 turns it off.
        padding: ``"zero"`` (black before normalisation, as usual) or ``"reflect"``.

    >>> augment = Augment(mean=(0.5,), std=(0.5,), crop=2, rotation=15)
    >>> images, indices = torch.randint(256, (4, 1, 8, 8), dtype=torch.uint8), torch.arange(4)
    >>> batch = augment(images, indices, epoch=3, seed=0)
    >>> torch.equal(batch[2:3], augment(images[2:3], indices[2:3], epoch=3, seed=0))
    True
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: int = 4
    flip: bool = True
    rotation: float = 0.0
    padding: Padding = "zero"

    def __post_init__(self) -> None:
        check_statistics("Augment", self.mean, self.std)
        choose("Augment", "padding", self.padding, ("zero", "reflect"))
        if self.crop < 0 or self.crop != int(self.crop):
            raise ValueError(f"Augment: crop must be a whole number of pixels, 0 or more; got {self.crop}.")
        if not 0 <= self.rotation <= 180:
            raise ValueError(f"Augment: rotation must lie in [0, 180] degrees; got {self.rotation}.")

    def __call__(self, images: Tensor, indices: Tensor, epoch: int, seed: int) -> Tensor:
        """Float images (B, channels, H, W) of uint8 images with the given sample indices (B,)."""
        height, width = images.shape[2:]
        if self.padding == "reflect" and self.crop >= min(height, width):
            raise ValueError(
                f"Augment: reflection can pad by less than the image's size; got crop={self.crop} for {height}×{width}. "
                "Lower crop, or pass padding='zero'."
            )
        bits = random_bits(indices.to(images.device), _DRAWS, seed=seed, epoch=epoch)
        rows, columns = integers(bits[:, _ROW], 2 * self.crop + 1), integers(bits[:, _COLUMN], 2 * self.crop + 1)
        mirrored = integers(bits[:, _FLIP], 2) * int(self.flip)
        if self.rotation:
            turn = _turns(self.rotation, images.device)[integers(bits[:, _ANGLE], _ANGLES)]
            pixels = self._resample(images, rows, columns, mirrored, turn)
        else:
            pixels = self._move(images, rows, columns, mirrored).to(torch.float32)
        return normalize_(pixels, self.mean, self.std)

    def _move(self, images: Tensor, rows: Tensor, columns: Tensor, mirrored: Tensor) -> Tensor:
        """The crop of each padded image that starts at (row, column), mirrored where asked; bytes in, bytes out."""
        if not self.crop and not self.flip:
            return images
        batch, channels, height, width = images.shape
        down = torch.arange(height, device=images.device) + rows.unsqueeze(1)
        along = torch.arange(width, device=images.device)
        # A mirrored crop reads its columns from the right.
        along = torch.where(mirrored.unsqueeze(1) == 1, along.flip(0), along) + columns.unsqueeze(1)
        if self.padding == "zero":
            source = F.pad(images, (self.crop,) * 4)
        else:
            source, down, along = images, _reflected(down - self.crop, height), _reflected(along - self.crop, width)
        flat = (down * source.shape[3]).unsqueeze(2) + along.unsqueeze(1)
        flat = flat.view(batch, 1, height * width).expand(-1, channels, -1)
        return source.flatten(2).gather(2, flat).view(images.shape)

    def _resample(self, images: Tensor, rows: Tensor, columns: Tensor, mirrored: Tensor, turn: Tensor) -> Tensor:
        """Crop, mirror, then rotation about the crop's centre, as one bilinear look-up in the original image."""
        height, width = images.shape[2:]
        cosine, sine = turn.unbind(dim=1)
        sign = 1 - 2 * mirrored.to(turn.dtype)
        # grid_sample counts from −1 to 1 between the centres of the outer pixels; a size of one pixel has one centre.
        across, down = 2 / max(width - 1, 1), 2 / max(height - 1, 1)
        x = _centred(width, images.device)
        y = _centred(height, images.device)
        # Products and sums one at a time: a sample's grid is then the same bits in every batch. Written in place, because at
        # this size new memory costs more than the arithmetic.
        grid = turn.new_empty(len(images), height, width, 2)
        shift_x, shift_y = ((offset - self.crop).to(turn.dtype) for offset in (columns, rows))
        _plane(sign * cosine * across, x, sign * sine * across, y, shift_x * across, out=grid[..., 0])
        _plane(-sine * down, x, cosine * down, y, shift_y * down, out=grid[..., 1])
        mode = "zeros" if self.padding == "zero" else "reflection"
        return F.grid_sample(images.to(torch.float32), grid, padding_mode=mode, align_corners=True)


@cache
def _turns(rotation: float, device: torch.device) -> Tensor:
    """Cosine and sine (4096, 2) of equally spaced angles in ±rotation degrees, each in the middle of its step."""
    angles = [math.radians(rotation * ((2 * step + 1) / _ANGLES - 1)) for step in range(_ANGLES)]
    return torch.tensor([(math.cos(angle), math.sin(angle)) for angle in angles], dtype=torch.float32, device=device)


def _reflected(position: Tensor, size: int) -> Tensor:
    """Positions in [0, size) that a mirror on the outer pixels shows at ``position``."""
    return (size - 1) - ((size - 1) - position.abs()).abs()


def _centred(size: int, device: torch.device) -> Tensor:
    """Pixel positions relative to the middle."""
    return torch.arange(size, device=device, dtype=torch.float32) - (size - 1) / 2


def _plane(along_x: Tensor, x: Tensor, along_y: Tensor, y: Tensor, shift: Tensor, out: Tensor) -> None:
    """Sets ``out`` (B, H, W) to along_x · x + along_y · y + shift."""
    line = along_x.unsqueeze(1) * x + shift.unsqueeze(1)
    torch.add(line.unsqueeze(1), (along_y.unsqueeze(1) * y).unsqueeze(2), out=out)
