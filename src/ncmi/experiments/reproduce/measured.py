"""Rows that an item measures itself, beside those of its trainings: a file of JSON lines, and sentences about it."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ncmi.experiments.rows import distinct
from ncmi.report.curves import read_rows
from ncmi.tensor_files import write_atomically
from ncmi.training.environment import describe_environment

Row = dict[str, Any]

_ENVIRONMENT = ("commit", "uncommitted_changes", "processor", "threads", "torch")


class MeasuredRows:
    """The rows that an item has measured in a place.

    Args:
        out: the item's folder; the first row makes it.
    """

    def __init__(self, out: Path):
        self.path = out / "rows.jsonl"

    def rows(self) -> list[Row]:
        """All rows; none before the first."""
        return read_rows(self.path) if self.path.is_file() else []

    def has(self, **values: Any) -> bool:
        """Whether a row holds all these values."""
        return any(all(row.get(name) == value for name, value in values.items()) for row in self.rows())

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows, all or none, each with versions, machine and commit unless it says so itself."""
        environment = describe_environment("cpu")
        about = {"version": environment["ncmi"], **{name: environment[name] for name in _ENVIRONMENT}}
        text = "".join(
            json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
            for row in [*self.rows(), *({**about, **row} for row in rows)]
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, lambda file: file.write_text(text, encoding="utf-8"))


def machine_sentence(rows: Sequence[Row]) -> str:
    """Where rows were measured, and with what.

    >>> machine_sentence([{"processor": "abacus", "threads": 2, "torch": "2", "commit": "c0ffee0123"}])
    'Measured on abacus, 2 threads, torch 2, commit c0ffee0.'
    """
    threads = [f"{count} thread{'s' * (count > 1)}" for count in distinct(rows, "threads")]
    versions = [f"torch {version}" for version in distinct(rows, "torch")]
    commits = list(dict.fromkeys(_short(row) for row in rows if row.get("commit")))
    source = [f"commit{'s' * (len(commits) > 1)} {', '.join(commits)}"] if commits else []
    return f"Measured on {', '.join([*distinct(rows, 'processor'), *threads, *versions, *source])}."


def nothing_yet(name: str) -> str:
    """The piece of an item without rows.

    >>> nothing_yet("theorem")
    'Nothing is measured yet: `ncmi reproduce theorem` does it.'
    """
    return f"Nothing is measured yet: `ncmi reproduce {name}` does it."


def _short(row: Row) -> str:
    return row["commit"][:7] + "-dirty" * bool(row.get("uncommitted_changes"))
