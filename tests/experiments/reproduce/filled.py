"""Places whose parts have made-up rows."""

import json

from experiments.made_up_rows import as_slides, made_up_row

from ncmi.experiments.plan import make_plans
from ncmi.experiments.reproduce import get_item
from ncmi.experiments.reproduce.item import Place


def fill(tmp_path, name, scale, shares, fitted=None):
    """An item and its place, with a row for every cell; ``shares(part, factors)`` is the accuracy by own decision and probe.

    A share of ``None`` leaves the cell out.
    """
    item, place = get_item(name), Place(tmp_path / name, tmp_path / "runs", scale, say=lambda line: None)
    for part, comparison in item.comparisons(scale).items():
        file = place.part(part).rows
        while True:
            missing = [cell for plan in make_plans(comparison, file.rows()) for cell in plan.missing]
            rows = [
                made_row(comparison, cell, pair, fitted) for cell in missing if (pair := shares(part, cell.factors))
            ]
            if not rows:
                break
            file.path.parent.mkdir(parents=True, exist_ok=True)
            with file.path.open("a", encoding="utf-8") as lines:  # at once: a row file checks each row that it appends
                lines.writelines(json.dumps(row) + "\n" for row in rows)
    return item, place


def made_row(comparison, cell, shares, fitted):
    """A row with the accuracies by own decision and by probe; of slides, both scores, with a probe that varies a little."""
    (own, probe), loss = shares, cell.factors["loss"]
    others = {key: value for key, value in cell.factors.items() if key != "loss"}
    headline = "linear probe" if loss == "supcon" else "own"
    row = made_up_row(comparison, loss, cell.rate, cell.seed, 0.5, own, probe, headline=headline, **others)
    if comparison.kind.folds:
        row = as_slides(row, own=(own, own), probe=(probe + cell.seed / 1000, probe))
    if fitted is not None:
        row["decisions"]["fitted centroids"] = {"test": {**row["decisions"]["own"]["test"], "top1": fitted}}
    return row


def lines_of(markdown, start):
    """The cells of the table's lines that start so."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in markdown.splitlines()
        if line.startswith(f"| {start}")
    ]
