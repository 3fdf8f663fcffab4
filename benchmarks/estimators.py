"""``NCMIClassifier`` beside scikit-learn's own classifiers, on scikit-learn's own data sets.

``python -m benchmarks.estimators`` appends a row for each fit to results/sklearn/rows.jsonl; ``--table docs/scikit-learn.md``
rewrites the block of that page from the rows, and ``--check`` with it changes nothing and fails if the block is out of step.
"""

import argparse
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn import datasets
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
from ncmi.experiments.statistics import paired_difference

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


def measure(name: str, data: str) -> list[dict[str, Any]]:
    """A row for each fold: accuracy and log-loss on it, and the processor seconds of fit and scoring."""
    X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    splits = RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=REPEATS, random_state=0).split(X, y)
    about = {"data": data, "estimator": name}
    return [about | {"fold": fold} | _fit(name, fold, X, y, *split) for fold, split in enumerate(splits)]


def _fit(name: str, fold: int, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    model = make_pipeline(StandardScaler(), ESTIMATORS[name](fold))
    started = time.process_time()
    with warnings.catch_warnings():
        # MLPClassifier stops at its 200 passes; NearestCentroid speaks of the empty margins of digits.
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train])
        accuracy, loss = model.score(X[test], y[test]), log_loss(y[test], model.predict_proba(X[test]))
    return {"accuracy": accuracy, "log_loss": loss, "seconds": round(time.process_time() - started, 4)}


def render(rows: list[dict[str, Any]]) -> str:
    """A Markdown table, a line for each estimator and a column for each data set; then the differences and the origin."""
    data = list(dict.fromkeys(row["data"] for row in rows))
    names = list(dict.fromkeys(row["estimator"] for row in rows))
    cells = {key: [row for row in rows if (row["estimator"], row["data"]) == key] for key in product(names, data)}
    lines = ["| estimator | " + " | ".join(data) + " |", "|---" * (len(data) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(_cell(cells[name, column]) for column in data) + " |" for name in names]
    lines += [
        "",
        f"Accuracy in %, mean ± standard deviation of n = {FOLDS * REPEATS} folds; log-loss; seconds of processor time for "
        "a fit and its test fold.",
        "",
    ]
    for other in names[1:]:
        differences = (f"{column} {_difference(cells[names[0], column], cells[other, column])}" for column in data)
        lines.append(f"- {names[0]} minus {other}: {', '.join(differences)}.")
    about = rows[0]
    lines += [
        "",
        "Differences of accuracy over the same folds with their 95 % interval, widened for the training samples that folds "
        "share (Nadeau and Bengio, 2003).",
        f"Measured on {about['date'][:10]}: {about['cpu']}, {about['threads']} thread, scikit-learn {about['sklearn']}, "
        f"torch {about['torch']}, Python {about['python']}, ncmi {about['ncmi']}, commit {about['commit'][:7]}.",
    ]
    return "\n".join(lines)


def _cell(rows: list[dict[str, Any]]) -> str:
    accuracy = [100 * row["accuracy"] for row in rows]
    loss, seconds = (statistics.mean(row[key] for row in rows) for key in ("log_loss", "seconds"))
    return f"{statistics.mean(accuracy):.2f} ± {statistics.stdev(accuracy):.2f}; {loss:.3f}; {seconds:.2g} s"


def _difference(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> str:
    own, other = ({row["fold"]: 100 * row["accuracy"] for row in of} for of in (rows, others))
    interval = paired_difference(own, other)
    assert interval is not None
    assert interval.high is not None
    # The variance of a mean of folds is (1/n + test samples/training samples) times that of a fold, not 1/n times.
    half = (interval.high - interval.mean) * math.sqrt(1 + interval.n / (FOLDS - 1))
    return f"{interval.mean:+.2f} ± {half:.2f}"


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Measure and append rows, or rewrite or check a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
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
            rows = [row | about for row in measure(name, data)]
            print(f"{data:>14} {name:>20}: {_cell(rows)}", flush=True)
            with options.rows.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    main()
