"""Places whose parts have made-up rows."""

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
        rows = place.part(part).rows
        while missing := [cell for plan in make_plans(comparison, rows.rows()) for cell in plan.missing]:
            left = len(missing)
            for cell in missing:
                if (pair := shares(part, cell.factors)) is None:
                    left -= 1
                    continue
                own, probe = pair
                headline = "linear probe" if cell.factors["loss"] == "supcon" else "own"
                factors = {key: value for key, value in cell.factors.items() if key != "loss"}
                row = made_up_row(
                    comparison,
                    cell.factors["loss"],
                    cell.rate,
                    cell.seed,
                    0.5,
                    own,
                    probe,
                    headline=headline,
                    **factors,
                )
                if comparison.kind.folds:
                    row = as_slides(row, own=(own, own), probe=(probe + cell.seed / 1000, probe))
                if fitted is not None:
                    scores = row["decisions"]["own"]["test"]
                    row["decisions"]["fitted centroids"] = {"test": {**scores, "top1": fitted}}
                rows.append(row)
            if not left:
                break
    return item, place


def lines_of(markdown, start):
    """The cells of the table's lines that start so."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in markdown.splitlines()
        if line.startswith(f"| {start}")
    ]
