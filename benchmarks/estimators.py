"""``NCMIClassifier`` beside scikit-learn's own classifiers, on scikit-learn's own data sets.

``python -m benchmarks.estimators`` appends a row for each fit to results/sklearn/rows.jsonl; ``--table docs/scikit-learn.md``
rewrites the block of that page from the rows, and ``--check`` with it changes nothing and fails if the block is out of step.
"""

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sklearn
import torch
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.head import machine
from benchmarks.table import replace_block
from ncmi import NCMIClassifier

ROWS = Path(__file__).parents[1] / "results" / "sklearn" / "rows.jsonl"
FOLDS, REPEATS = 5, 2
DATA = ("iris", "wine", "breast_cancer", "digits")
# Everything at its defaults, but for the seed.
ESTIMATORS: dict[str, Callable[[int], Any]] = {
    "NCMIClassifier": lambda seed: NCMIClassifier(random_state=seed),
    "LogisticRegression": lambda seed: LogisticRegression(random_state=seed),
    "MLPClassifier": lambda seed: MLPClassifier(random_state=seed),
    "NearestCentroid": lambda seed: NearestCentroid(),
}


def measure(name: str, data: str, folds: int, repeats: int) -> list[dict[str, Any]]:
    """A row for each fold: accuracy and log-loss on it, and the processor seconds of fit and scoring."""
    X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    splits = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=0).split(X, y)
    rows = []
    for number, (train, test) in enumerate(splits):
        model = make_pipeline(StandardScaler(), ESTIMATORS[name](number))
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # MLPClassifier stops at its 200 passes
            model.fit(X[train], y[train])
        rows.append(
            {
                "data": data,
                "estimator": name,
                "fold": number,
                "accuracy": model.score(X[test], y[test]),
                "log_loss": log_loss(y[test], model.predict_proba(X[test])),
                "seconds": round(time.process_time() - started, 4),
            }
        )
    return rows


def render(rows: list[dict[str, Any]]) -> str:
    """A Markdown table: a line for each estimator, a column for each data set."""
    data = list(dict.fromkeys(row["data"] for row in rows))
    lines = ["| estimator | " + " | ".join(data) + " |", "|---" * (len(data) + 1) + "|"]
    for name in dict.fromkeys(row["estimator"] for row in rows):
        own = [[row for row in rows if (row["estimator"], row["data"]) == (name, column)] for column in data]
        lines.append(f"| {name} | " + " | ".join(map(_cell, own)) + " |")
    about, count = rows[0], len({row["fold"] for row in rows})
    return "\n".join(
        [
            *lines,
            "",
            f"Accuracy in %, mean ± standard deviation of n = {count} folds; log-loss; seconds of processor "
            "time for a fit and its test fold.",
            f"Measured on {about['date'][:10]}: {about['cpu']}, {about['threads']} thread, scikit-learn {about['sklearn']}, "
            f"torch {about['torch']}, Python {about['python']}, ncmi {about['ncmi']}, commit {about['commit'][:7]}.",
        ]
    )


def _cell(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "–"
    accuracy = [100 * row["accuracy"] for row in rows]
    loss, seconds = (statistics.mean(row[key] for row in rows) for key in ("log_loss", "seconds"))
    return f"{statistics.mean(accuracy):.2f} ± {statistics.stdev(accuracy):.2f}; {loss:.3f}; {seconds:.2g} s"


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Measure and append rows, or rewrite or check a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--rows", type=Path, default=ROWS, help="file of rows")
    parser.add_argument("--table", type=Path, help="page whose block is rewritten; nothing is measured")
    parser.add_argument("--check", action="store_true", help="with --table: only say whether the block is in step")
    options = parser.parse_args()
    if options.table:
        text = options.table.read_text(encoding="utf-8")
        wanted = replace_block(text, render(read_rows(options.rows)))
        if options.check and wanted != text:
            sys.exit(f"{options.table} is out of step with {options.rows}. Run it without --check.")
        options.table.write_text(wanted, encoding="utf-8")
        return
    torch.set_num_threads(1)
    about = machine() | {"sklearn": sklearn.__version__}
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    for data in options.data:
        for name in ESTIMATORS:
            rows = [row | about for row in measure(name, data, options.folds, options.repeats)]
            print(f"{data:>14} {name:>20}: {_cell(rows)}", flush=True)
            with options.rows.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    main()
