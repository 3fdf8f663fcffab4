"""Official files of a data set: where they may lie, which are there, and whether they are whole."""

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PARTS = ("train", "test")


@dataclass(frozen=True)
class OfficialFile:
    """A file as its authors published it; without ``size`` or ``checksum`` there is nothing to compare with."""

    name: str
    size: int | None = None
    algorithm: str = "md5"
    checksum: str = ""


@dataclass(frozen=True)
class Layout:
    """One way in which a data set is published: a folder with the files of each part, and the archive it comes in.

    Size and checksum are those of the content: a file may also lie there compressed, with the ending ``.gz``.
    """

    folder: str
    train: tuple[OfficialFile, ...]
    test: tuple[OfficialFile, ...]
    archive: str = ""

    def files(self, part: str) -> tuple[OfficialFile, ...]:
        """The files of ``"train"`` or ``"test"``."""
        return self.train if part == "train" else self.test


@dataclass(frozen=True)
class Found:
    """What a search for a data set found; ``str()`` says it in a sentence, with the remedy.

    Args:
        name: of the data set.
        folder: where its files are, or ``None``.
        parts: which of ``"train"`` and ``"test"`` are there with all their files.
        missing: files that are not there.
        looked: folders that were searched.
        remedy: what to fetch and where to put it.
        layout: how the files are laid out, or ``None``.
    """

    name: str
    folder: Path | None
    parts: tuple[str, ...]
    missing: tuple[str, ...]
    looked: tuple[Path, ...]
    remedy: str
    layout: Layout | None = None

    @property
    def complete(self) -> bool:
        """Whether training and test part are both there."""
        return set(self.parts) == set(PARTS)

    def __str__(self) -> str:
        if self.complete:
            return f"{self.name}: found in {self.folder}." if self.folder else f"{self.name}: found."
        if self.folder is None:
            places = ", ".join(map(str, self.looked))
            return f"{self.name}: not found; looked in {places}. {self.remedy}"
        has = f"the {self.parts[0]} part is there, but " if self.parts else ""
        return f"{self.name}: {has}{_listed(self.missing)} missing in {self.folder}. {self.remedy}"


class FileCheck(NamedTuple):
    """One file's state: its size, and whether size and checksum are the official ones; ``problem`` is empty if so."""

    path: Path
    size: int
    problem: str


def data_places(data_dir: str | Path | None = None) -> tuple[Path, ...]:
    """Folders to search: ``data_dir`` alone if given, else ``$NCMI_DATA``, ``./data`` and ``~/.cache/ncmi/data``."""
    if data_dir is not None:
        return (Path(data_dir).expanduser(),)
    given = os.environ.get("NCMI_DATA")
    return (*((Path(given).expanduser(),) if given else ()), Path("data"), Path("~/.cache/ncmi/data").expanduser())


def locate(name: str, candidates: list[tuple[Path, Layout]], looked: tuple[Path, ...], remedy: str) -> Found:
    """The candidate folder with most of its parts, the first among equals; then what it lacks."""
    best, best_score = None, (0, 0)
    for folder, layout in candidates:
        parts = [part for part in PARTS if all(resolve(folder, file) for file in layout.files(part))]
        files = sum(resolve(folder, file) is not None for part in PARTS for file in layout.files(part))
        if (len(parts), files) > best_score:
            best, best_score = (folder, layout, tuple(parts)), (len(parts), files)
    if best is None:
        return Found(name, None, (), (), looked, remedy)
    folder, layout, parts = best
    missing = [file.name for part in PARTS for file in layout.files(part) if resolve(folder, file) is None]
    return Found(name, folder, parts, tuple(missing), looked, remedy, layout)


def resolve(folder: Path, file: OfficialFile) -> Path | None:
    """Where the file lies in the folder, plain or compressed; ``None`` if it does not."""
    paths = (folder / file.name, folder / f"{file.name}.gz")
    return next((path for path in paths if path.is_file()), None)


def read_official(owner: str, folder: Path, file: OfficialFile, check: bool = True) -> bytes:
    """The content of an official file; size and checksum are verified before anything looks inside."""
    path = resolve(folder, file)
    if path is None:
        raise FileNotFoundError(f"{owner}: {folder / file.name} is missing.")
    content = read_content(owner, path)
    if check and (problem := _problem(content, file)):
        raise ValueError(
            f"{owner}: {path} is damaged or another version: {problem}. Fetch it again, or pass check=False to read it "
            "as it is."
        )
    return content


def read_content(owner: str, path: Path) -> bytes:
    """The bytes of a file, decompressed if its name ends in ``.gz``."""
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as stream:
            return stream.read()
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{owner}: {path} cannot be decompressed ({error}). Fetch it again.") from error


def check_files(found: Found) -> list[FileCheck]:
    """Size and checksum of every file that is there, compared with the official ones."""
    checks = []
    if found.folder is not None and found.layout is not None:
        for file in (*found.layout.train, *found.layout.test):
            path = resolve(found.folder, file)
            if path is not None:
                try:
                    problem = _problem(read_content(found.name, path), file)
                except ValueError as error:
                    problem = str(error)
                checks.append(FileCheck(path, path.stat().st_size, problem))
    return checks


def _problem(content: bytes, file: OfficialFile) -> str:
    if file.size is not None and len(content) != file.size:
        return f"expected {file.size:,} bytes, found {len(content):,}"
    if not file.checksum:
        return ""
    found = hashlib.new(file.algorithm, content, usedforsecurity=False).hexdigest()
    if found != file.checksum:
        return f"expected {file.algorithm.upper()} {file.checksum}, found {found} ({len(content):,} bytes)"
    return ""


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"
