"""Files as inputs of a model: pixels of images, features of slides.

Shapes: N instances of a bag, F width of an instance.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ncmi.data.crops import CenterCrop
from ncmi.data.folder import ENDINGS, decode, images_below
from ncmi.export.description import Description

if TYPE_CHECKING:
    from PIL.Image import Image

_H5 = (".h5", ".hdf5")
_GREY = ("1", "L", "LA")


def find_files(paths: Sequence[str | Path], description: Description) -> list[Path]:
    """Files to predict: those named, and in folders all that the model takes, in order of their names."""
    takes_images = description.takes == "images"
    endings = ENDINGS if takes_images else _H5
    kind = "images" if takes_images else "slide features (HDF5)"
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            below = sorted(images_below(path, path) if takes_images else _h5_below(path))
            if not below:
                raise ValueError(
                    f"{path} holds no file that this model takes ({', '.join(endings)}). Name another folder."
                )
            found += [path / name for name in below]
        elif not path.exists():
            raise FileNotFoundError(f"{path} is neither a file nor a folder. Check the path.")
        elif not path.name.lower().endswith(endings):
            raise ValueError(f"{path}: this model takes {kind}, {', '.join(endings)}. Name such a file.")
        else:
            found.append(path)
    return found


def read_input(path: Path, description: Description) -> Tensor:
    """What the model takes of a file: uint8 (channels, height, width) of an image, float32 (N, F) of a slide."""
    if description.takes == "bag":
        return _read_bag(path, description.shape[0])
    channels, height, width = description.shape
    image = decode(path) if channels == 3 else _grey(path)
    if description.crop == "center":
        return CenterCrop(height)(image)
    if image.size != (width, height):
        raise ValueError(
            f"{path}: the image has {image.width} × {image.height} pixels, and the model, trained on {description.data}, takes "
            f"{width} × {height}. Resize it first, as the training images were."
        )
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return pixels.view(height, width, channels).permute(2, 0, 1).contiguous()


def _grey(path: Path) -> "Image":
    image = decode(path, "as it is")
    if image.mode not in _GREY:
        raise ValueError(
            f"{path}: the image has colours or more than 8 bits (mode {image.mode} of Pillow), and the model takes grey images "
            "of one byte a pixel. Convert it first."
        )
    return image.convert("L")


def _read_bag(path: Path, in_features: int) -> Tensor:
    from ncmi.data.bags.h5_files import read_h5_bag

    instances = read_h5_bag(path).instances
    if instances.ndim != 2 or not len(instances) or instances.shape[1] != in_features:
        raise ValueError(
            f"{path}: the features must have shape (N, {in_features}) with at least one patch; got {tuple(instances.shape)}. "
            "Take the extractor that the run's features came from."
        )
    return instances.to(torch.float32)


def _h5_below(folder: Path) -> list[str]:
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in files if path.name.lower().endswith(_H5) and not path.name.startswith(".")]
