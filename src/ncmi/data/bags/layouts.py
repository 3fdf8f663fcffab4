"""Layouts of bags on disk: what a folder or file is, and a reader for the bags in it.

``clam``     a folder with ``h5_files/<slide>.h5`` (features, coords) or ``pt_files/<slide>.pt`` (the features alone)
``trident``  a job's folder, one of its folders of patches, or ``features_<encoder>`` in it, with ``<slide>.h5``
``acmil``    one HDF5 file with a group for each slide (feat, coords, attribute label), or a folder with that file alone
``npz``      one file of a classic set: ``x`` (instances, F), ``bag`` (instances,) and ``y`` (bags,)
"""

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from torch import Tensor

from ncmi.data.bags.bag_set import Bag, BagReader, HeldBags, check_bag
from ncmi.data.bags.h5_files import GroupReader, read_h5_bag, read_h5_groups
from ncmi.data.bags.tables import SlideTable, slide_name
from ncmi.tensor_files import read_tensors

LAYOUTS = ("clam", "trident", "acmil", "npz")


@dataclass(frozen=True)
class Source:
    """The bags of a folder or file.

    Args:
        reader: from a slide's name to its bag.
        slides: names of the bags that are there.
        root: the folder in which a table and splits are looked for.
        labels: of the slides, where the files hold them.
        table: all about the slides, where the files hold it.
    """

    reader: BagReader
    slides: tuple[str, ...]
    root: Path
    labels: Mapping[str, str] | None = None
    table: SlideTable | None = None


@dataclass(frozen=True)
class FileReader:
    """A reader of folders with one file a slide: ``.h5``, or ``.pt`` with the tensor of features alone."""

    paths: Mapping[str, Path]

    def __call__(self, slide: str) -> Bag:
        """The bag of ``slide``."""
        path = self.paths[slide]
        if path.suffix == ".h5":
            return read_h5_bag(path)
        content = read_tensors(path, str(path))
        if not isinstance(content, Tensor):
            raise ValueError(
                f"{path}: it must hold the tensor of features alone; got {type(content).__name__}. Save that tensor with "
                "torch.save."
            )
        return Bag(content, None)


def layout_of(path: Path) -> str | None:
    """The layout of a folder or file by what is in it; ``None`` if it is none of them."""
    if path.is_file():
        return {".npz": "npz", ".h5": "acmil", ".hdf5": "acmil"}.get(path.suffix)
    if (path / "h5_files").is_dir() or (path / "pt_files").is_dir():
        return "clam"
    if _feature_folders(path):
        return "trident"
    return "acmil" if len(list(path.glob("*.h5"))) == 1 else None


def open_source(layout: str, path: Path, files: str | None = None, encoder: str | None = None) -> Source:
    """The bags of ``path`` in one of :data:`LAYOUTS`; ``files`` is for CLAM and ``encoder`` for TRIDENT."""
    if not path.exists():
        raise FileNotFoundError(f"load_bags: {path} does not exist. Check the path.")
    if layout == "clam":
        return clam_source(path, files)
    if layout == "trident":
        return trident_source(path, encoder)
    return acmil_source(path) if layout == "acmil" else npz_source(path)


def clam_source(folder: Path, files: str | None = None) -> Source:
    """The bags of CLAM's folder; ``files`` is ``"h5_files"`` or ``"pt_files"``, the former if both are there."""
    there = [name for name in ("h5_files", "pt_files") if (folder / name).is_dir()]
    if not there or (files is not None and files not in there):
        raise FileNotFoundError(
            f"load_bags: {folder} must have the folder {files or 'h5_files or pt_files'} with one file a slide; it has "
            f"{' and '.join(there) or 'neither'}."
        )
    chosen = files or there[0]
    return _folder_source(folder / chosen, ".h5" if chosen == "h5_files" else ".pt", folder)


