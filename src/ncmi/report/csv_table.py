"""Tables as CSV files."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ncmi.tensor_files import write_atomically


def write_rows(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table, whole or not at all; numbers with six digits, ``None`` as nothing. Its folder is made."""

    def write(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, write)
