"""Tables of slides: which patient a slide is of, and which class it has.

Columns, as CLAM and its successors write them: ``slide_id``, ``label``, and ``case_id`` for the patient; others are kept.

Shapes: N slides, C classes.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ncmi.data.bags.bag_set import first_twice, some

# What a slide's file was called before features were made of it; tables often name that file.
SLIDE_ENDINGS = (".svs", ".tif", ".tiff", ".ndpi", ".mrxs", ".scn", ".svslide", ".bif", ".vms", ".czi", ".dcm")


class SlideTable(NamedTuple):
    """Names, patients and labels of N slides as texts, and further columns by name."""

    slides: tuple[str, ...]
    patients: tuple[str, ...]
    labels: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]

    def rows(self, indices: Sequence[int]) -> "SlideTable":
        """The table of some of its slides."""
        slides, patients, labels = (tuple(column[i] for i in indices) for column in self[:3])
        return SlideTable(slides, patients, labels, {k: tuple(v[i] for i in indices) for k, v in self.columns.items()})


class Labels(NamedTuple):
    """Class indices int64 (N,) and the C names they stand for."""

    targets: Tensor
    class_names: tuple[str, ...]


def slide_name(text: str) -> str:
    """A slide's name without spaces around it and without the ending of a slide file.

    >>> slide_name(" patient_017_node_2.tif"), slide_name("TCGA-05-4250-01Z-00-DX1.90f67fdf")
    ('patient_017_node_2', 'TCGA-05-4250-01Z-00-DX1.90f67fdf')
    """
    text = text.strip()
    ending = next((ending for ending in SLIDE_ENDINGS if text.lower().endswith(ending)), "")
    return text[: len(text) - len(ending)]


def read_table(path: Path, patient_pattern: str | None = None) -> SlideTable:
    """The slides of a CSV file with the columns ``slide_id`` and ``label``.

    Args:
        path: the file.
        patient_pattern: a regular expression that finds the patient in a slide's name; without it the column ``case_id`` does.
    """
    rows = read_rows(path)
    if not rows:
        raise ValueError(f"{path}: a table of slides must have a row for each slide; it has none.")
    for column in ("slide_id", "label"):
        if column not in rows[0]:
            raise ValueError(
                f"{path}: a table of slides must have the columns slide_id and label; got {', '.join(rows[0])}. Rename "
                f"the column that is meant to be {column}."
            )
    slides = tuple(slide_name(row["slide_id"]) for row in rows)
    for number, row in enumerate(rows, start=1):
        if not row["slide_id"].strip() or not row["label"].strip():
            raise ValueError(
                f"{path}: every slide must have a name and a label; row {number} lacks one. Fill or remove it."
            )
    if twice := first_twice(slides):
        raise ValueError(
            f"{path}: each slide must be in the table once; {twice!r} is there twice. Remove one of the rows."
        )
    if patient_pattern is None and "case_id" not in rows[0]:
        raise ValueError(
            f"{path}: splits keep the slides of a patient together, so the table needs the column case_id; it has "
            f"{', '.join(rows[0])}. Add it, or pass patient_pattern, a regular expression for the patient in a slide's name "
            "(r'patient_\\d+' for CAMELYON-17, r'.+' where every slide is of another patient)."
        )
    patients = (
        tuple(row["case_id"].strip() for row in rows)
        if patient_pattern is None
        else patients_of(str(path), slides, patient_pattern)
    )
    if "" in patients:
        raise ValueError(
            f"{path}: every slide must have a patient; {slides[patients.index('')]!r} has none. Fill its case_id, or remove it."
        )
    others = [name for name in rows[0] if name not in ("", "slide_id", "label", "case_id")]
    columns = {name: tuple(row[name].strip() for row in rows) for name in others}
    return SlideTable(slides, patients, tuple(row["label"].strip() for row in rows), columns)


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file with a header, by column; a short row has empty texts at its end."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such table. Check the path.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            # A row that is longer than the header would come under the name None.
            return [
                {name: text for name, text in row.items() if isinstance(name, str)}
                for row in csv.DictReader(file, restval="")
            ]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: the table must be CSV in UTF-8; reading it failed ({error}). Save it as such."
        ) from error


def patients_of(owner: str, slides: Sequence[str], pattern: str) -> tuple[str, ...]:
    """The part of each slide's name that ``pattern`` finds: its first group, or all of it.

    >>> patients_of("example", ["patient_017_node_2"], r"patient_[0-9]+")
    ('patient_017',)
    """
    patients = []
    for slide in slides:
        match = re.search(pattern, slide)
        if match is None:
            raise ValueError(
                f"{owner}: patient_pattern must find the patient in every slide's name; {pattern!r} finds none in {slide!r}."
            )
        patients.append(match.group(1) if match.re.groups else match.group())
    return tuple(patients)


def class_indices(
    owner: str,
    labels: Sequence[str],
    class_names: Sequence[str] | None = None,
    label_map: Mapping[str, str] | None = None,
) -> Labels:
    """Class indices of label texts.

    Args:
        owner: who asks, for messages.
        labels: N texts.
        class_names: the classes in order; without it, all that occur, sorted (whole numbers by value).
        label_map: from labels to class names, where they differ or several labels are one class.

    >>> class_indices("example", ["LUSC", "LUAD"]).targets.tolist()
    [1, 0]
    >>> class_indices("example", ["3", "0"], ["benign", "atypical"], {"0": "benign", "3": "atypical"}).targets.tolist()
    [1, 0]
    """
    if label_map is not None:
        mapped = {str(label): str(name) for label, name in label_map.items()}
        if unknown := sorted(set(labels) - set(mapped)):
            raise ValueError(
                f"{owner}: label_map must name a class for every label; it has none for {some(unknown)}. It knows "
                f"{some(list(mapped))}."
            )
        labels = [mapped[label] for label in labels]
    if class_names is None:
        whole = all(re.fullmatch(r"-?\d+", label) for label in labels)
        class_names = sorted(set(labels), key=int) if whole else sorted(set(labels))
    names = tuple(class_names)
    if unknown := sorted(set(labels) - set(names)):
        raise ValueError(
            f"{owner}: every label must be one of {', '.join(map(repr, names))}; got {some(unknown)}. Correct the table, or "
            "pass label_map from its labels to the class names."
        )
    if len(names) < 2:
        raise ValueError(
            f"{owner}: a classifier needs two or more classes; all slides are {names[0] if names else 'gone'!r}."
        )
    index = {name: position for position, name in enumerate(names)}
    return Labels(torch.tensor([index[label] for label in labels], dtype=torch.int64), names)
