"""Rows of ``ncmi.experiments.information`` as Markdown tables: mean and standard deviation over seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncmi.experiments.rows import distinct
from ncmi.experiments.statistics import spread
from ncmi.report.curves import read_rows

Row = dict[str, Any]

_GROUP = ("data", "other", "loss", "score")
# What a score is called, by its use; {centroids} is what the run's centroids are.
_NAMES = {
    "ood": {
        "divergence": "AUROC, smallest divergence ({centroids})",
        "probability": "AUROC, 1 − largest probability",
    },
    "mislabeled": {
        "margin, AUROC": "AUROC, margin of divergences ({centroids})",
        "margin, precision": "precision, margin of divergences ({centroids})",
        "loss, AUROC": "AUROC, loss −ln p(label)",
        "loss, precision": "precision, loss −ln p(label)",
    },
    "classes": {
        "divergence, agreement": "rank correlation with confusions, divergence ({centroids})",
        "head weights, agreement": "rank correlation with confusions, cosine of head weights",
        "divergence, superclass": "nearest class of the same superclass, divergence ({centroids})",
        "head weights, superclass": "nearest class of the same superclass, cosine of head weights",
    },
}


def information_table(path: str | Path) -> str:
    """The table of a file of rows: a line for each data set, loss and score, and a line that says what was run."""
    rows = read_rows(path)
    if not rows:
        raise ValueError(f"information_table: {path} holds no rows. Measure a run first.")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in _GROUP), []).append(row)
    body = [_line(group) for group in sorted(groups.values(), key=_place)]
    header = ["data", "trained with", "measure", "value", "n"]
    if rows[0]["other"] is None:
        body = [[line[0], *line[2:]] for line in body]
    else:
        header.insert(1, "other data")
    lines = [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *body)]
    return "\n".join([*lines, "", _about(rows), ""])


def _place(group: Sequence[Row]) -> tuple[Any, ...]:
    """Lines of one data set together, in the order of the measures, the loss that is ours first."""
    row = group[0]
    measures = list(_NAMES[row["use"]])
    kind = row["score"].rpartition(", ")[2]
    return row["data"], row["other"] or "", kind, row["loss"] != "ncmi", measures.index(row["score"])


def _line(group: Sequence[Row]) -> list[str]:
    row, found = group[0], spread([row["value"] for row in group])
    assert found is not None
    name = _NAMES[row["use"]][row["score"]].format(centroids=row["centroids"])
    deviation = "" if found.deviation is None else f" ± {found.deviation:.3f}"
    return [row["data"], row["other"] or "", row["loss"], name, f"{found.mean:.3f}{deviation}", str(found.n)]


def _about(rows: Sequence[Row]) -> str:
    parts = []
    for data in distinct(rows, "data"):
        config = next(row["config"] for row in rows if row["data"] == data)
        flips = config["data"]["flip_labels"]
        wrong = f", {100 * flips:.0f} % of the training labels flipped" if flips else ""
        parts.append(
            f"{data}: {config['model']['name']}, {config['epochs']} epochs, rate {config['optimizer']['lr']:g}{wrong}"
        )
    commits = ", ".join(commit[:7] for commit in distinct(rows, "commit"))
    machine = ", ".join([*distinct(rows, "processor"), *(f"torch {version}" for version in distinct(rows, "torch"))])
    return f"{'; '.join(parts)}. Mean ± standard deviation over n seeds. {machine}, commit {commits}."
