"""HDF5 files of features: one file a slide (CLAM, TRIDENT), or one file with a group a slide (ACMIL, AEM, ASMIL).

Arrays are read whole, because row-wise chunks make partial reads slow, and in the type they are stored in.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ncmi.data.bags.bag_set import Bag, some
from ncmi.data.bags.tables import slide_name


@contextmanager
def open_h5(path: Path) -> Iterator[Any]:
    """The open file; sentences for a missing package or file, and for a damaged one, also while it is read."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"{path}: reading it needs the package h5py: `pip install h5py`.") from error
    if not path.is_file():
        raise FileNotFoundError(f"{path}: this file of features is missing. Put it back, or check the path.")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"{path}: it cannot be read as HDF5 ({error}). It is damaged, or its copy was cut short; fetch or extract it again."
        ) from error


def read_h5_bag(path: Path) -> Bag:
    """The bag of a file with the arrays ``features`` and, possibly, ``coords``."""
    with open_h5(path) as file:
        return _bag(str(path), file, "features")


@dataclass(frozen=True)
class GroupReader:
    """A reader of one file with a group for each slide, which holds ``feat`` and, possibly, ``coords``.

    The file is opened anew for each bag, so that the reader can be copied to other processes.
    """

    path: Path
    groups: dict[str, str]

    def __call__(self, slide: str) -> Bag:
        """The bag of ``slide``."""
        with open_h5(self.path) as file:
            group = self.groups[slide]
            if group not in file:
                raise ValueError(
                    f"{self.path}: the group {group!r} has gone. The file was changed; read the set again."
                )
            return _bag(f"{self.path}: slide {group!r}", file[group], "feat")


def read_h5_groups(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Group names and labels (attribute ``label``, where there is one) by slide name."""
    with open_h5(path) as file:
        groups = {slide_name(name): name for name in file}
        if not groups:
            raise ValueError(f"{path}: the file must have a group for each slide; it is empty.")
        if arrays := [name for name in groups.values() if not hasattr(file[name], "keys")]:
            raise ValueError(
                f"{path}: the file must have a group for each slide and nothing else; {some(arrays)} are arrays. A file of "
                "one slide is read with the folder that it lies in; pass that folder, or the one above."
            )
        attributes = {slide: file[name].attrs for slide, name in groups.items()}
        return groups, {slide: _text(found["label"]) for slide, found in attributes.items() if "label" in found}


def _bag(owner: str, group: Any, features: str) -> Bag:
    if features not in group:
        raise ValueError(
            f"{owner}: it must hold the array {features!r}; it has {', '.join(map(repr, group)) or 'nothing'}. It is of "
            "another layout; extract the features again."
        )
    coordinates = _tensor(owner, "coordinates", group["coords"][()]).long() if "coords" in group else None
    return Bag(_tensor(owner, "features", group[features][()]), coordinates)


def _tensor(owner: str, what: str, array: Any) -> Tensor:
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{owner}: {what} must be real numbers; got {array.dtype}. Extract the slide again.")
    # Big-endian files have a byte order that torch does not know.
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def _text(label: Any) -> str:
    """A label as text: whole numbers without a fraction, bytes decoded."""
    value = label.item() if hasattr(label, "item") else label
    if isinstance(value, bytes):
        return value.decode()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
