"""Splits of a set of bags into training, validation and test part; no patient is in two of them.

Shapes: N bags.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ncmi.checks import choose
from ncmi.data.bags.bag_set import BagSet, first_twice, some
from ncmi.data.bags.patients import assign_patients
from ncmi.data.bags.tables import read_rows, slide_name
from ncmi.data.splits import Split

_PARTS = {"train": "train", "val": "validation", "test": "test"}  # CLAM's and BRACS's names, and ours


class BagSplit(NamedTuple):
    """Indices of the bags in each part, in rising order."""

    train: Tensor
    validation: Tensor
    test: Tensor


def clam_split(bags: BagSet, fold: int, folder: str | Path | None = None, *, by_patient: bool = True) -> BagSplit:
    """The split of CLAM's file ``splits_<fold>.csv``, with its columns train, val and test.

    Bags that the file does not name are in no part.

    Args:
        bags: the set.
        fold: k of ``splits_k.csv``.
        folder: where the file is; ``None`` is the folder ``splits`` of the set.
        by_patient: refuse a file that has a patient in two parts; ``False`` is for published splits made by slide.
    """
    if folder is None and bags.root is None:
        raise ValueError(f"clam_split: {bags.name} has no folder of its own; pass folder, where splits_{fold}.csv is.")
    path = (Path(folder).expanduser() if folder is not None else Path(str(bags.root)) / "splits") / f"splits_{fold}.csv"
    if not path.is_file():
        raise FileNotFoundError(
            f"clam_split: {path} is missing. Pass the folder that holds splits_{fold}.csv, or use patient_folds."
        )
    rows = read_rows(path)
    position = {slide: index for index, slide in enumerate(bags.slides)}
    parts: dict[str, list[int]] = {}
    for column, part in _PARTS.items():
        if rows and column not in rows[0]:
            raise ValueError(f"clam_split: {path} must have the columns train, val and test; it has no {column!r}.")
        names = [slide_name(row[column]) for row in rows if row[column].strip()]
        if twice := first_twice(names):
            raise ValueError(f"clam_split: {path} names slide {twice!r} twice in {column}. Remove one of the two.")
        if unknown := [name for name in names if name not in position and name not in bags.left_out]:
            raise ValueError(
                f"clam_split: {path} must name slides of {bags.name}; in {column} {some(unknown)} are none. The split "
                "belongs to another set, or the table lacks these slides."
            )
        parts[part] = [position[name] for name in names if name in position]
    return _split(f"clam_split: {path}", bags, parts, by_patient)


def patient_folds(bags: BagSet, num_folds: int = 10, seed: int = 0) -> tuple[BagSplit, ...]:
    """K splits, stratified by class and grouped by patient: test is fold k, validation fold k + 1, training the others.

    Every bag is in exactly one test part. 10 folds, as CLAM has, give 80, 10 and 10 %.

    Args:
        bags: the set.
        num_folds: K, at least 3.
        seed: another seed makes other folds.
    """
    people = len(set(bags.patients))
    if not 3 <= num_folds <= people:
        raise ValueError(
            f"patient_folds: num_folds must lie in [3, {people}], since three parts need a fold each and {bags.name} has "
            f"{people} patients; got {num_folds}."
        )
    folds = assign_patients(bags.patients, bags.targets, (1,) * num_folds, seed)
    splits = []
    for fold in range(num_folds):
        test, validation = folds == fold, folds == (fold + 1) % num_folds
        splits.append(BagSplit(_where(~(test | validation)), _where(validation), _where(test)))
        _check_trained("patient_folds", bags, splits[-1].train)
    return tuple(splits)


def split_off_patients(bags: BagSet, held_out: float, seed: int = 0) -> Split:
    """Indices kept and held out: about ``held_out`` of the bags of each class, whole patients only.

    Args:
        bags: the set.
        held_out: a fraction in (0, 1).
        seed: another seed holds out other patients.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"split_off_patients: held_out must be a fraction in (0, 1); got {held_out}.")
    share = Fraction(held_out).limit_denominator(1000)
    if not 0 < share < 1:
        raise ValueError(f"split_off_patients: held_out must lie in [0.001, 0.999]; got {held_out}.")
    kept, given = share.denominator - share.numerator, share.numerator
    parts = assign_patients(bags.patients, bags.targets, (kept, given), seed)
    split = Split(_where(parts == 0), _where(parts == 1))
    if not len(split.held_out):
        raise ValueError(
            f"split_off_patients: {held_out} of {bags.name} is less than one of its {len(set(bags.patients))} patients. "
            "Raise held_out."
        )
    _check_trained("split_off_patients", bags, split.kept)
    return split


