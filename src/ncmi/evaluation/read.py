"""``read_features``: features and labels from a file that anyone could have written.

Shapes: N samples, D feature width.
"""

import csv
import math
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ncmi.evaluation.features import LabelledFeatures
from ncmi.tensor_files import read_tensors

_TARGETS = "targets"


def read_features(path: str | Path, features_key: str = "features", targets_key: str = _TARGETS) -> LabelledFeatures:
    """Features (N, D) and labels (N,) of a ``.npz``, ``.safetensors``, ``.pt``, ``.pth`` or ``.csv`` file.

    Labels are whole numbers, or (``.npz``, ``.csv``) names, which are numbered in sorted order and kept as ``class_names``.
    Only tensors, arrays and text are read; no file can run code.

    Args:
        path: the file.
        features_key: name of the features in it. A ``.csv`` needs none: there every column but the label is a feature.
        targets_key: name of the labels in it; in a ``.csv`` the name of the label's column, for which its first line must
            hold names. Where no column is called ``"targets"``, that default stands for the last column.
    """
    path = Path(path)
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        ".npz": _read_npz,
        ".safetensors": _read_tensors,
        ".pt": _read_tensors,
        ".pth": _read_tensors,
    }
    kind = path.suffix.lower()
    if kind != ".csv" and kind not in readers:
        raise ValueError(
            f"read_features: {path} must end in {', '.join(readers)} or .csv, which says how to read it; got {kind!r}. "
            "Save the arrays as .npz, for one."
        )
    if not path.is_file():
        raise FileNotFoundError(f"read_features: there is no file {path}. Check the path.")
    if kind == ".csv":
        return _read_csv(path, targets_key)
    arrays = readers[kind](path)
    features = _entry(path, arrays, features_key, "features_key")
    targets = _entry(path, arrays, targets_key, "targets_key")
    return _labelled(path, _as_tensor(path, "features", features), _labels(path, targets))


def _read_npz(path: Path) -> dict[str, Any]:
    import numpy

    try:
        with numpy.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise _unreadable(path, "an .npz file of plain arrays (numpy.savez; no object arrays)", error) from error


def _read_tensors(path: Path) -> dict[str, Any]:
    record = read_tensors(path, f"read_features: {path}")
    if not isinstance(record, dict):
        raise ValueError(
            f"read_features: {path} must hold a dict with features and labels by name; got {type(record).__name__}. "
            "Save it with torch.save({'features': features, 'targets': targets}, path)."
        )
    return record


def _unreadable(path: Path, what: str, error: Exception) -> ValueError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return ValueError(f"read_features: {path} must be {what}; it cannot be read as one ({reason}). Write it again.")


def _entry(path: Path, arrays: dict[str, Any], name: str, argument: str) -> Any:
    if name not in arrays:
        present = ", ".join(repr(key) for key in arrays) or "nothing"
        raise ValueError(
            f"read_features: {path} has no {name!r}; it holds {present}. Pass the right name as {argument}."
        )
    return arrays[name]


def _as_tensor(path: Path, what: str, array: Any) -> Tensor:
    """A tensor of what a file held."""
    try:
        return torch.as_tensor(array)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"read_features: {what} in {path} must be an array of numbers; got {type(array).__name__} of "
            f"{getattr(array, 'dtype', 'no one type')}. Save an array or a tensor."
        ) from error


def _labels(path: Path, labels: Any) -> tuple[Tensor, tuple[str, ...]]:
    """Class indices (N,) and, for labels that are names, the names."""
    if getattr(getattr(labels, "dtype", None), "kind", "") == "U":
        return _from_names([str(label) for label in labels.reshape(-1)])
    targets = _as_tensor(path, "labels", labels)
    if targets.is_complex():
        raise _not_whole(path, "row 0", "a complex number")
    if targets.is_floating_point():
        wrong = (targets != targets.round()) | ~targets.isfinite()
        if bool(wrong.any()):
            row = int(wrong.reshape(-1).nonzero()[0])
            raise _not_whole(path, f"row {row}", targets.reshape(-1)[row].item())
    return targets.long(), ()


def _not_whole(path: Path, where: str, value: object) -> ValueError:
    return ValueError(
        f"read_features: labels in {path} must be whole numbers, one class each; got {value} at {where}. Another array or "
        "column may be the label: name it with targets_key."
    )


