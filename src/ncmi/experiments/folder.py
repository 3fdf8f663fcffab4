"""``ComparisonFolder``: what a comparison leaves behind: itself, a row for each finished cell, and the table made of them."""

import json
from pathlib import Path

from ncmi.experiments.cells import Comparison
from ncmi.experiments.plan import make_plans
from ncmi.experiments.rows import RowFile
from ncmi.experiments.table import Table, make_table
from ncmi.tensor_files import write_atomically


class ComparisonFolder:
    """The files ``comparison.json``, ``rows.jsonl``, ``table.md`` and ``table.csv``.

    Args:
        path: the folder; :meth:`join` makes it.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.comparison = self.path / "comparison.json"
        self.rows = RowFile(self.path / "rows.jsonl")

    def read(self) -> Comparison:
        """The comparison here."""
        return Comparison.from_dict(json.loads(self.comparison.read_text(encoding="utf-8")))

    def joined(self, comparison: Comparison) -> Comparison:
        """A comparison together with the one here, if there is one; a sentence if they do not fit together."""
        return self.read().joined(comparison) if self.comparison.is_file() else comparison

    def join(self, comparison: Comparison) -> None:
        """Add a comparison to the one here, so that the table shows both."""
        record = self.joined(comparison).to_dict()
        self.path.mkdir(parents=True, exist_ok=True)
        _write(self.comparison, json.dumps(record, indent=1, ensure_ascii=False) + "\n")

    def table(self) -> Table:
        """The table of the comparison as far as it has come, made from comparison and rows alone."""
        comparison = self.read()
        return make_table(comparison, make_plans(comparison, self.rows.rows()))

    def write_table(self) -> Table:
        """The table, also written to its two files."""
        table = self.table()
        for path, text in self.table_files(table).items():
            _write(path, text)
        return table

    def table_files(self, table: Table) -> dict[Path, str]:
        """The files of a table, and what stands in them."""
        return {self.path / "table.md": table.markdown(), self.path / "table.csv": table.csv()}


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write_text(text, encoding="utf-8"))
