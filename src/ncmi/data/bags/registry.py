"""``load_bags``: sets of bags by name or path, where they are, and what is missing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncmi.checks import choose
from ncmi.data.bags.bag_set import BagSet, check_bag, some
from ncmi.data.bags.layouts import LAYOUTS, Source, layout_of, open_source
from ncmi.data.bags.tables import SlideTable, class_indices, patients_of, read_table
from ncmi.data.files import data_places

TABLE = "dataset.csv"

_LAYOUT_REMEDY = (
    f"Put features in one of the layouts {', '.join(LAYOUTS)} there, with the table {TABLE} (slide_id, label, "
)
_BRACS_TYPES = ("N", "PB", "UDH", "FEA", "ADH", "DCIS", "IC")
_BRACS_GROUPS = ("benign",) * 3 + ("atypical",) * 2 + ("malignant",) * 2
_STAGES = ("negative", "itc", "micro", "macro")


@dataclass(frozen=True)
class KnownBags:
    """A set with a name of its own: where it lies in a data folder, and how its labels and patients are to be read.

    Args:
        path: folder or file, relative to a data folder.
        remedy: what to do if it is not there.
        class_names: in order.
        label_map: from the labels of its tables to class names.
        patient_pattern: finds the patient in a slide's name, where the published tables do not have it right.
        made_up_coordinates: it was published without the places of its instances, and a grid stands in for them.
    """

    path: str
    remedy: str
    class_names: tuple[str, ...]
    label_map: Mapping[str, str] | None = None
    patient_pattern: str | None = None
    made_up_coordinates: bool = False


def _numbered(labels: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """From each label, and from its position, to a class name."""
    return {**dict(zip(labels, names, strict=True)), **{str(i): name for i, name in enumerate(names)}}


def _tcga(path: str, class_names: tuple[str, ...]) -> KnownBags:
    remedy = f"Put CLAM's folder h5_files and {TABLE} (case_id, slide_id, label) there."
    return KnownBags(path, remedy, class_names, made_up_coordinates=True)


def _classic(file: str) -> KnownBags:
    remedy = "Put an npz file with x (instances, F), bag (instances,) and y (bags,) there."
    return KnownBags(f"mil/{file}.npz", remedy, ("negative", "positive"))


_KNOWN = {
    "tcga-lung": _tcga("tcga_lung", ("LUAD", "LUSC")),
    "tcga-brca": _tcga("tcga_brca", ("IDC", "ILC")),
    "camelyon17": KnownBags(
        "camelyon17", f"{_LAYOUT_REMEDY}center).", _STAGES, _numbered(_STAGES, _STAGES), r"patient_\d+"
    ),
    "bracs": KnownBags(
        "bracs",
        f"{_LAYOUT_REMEDY}case_id, split_info).",
        ("benign", "atypical", "malignant"),
        _numbered(_BRACS_TYPES, _BRACS_GROUPS),
    ),
    "bracs-7": KnownBags(
        "bracs", f"{_LAYOUT_REMEDY}case_id, split_info).", _BRACS_TYPES, _numbered(_BRACS_TYPES, _BRACS_TYPES)
    ),
    "musk1": _classic("musk1"),
    "musk2": _classic("musk2"),
    "fox": _classic("fox"),
    "tiger": _classic("tiger"),
    "elephant": _classic("elephant"),
    "ucsb-breast": _classic("ucsb_breast_cancer"),
}

BAG_SETS = tuple(_KNOWN)


@dataclass(frozen=True)
class FoundBags:
    """What a search for a set of bags found; ``str()`` says it in a sentence, with the remedy.

    Args:
        name: as it was asked for.
        path: its folder or file, or ``None``.
        layout: one of :data:`LAYOUTS`, or ``None``.
        looked: paths that were tried.
        remedy: what to put there.
    """

    name: str
    path: Path | None
    layout: str | None
    looked: tuple[Path, ...]
    remedy: str

    def __str__(self) -> str:
        if self.path is None:
            return f"{self.name}: not found; looked for {', '.join(map(str, self.looked))}. {self.remedy}"
        if self.layout is None:
            return f"{self.name}: {self.path} has none of the layouts {', '.join(LAYOUTS)}. {self.remedy}"
        return f"{self.name}: found in {self.path} (layout {self.layout})."


def find_bags(name: str | Path, data_dir: str | Path | None = None) -> FoundBags:
    """Where a set of bags is and in which layout, or what to put where; no bag is read.

    Args:
        name: one of :data:`BAG_SETS`, a path, or ``"<layout>:<path>"`` to say the layout as well.
        data_dir: where to look for a name; ``None`` looks in ``$NCMI_DATA``, ``./data`` and ``~/.cache/ncmi/data``.

    >>> print(find_bags("musk1", "/nowhere"))
    musk1: not found; looked for /nowhere/mil/musk1.npz. Put an npz file with x (instances, F), ...
    """
    text = str(name)
    if text in _KNOWN:
        known = _KNOWN[text]
        looked = tuple(place / known.path for place in data_places(data_dir))
        path = next((path for path in looked if path.exists()), None)
        return FoundBags(text, path, None if path is None else layout_of(path), looked, known.remedy)
    prefix, colon, rest = text.partition(":")
    layout = prefix if colon and prefix in LAYOUTS else None
    path = Path(rest if layout else text).expanduser()
    if layout is None and not path.exists() and not isinstance(name, Path) and os.sep not in text:
        choose("load_bags", "a name that is not a path", text, BAG_SETS)
    remedy = f"Say the layout as in clam:{path}; each is described in ncmi.data.bags.layouts."
    if not path.exists():
        return FoundBags(text, None, None, (path,), "Check the path.")
    return FoundBags(text, path, layout or layout_of(path), (path,), remedy)


def has_made_up_coordinates(bags: BagSet) -> bool:
    """Whether the coordinates of a set are not the real ones; it is known by its name or, if read by path, by its folder."""
    folder = "" if bags.root is None else bags.root.name
    return any(
        known.made_up_coordinates and (bags.name == name or folder == known.path) for name, known in _KNOWN.items()
    )


def load_bags(
    name: str | Path,
    data_dir: str | Path | None = None,
    *,
    table: str | Path | None = None,
    class_names: Sequence[str] | None = None,
    label_map: Mapping[str, str] | None = None,
    patient_pattern: str | None = None,
    files: str | None = None,
    encoder: str | None = None,
    leave_out: Sequence[str] = (),
    preload: bool = False,
) -> BagSet:
    """A set of labelled bags; the feature width is that of its first bag.

    Args:
        name: one of :data:`BAG_SETS`, a path, or ``"<layout>:<path>"``; see :mod:`ncmi.data.bags.layouts`.
        data_dir: where to look for a name; ``None`` looks in ``$NCMI_DATA``, ``./data`` and ``~/.cache/ncmi/data``.
        table: CSV with ``slide_id``, ``label`` and ``case_id``; ``None`` takes ``dataset.csv`` in the folder, or what the
            files themselves hold.
        class_names: the classes in order; without it the set's own, or all labels that occur, sorted.
        label_map: from the table's labels to class names.
        patient_pattern: regular expression for the patient in a slide's name; it goes before the column ``case_id``.
        files: of CLAM's folders, ``"h5_files"`` or ``"pt_files"``.
        encoder: of TRIDENT's folders ``features_<encoder>``, if there are several.
        leave_out: slides of the table to leave out, as those on which no tissue was found.
        preload: read and check all bags now and hold them in memory.
    """
    found = find_bags(name, data_dir)
    if found.path is None or found.layout is None:
        raise FileNotFoundError(str(found))
    for option, value, layout in (("files", files, "clam"), ("encoder", encoder, "trident")):
        if value is not None and found.layout != layout:
            raise ValueError(
                f"load_bags: {option} is for the layout {layout}; {found.name} has the layout {found.layout}."
            )
    known = _KNOWN.get(found.name)
    if known is not None:
        patient_pattern = patient_pattern or known.patient_pattern
        if class_names is None and label_map is None:
            class_names, label_map = known.class_names, known.label_map
    source = open_source(found.layout, found.path, files, encoder)
    rows = _without(found.name, _table(found.name, source, table, patient_pattern), leave_out)
    there = set(source.slides)
    if missing := [slide for slide in rows.slides if slide not in there]:
        raise FileNotFoundError(
            f"{found.name}: every slide of the table must have its features in {found.path}; {len(missing)} of "
            f"{len(rows.slides)} are missing: {some(missing)}. Extract them, or leave them out with leave_out=[...]."
        )
    targets, names = class_indices(found.name, rows.labels, class_names, label_map)
    first = source.reader(rows.slides[0])
    check_bag(f"{found.name}: slide {rows.slides[0]!r}", first)
    bags = BagSet(
        rows.slides,
        rows.patients,
        targets,
        names,
        first.instances.shape[1],
        source.reader,
        found.name,
        rows.columns,
        source.root,
        frozenset(leave_out),
    )
    return bags.preload() if preload else bags


def _table(name: str, source: Source, table: str | Path | None, patient_pattern: str | None) -> SlideTable:
    """What is known about the slides: the given table, the folder's, or what the files hold."""
    if table is not None:
        return read_table(Path(table).expanduser(), patient_pattern)
    if source.table is not None:
        return source.table
    if (source.root / TABLE).is_file():
        return read_table(source.root / TABLE, patient_pattern)
    if source.labels is None:
        raise FileNotFoundError(
            f"{name}: the classes of the slides come from a table, {source.root / TABLE}, which is missing. Write it with "
            "the columns case_id, slide_id and label, or pass table."
        )
    if patient_pattern is None:
        raise ValueError(
            f"{name}: splits keep the slides of a patient together, and the file does not name patients. Pass table with the "
            "column case_id, or patient_pattern, a regular expression for the patient in a slide's name."
        )
    patients = patients_of(name, source.slides, patient_pattern)
    return SlideTable(source.slides, patients, tuple(source.labels[slide] for slide in source.slides), {})


def _without(name: str, rows: SlideTable, leave_out: Sequence[str]) -> SlideTable:
    if unknown := [slide for slide in leave_out if slide not in rows.slides]:
        raise ValueError(
            f"{name}: leave_out must name slides of the table; {some(unknown)} are none. Check the spelling."
        )
    kept = [index for index, slide in enumerate(rows.slides) if slide not in leave_out]
    if not kept:
        raise ValueError(f"{name}: leave_out must leave some slide; all {len(rows.slides)} are in it.")
    return rows.rows(kept)