def camelyon17_split(
    bags: BagSet, seed: int = 0, *, validation: float = 0.1, test_centers: Sequence[str | int] = (3, 4)
) -> BagSplit:
    """CAMELYON-17 by centre: centres 3 and 4 are the test part, a tenth of the others, by patient, is for validation.

    AEM and ASMIL draw the validation part by slide, so that it shares patients with the training part; here it does not.

    Args:
        bags: the set, with the column ``center`` in its table, or slides named ``patient_<number>``, 20 patients a centre.
        seed: of the validation part.
        validation: its fraction.
        test_centers: centres of the test part.
    """
    centers = bags.columns["center"] if "center" in bags.columns else tuple(_center(bags, p) for p in bags.patients)
    chosen = [str(center) for center in test_centers]
    test = torch.tensor([center in chosen for center in centers])
    if bool(test.all()) or not bool(test.any()):
        raise ValueError(
            f"camelyon17_split: some centres must be for the test and some for training; {bags.name} has "
            f"{some(sorted(set(centers)))}, and test_centers are {some(chosen)}."
        )
    rest = _where(~test)
    kept, held_out = split_off_patients(bags.subset(rest), validation, seed)
    split = BagSplit(rest[kept], rest[held_out], _where(test))
    check_split("camelyon17_split", bags, split)
    return split


def bracs_split(bags: BagSet) -> BagSplit:
    """The official split of BRACS, from the column ``split_info`` of its table: 395, 65 and 87 slides."""
    if "split_info" not in bags.columns:
        raise ValueError(
            f"bracs_split: the table of {bags.name} must have the column split_info with train, val or test; it has "
            f"{some(sorted(bags.columns)) or 'no further column'}."
        )
    parts: dict[str, list[int]] = {part: [] for part in _PARTS.values()}
    for index, text in enumerate(bags.columns["split_info"]):
        parts[_PARTS[choose("bracs_split", f"split_info of {bags.slides[index]}", text, _PARTS)]].append(index)
    return _split("bracs_split", bags, parts, by_patient=True)


def check_split(owner: str, bags: BagSet, split: BagSplit, by_patient: bool = True) -> None:
    """No slide in two parts and, unless ``by_patient`` is ``False``, no patient either; a training part that is not empty."""
    if not len(split.train):
        raise ValueError(f"{owner}: the training part must not be empty.")
    for what, names in (("slide", bags.slides), ("patient", bags.patients))[: 1 + by_patient]:
        part_of: dict[str, str] = {}
        for part, indices in zip(BagSplit._fields, split, strict=True):
            for index in indices.tolist():
                other = part_of.setdefault(names[index], part)
                if other != part:
                    remedy = "" if what == "slide" else " For a published split made by slide, pass by_patient=False."
                    raise ValueError(
                        f"{owner}: no {what} may be in two parts of a split, because the test would then be of what was "
                        f"trained on; {names[index]!r} is in {other} and in {part}. Correct the split.{remedy}"
                    )


def _split(owner: str, bags: BagSet, parts: Mapping[str, list[int]], by_patient: bool) -> BagSplit:
    tensors = {part: torch.tensor(sorted(indices), dtype=torch.int64) for part, indices in parts.items()}
    split = BagSplit(**tensors)
    check_split(owner, bags, split, by_patient)
    return split


def _check_trained(owner: str, bags: BagSet, train: Tensor) -> None:
    """Every class that the set has must be in the training part."""
    lost = sorted(set(bags.targets.tolist()) - set(bags.targets[train].tolist()))
    if lost:
        names = some([bags.class_names[index] for index in lost])
        raise ValueError(
            f"{owner}: the training part must have bags of every class; it lacks {names}, which has too few patients to be in "
            "every part. Use fewer or smaller parts, or another seed."
        )


def _center(bags: BagSet, patient: str) -> str:
    digits = "".join(filter(str.isdigit, patient))
    if not digits or int(digits) >= 100:
        raise ValueError(
            f"camelyon17_split: {bags.name} has neither the column center nor patients numbered 000 to 099; got {patient!r}. "
            "Add the column to its table."
        )
    return str(int(digits) // 20)


def _where(mask: Tensor) -> Tensor:
    return mask.nonzero().flatten()
