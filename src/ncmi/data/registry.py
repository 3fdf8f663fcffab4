"""Data sets by name: where they are, whether they are whole, and their parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ncmi.checks import choose
from ncmi.data.cifar import find_cifar, read_cifar
from ncmi.data.digits import digits
from ncmi.data.files import FileCheck, Found, check_files
from ncmi.data.folder import FolderSet, find_folder, read_folder
from ncmi.data.idx import FASHION_CLASSES, find_idx, find_idx_folder, read_idx
from ncmi.data.images import ImageSet
from ncmi.data.normalize import STATISTICS, Statistics, image_statistics

AnySet: TypeAlias = ImageSet | FolderSet

DATA_SETS = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100")

_PATH_KINDS = ("idx", "folder")  # of a name with a path, as folder:<path>
_OPTIONS = {
    "mnist": ("check",),
    "fashion-mnist": ("check",),
    "cifar10": ("check",),
    "cifar100": ("check", "labels"),
    "idx": ("class_names",),
}


@dataclass(frozen=True, eq=False)
class DataSplits:
    """A data set's parts as its authors divided it; validation is split off the training part by whoever trains.

    Args:
        name: as it was asked for.
        parts: the sets that are there, of ``"train"``, ``"test"`` and, for a folder with both, ``"validation"``.
        statistics: mean and standard deviation a channel, for normalisation.
        found: where the files are, and what is missing.
    """

    name: str
    parts: Mapping[str, AnySet]
    statistics: Statistics
    found: Found

    @property
    def train(self) -> AnySet:
        """The training part; a sentence if its files are missing."""
        return self._part("train")

    @property
    def test(self) -> AnySet:
        """The test part; a sentence if its files are missing."""
        return self._part("test")

    @property
    def validation(self) -> AnySet | None:
        """The validation part that came with the data, if any."""
        return self.parts.get("validation")

    @property
    def class_names(self) -> tuple[str, ...]:
        """C names; the class index is the position."""
        return next(iter(self.parts.values())).class_names

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.class_names)

    def _part(self, part: str) -> AnySet:
        if part not in self.parts:
            raise FileNotFoundError(f"{self.found} The {part} part was asked for.")
        return self.parts[part]


def load_data(name: str, data_dir: str | Path | None = None, **options: Any) -> DataSplits:
    """The parts of a data set that are there; a sentence that says what to fetch if there is none.

    Args:
        name: ``"digits"``, ``"mnist"``, ``"fashion-mnist"``, ``"cifar10"``, ``"cifar100"``, ``"idx:<path>"`` for a folder with
            files named as MNIST's, or ``"folder:<path>"`` for images by class.
        data_dir: where to look, and nowhere else; ``None`` looks in ``$NCMI_DATA``, ``./data`` and ``~/.cache/ncmi/data``.
        options: ``check=False`` skips size and checksum of official files; ``labels="coarse"`` takes CIFAR-100's 20 classes;
            ``class_names`` names those of an idx folder.

    >>> data = load_data("digits")
    >>> len(data.train), len(data.test), data.num_classes
    (1437, 360, 10)
    """
    kind, _ = _parse(name)
    for option in options:
        if kind not in _OPTIONS:
            raise ValueError(f"load_data: {kind} takes no option; got {option!r}.")
        choose("load_data", f"an option of {kind}", option, _OPTIONS[kind])
    found = find_data(name, data_dir)
    if not found.parts:
        raise FileNotFoundError(str(found))
    parts = _read(kind, found, options)
    return DataSplits(name, parts, _statistics(kind, parts), found)


def find_data(name: str, data_dir: str | Path | None = None) -> Found:
    """Where a data set is, what is missing, and how to get it; nothing is opened or verified.

    >>> print(find_data("digits"))
    digits: found.
    """
    kind, path = _parse(name)
    if kind == "digits":
        return Found(name, None, ("train", "test"), (), (), "It comes with scikit-learn.")
    if path is not None:
        return find_folder(name, path) if kind == "folder" else find_idx_folder(name, path)
    return find_cifar(name, data_dir) if kind.startswith("cifar") else find_idx(name, data_dir)


def check_data(name: str, data_dir: str | Path | None = None) -> list[FileCheck]:
    """Size and checksum of each file of an official data set that is there; an empty list for sets without checksums."""
    return check_files(find_data(name, data_dir))


def _parse(name: str) -> tuple[str, str | None]:
    prefix, colon, path = name.partition(":")
    if colon:
        kind = choose("load_data", "the prefix of a path", prefix, _PATH_KINDS)
        if not path:
            raise ValueError(f"load_data: {name!r} must name a folder after the colon, as in {kind}:/path/to/images.")
        return kind, path
    if name in _PATH_KINDS:
        raise ValueError(f"load_data: {name!r} needs the path of its folder, as in {name}:/path/to/images.")
    return choose("load_data", "name", name, DATA_SETS), None


def _read(kind: str, found: Found, options: dict[str, Any]) -> Mapping[str, AnySet]:
    if kind == "digits":
        return digits()
    if kind == "folder":
        return read_folder(found)
    if kind == "fashion-mnist":
        return read_idx(found, class_names=FASHION_CLASSES, **options)
    return read_cifar(found, **options) if kind.startswith("cifar") else read_idx(found, **options)


def _statistics(kind: str, parts: Mapping[str, AnySet]) -> Statistics:
    if kind in STATISTICS:
        return STATISTICS[kind]
    first = parts["train"] if "train" in parts else parts["test"]
    return image_statistics(first.images) if isinstance(first, ImageSet) else STATISTICS["imagenet"]
