"""``FolderSet``: images on disk, one folder a class, decoded when they are asked for.

Layout, as ImageNet's: ``root/train/<class>/*.jpg`` and ``root/val/<class>/*.jpg`` or ``root/test/<class>/*.jpg``.

Shapes: N images, C classes.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from ncmi.data.files import Found

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True, eq=False)
class FolderSet:
    """Paths and classes of images on disk; the counterpart of :class:`ncmi.data.ImageSet` for sets that do not fit memory.

    Args:
        paths: N files, relative to ``root``.
        targets: class indices int64 (N,).
        class_names: C names, the folders in alphabetical order.
        name: what to call the set in messages.
        root: the folder that holds the class folders.
    """

    paths: tuple[str, ...]
    targets: Tensor
    class_names: tuple[str, ...]
    name: str
    root: Path

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.class_names)

    def subset(self, indices: Tensor) -> "FolderSet":
        """The images at ``indices`` (n,), in that order; they are numbered from 0 again."""
        return replace(self, paths=tuple(self.paths[i] for i in indices.tolist()), targets=self.targets[indices])

    def decode(self, index: int) -> "Image":
        """Image ``index`` in RGB, as PIL has it. The camera's orientation tag is left unused, as is usual for ImageNet."""
        return decode(self.root / self.paths[index])


def decode(path: Path, mode: Literal["RGB", "as it is"] = "RGB") -> "Image":
    """The image of a file in RGB, or in the mode it is stored in; a file that cannot be read is named."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "folder: reading image files needs Pillow, which is not installed. Install Pillow."
        ) from error
    try:
        with Image.open(path) as image:
            if mode == "as it is":
                image.load()
                return image
            # PIL warns of a palette with transparency unless it goes through RGBA.
            return (image.convert("RGBA") if "transparency" in image.info else image).convert("RGB")
    except Exception as error:  # a damaged file can fail anywhere in a decoder, in any way
        raise ValueError(
            f"folder: {path} cannot be read as an image ({error}). It is damaged or of another format; replace or remove it."
        ) from error


def find_folder(name: str, root: str | Path) -> Found:
    """Which parts a folder of images has; ``name`` is for messages."""
    root = Path(root).expanduser()
    train, test = (root / "train").is_dir(), (root / "val").is_dir() or (root / "test").is_dir()
    missing = (*(() if train else ("train",)), *(() if test else ("val (or test)",)))
    parts = (*(("train",) if train else ()), *(("test",) if test else ()))
    remedy = "It needs the folders train and val (or test), each with one folder of images a class."
    return Found(name, root if root.is_dir() else None, parts, missing, (root,), remedy)


def read_folder(found: Found) -> dict[str, FolderSet]:
    """The parts that :func:`find_folder` found.

    With only one of the folders ``val`` and ``test``, that one is the part ``"test"``; with both, ``val`` is ``"validation"``.
    """
    assert found.folder is not None
    sets: dict[str, FolderSet] = {}
    for name in ("train", "test", "val"):
        if (found.folder / name).is_dir():
            part = name if name != "val" else "validation" if "test" in sets else "test"
            sets[part] = scan(found.folder / name, found.folder.name)
    first, *others = sets.values()
    if first.num_classes < 2:
        raise ValueError(
            f"folder: {first.root} has the one class {first.class_names[0]!r}; a classifier needs two or more. Sort the images "
            "into one folder a class."
        )
    for other in others:
        _check_same_classes(first, other)
    return sets


def scan(folder: Path, name: str) -> FolderSet:
    """All images below the class folders of ``folder``, sorted by class and path."""
    class_names = sorted(
        entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")
    )
    if not class_names:
        raise ValueError(
            f"folder: {folder} must have one folder a class; it has none. Move the images into folders that are named "
            "after their class."
        )
    paths, targets = [], []
    for target, class_name in enumerate(class_names):
        images = sorted(images_below(folder / class_name, folder))
        if not images:
            raise ValueError(
                f"folder: {folder / class_name} holds no image ({', '.join(ENDINGS)}). Fill or remove the folder of this class."
            )
        paths += images
        targets += [target] * len(images)
    return FolderSet(tuple(paths), torch.tensor(targets), tuple(class_names), name, folder)


def images_below(folder: Path, root: Path) -> list[str]:
    """Paths of all images in ``folder`` and the folders in it, relative to ``root``; hidden files are left out."""
    found = []
    for here, _, names in os.walk(folder, followlinks=True):
        relative = os.path.relpath(here, root)
        found += [
            os.path.join(relative, name)
            for name in names
            if name.lower().endswith(ENDINGS) and not name.startswith(".")
        ]
    return found


def _check_same_classes(train: FolderSet, other: FolderSet) -> None:
    only_train = sorted(set(train.class_names) - set(other.class_names))
    only_other = sorted(set(other.class_names) - set(train.class_names))
    if only_train or only_other:
        raise ValueError(
            f"folder: {train.root} and {other.root} must have the same classes; only the first has {_some(only_train)}, only "
            f"the second {_some(only_other)}. Rename or move the folders."
        )


def _some(names: list[str]) -> str:
    return (", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")) or "none"
