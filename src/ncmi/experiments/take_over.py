"""``take_over``: rows of other folders that a comparison needs, so that no cell is run twice."""

from collections.abc import Iterable
from pathlib import Path

from ncmi.experiments.cells import Comparison
from ncmi.experiments.folder import ComparisonFolder
from ncmi.experiments.plan import make_plans
from ncmi.experiments.rows import Row, RowFile


def take_over(folder: ComparisonFolder, comparison: Comparison, others: Iterable[Path]) -> int:
    """How many rows were copied, unchanged, from other files of rows into the folder of a comparison.

    A row is taken for a cell that the comparison needs and the folder has not, if its config has the same fingerprint,
    whatever its comparison called it. One that failed is taken where no other came to its end.

    Args:
        folder: of the comparison.
        comparison: what is compared.
        others: files of rows.
    """
    found: dict[str, Row] = {}
    for path in others:
        rows = RowFile(path).rows()
        found |= {name: row for name, row in rows.items() if name not in found or "failed" not in row}
    taken = 0
    while True:  # a rate that comes over can be the best one, and then more cells are needed
        plans = make_plans(comparison, folder.rows.rows())
        names = [comparison.fingerprint(cell) for plan in plans for cell in plan.missing]
        needed = [found.pop(name) for name in names if name in found]
        if not needed:
            return taken
        for row in needed:
            folder.rows.append(row)
        taken += len(needed)