def trident_source(folder: Path, encoder: str | None = None) -> Source:
    """The bags that TRIDENT extracted with one encoder, at one magnification."""
    found = _feature_folders(folder)
    chosen = [path for path in found if encoder is None or path.name == f"features_{encoder}"]
    if len(chosen) != 1:
        names = ", ".join(str(path) for path in found) or "none"
        raise ValueError(
            f"load_bags: {folder} must have one folder of features"
            f"{'' if encoder is None else f' by the encoder {encoder!r}'}; it has {names}. Pass encoder, or the path of one "
            "of these folders."
        )
    return _folder_source(chosen[0], ".h5", folder)


def acmil_source(path: Path) -> Source:
    """The bags of one HDF5 file, or of the only one in a folder, with a group for each slide."""
    root = path
    if path.is_dir():
        files = sorted(path.glob("*.h5"))
        if len(files) != 1:
            raise ValueError(
                f"load_bags: {path} must have one .h5 file; it has {len(files)}. Pass the file's own path."
            )
        path = files[0]
    else:
        root = path.parent
    groups, labels = read_h5_groups(path)
    return Source(GroupReader(path, groups), tuple(groups), root, labels if len(labels) == len(groups) else None)


def npz_source(path: Path) -> Source:
    """The bags of a classic set, in memory; each bag is its own patient, since these sets have none."""
    try:
        # Opened here, because numpy leaves the file open where it fails.
        with path.open("rb") as stream, numpy.load(stream) as file:
            missing = [name for name in ("x", "bag", "y") if name not in file]
            if missing:
                raise ValueError(f"it has no array {missing[0]!r}")
            features, owners, targets = (torch.from_numpy(file[name]) for name in ("x", "bag", "y"))
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path}: it must be an npz file with x, bag and y; reading it failed ({error}). Fetch or save it again."
        ) from error
    owners = owners.long()
    if features.ndim != 2 or owners.shape != features.shape[:1] or targets.ndim != 1:
        shapes = ", ".join(str(tuple(array.shape)) for array in (features, owners, targets))
        raise ValueError(
            f"{path}: x, bag and y must have shapes (instances, F), (instances,) and (bags,); got {shapes}."
        )
    if len(owners) and not 0 <= int(owners.min()) <= int(owners.max()) < len(targets):
        raise ValueError(
            f"{path}: bag must hold numbers in [0, {len(targets) - 1}], since y has {len(targets)} bags; got "
            f"{int(owners.min())} … {int(owners.max())}."
        )
    sizes = torch.bincount(owners, minlength=len(targets)).tolist()
    parts = features[owners.argsort(stable=True)].split(sizes)
    # Of equal width, so that sorted names are in the order of the bags.
    slides = tuple(f"bag_{index:0{len(str(len(targets)))}d}" for index in range(len(targets)))
    bags = {slide: Bag(part, None) for slide, part in zip(slides, parts, strict=True)}
    for slide, bag in bags.items():
        check_bag(f"{path}: {slide}", bag)
    labels = [int(target) for target in targets]
    words = ("negative", "positive")
    named = [words[label] if set(labels) <= {0, 1} else str(label) for label in labels]
    return Source(HeldBags(bags), slides, path.parent, table=SlideTable(slides, slides, tuple(named), {}))


def _folder_source(folder: Path, ending: str, root: Path) -> Source:
    paths = {slide_name(path.stem): path for path in sorted(folder.glob(f"*{ending}"))}
    if not paths:
        raise FileNotFoundError(f"load_bags: {folder} must hold one file a slide, <slide>{ending}; it has none.")
    return Source(FileReader(paths), tuple(paths), root)


def _feature_folders(folder: Path) -> list[Path]:
    """TRIDENT's folders of patch features at, in or one below ``folder``; vectors of whole slides lie in others."""
    if folder.name.startswith("features_"):
        return [folder]
    return [path for path in sorted((*folder.glob("features_*"), *folder.glob("*/features_*"))) if path.is_dir()]