def _from_names(labels: list[str]) -> tuple[Tensor, tuple[str, ...]]:
    names = tuple(sorted(set(labels)))
    index = {name: position for position, name in enumerate(names)}
    return torch.tensor([index[label] for label in labels], dtype=torch.int64), names


def _labelled(path: Path, features: Tensor, labels: tuple[Tensor, tuple[str, ...]]) -> LabelledFeatures:
    targets, names = labels
    if features.is_complex() or features.ndim != 2:
        raise ValueError(
            f"read_features: features in {path} must be real numbers of shape (N, D), one row a sample; got {features.dtype} "
            f"of shape {tuple(features.shape)}. Pool or flatten them before saving."
        )
    if targets.ndim != 1 or len(targets) != len(features):
        raise ValueError(
            f"read_features: {path} must hold one label for each row of features; got features {tuple(features.shape)} and "
            f"labels {tuple(targets.shape)}. For one-hot rows save their argmax."
        )
    if not len(features):
        raise ValueError(f"read_features: {path} holds no sample. Write at least one row.")
    features = features.to(torch.promote_types(features.dtype, torch.float32))
    bad = (~features.isfinite()).any(dim=1)
    if bool(bad.any()):
        raise ValueError(
            f"read_features: features in {path} must be finite; {int(bad.sum())} of {len(bad)} rows hold NaN or infinity "
            f"(first at row {int(bad.nonzero()[0])}). Leave those rows out."
        )
    return LabelledFeatures(features.contiguous(), targets, names)


def _read_csv(path: Path, targets_key: str) -> LabelledFeatures:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [cell.strip() for cell in line]) for line in reader if any(map(str.strip, line))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, "comma-separated text in UTF-8", error) from error
    if not lines:
        raise ValueError(f"read_features: {path} holds no sample. Write at least one row.")
    first = lines[0][1]
    # Names of columns are no numbers; a first row of samples has numbers in every column but the label's.
    names = first if not any(map(_is_number, first)) else None
    lines = lines[1:] if names else lines
    width = len(first)
    column = _label_column(path, names, targets_key, width)
    if width < 2:
        raise ValueError(
            f"read_features: {path} must have a label and at least one feature in each line, between commas; got "
            f"{first[0]!r} in its first line."
        )
    rows, labels = [], []
    for number, cells in lines:
        if len(cells) != width:
            raise ValueError(
                f"read_features: every line of {path} must have {width} cells, as the first one has; line {number} has "
                f"{len(cells)}."
            )
        labels.append(cells.pop(column))
        rows.append(_numbers(path, number, cells))
    features = torch.tensor(rows, dtype=torch.float64).reshape(len(rows), width - 1).float()
    return _labelled(path, features, _csv_labels(path, labels, [number for number, _ in lines]))


def _label_column(path: Path, names: list[str] | None, targets_key: str, width: int) -> int:
    if targets_key == _TARGETS and (names is None or targets_key not in names):
        return width - 1
    if names is None:
        raise ValueError(
            f"read_features: {path} has no line with column names, so {targets_key!r} cannot be found. Add one, or put the "
            "label last and leave targets_key out."
        )
    if targets_key not in names:
        present = ", ".join(map(repr, names))
        raise ValueError(f"read_features: {path} has no column {targets_key!r}; it holds {present}. Pass one of them.")
    return names.index(targets_key)


def _csv_labels(path: Path, labels: list[str], numbers: Iterable[int]) -> tuple[Tensor, tuple[str, ...]]:
    if not all(map(_is_number, labels)):
        return _from_names(labels)
    for number, label in zip(numbers, labels, strict=True):
        if not math.isfinite(float(label)) or float(label) != round(float(label)):
            raise _not_whole(path, f"line {number}", label)
    return torch.tensor([round(float(label)) for label in labels], dtype=torch.int64), ()


def _numbers(path: Path, number: int, cells: list[str]) -> list[float]:
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        wrong = next(cell for cell in cells if not _is_number(cell))
        raise ValueError(
            f"read_features: every column of {path} but the label must be a number; line {number} has {wrong!r}. Remove "
            "such columns, or name the label's column with targets_key."
        ) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
