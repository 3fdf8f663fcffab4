"""``rows.jsonl``: a line for each finished cell, with its numbers and what they depend on."""

import json
import os
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ncmi.experiments.cells import Cell, Comparison, fingerprint
from ncmi.experiments.kinds import data_kind
from ncmi.experiments.losses import resolved_options
from ncmi.report.curves import read_rows
from ncmi.training.environment import describe_environment
from ncmi.training.run_folder import RunFolder

try:
    import fcntl
except ImportError:  # Windows: there, one comparison at a time
    fcntl = None

Row = dict[str, Any]

_PARTS = ("validation", "test")
_SUMMARY = ("scale", "epochs", "seconds", "peak_memory_bytes", "images_per_second", "train_samples")
_ENVIRONMENT = ("processor", "torch", "threads")


class RowFile:
    """The rows of a comparison's folder.

    Args:
        path: the file; the first row makes it.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def rows(self) -> dict[str, Row]:
        """All rows by the fingerprint of their config; of a cell that failed and was run again, the last one."""
        rows = read_rows(self.path) if self.path.is_file() else []
        return {fingerprint(row["config"], row["options"]): row for row in rows}

    def append(self, row: Row) -> None:
        """Add a row, whole or not at all; a result that another process has brought already is left alone."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content = file.read()
            if content and not content.endswith(b"\n"):  # a killed writer's last line, which this one must not join
                file.truncate(content.rfind(b"\n") + 1)
            before = self.rows().get(row["fingerprint"])
            if before is not None and "failed" not in before:
                return
            file.write((json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())


def make_row(comparison: Comparison, cell: Cell, folder: RunFolder, failed: str | None = None) -> Row:
    """A cell's row, from its run folder.

    Args:
        comparison: the whole.
        cell: the run.
        folder: where it ran.
        failed: the sentence that it ended with, if it has no result.
    """
    config = comparison.config(cell)
    if folder.environment.is_file():
        record = folder.read_json(folder.environment)
        environments = [record["started"], *record["resumed"]]
    else:  # a run that diverged before its first checkpoint leaves nothing behind, but ran here
        environments = [describe_environment("cpu")]
    row: Row = {
        "recipe": comparison.recipe,
        **cell.factors,
        "options": resolved_options(config.loss.name, config.loss.options),
        "rate": cell.rate,
        "seed": cell.seed,
        "scale": config.scale,
        "overrides": comparison.cell_overrides(cell),
        "fingerprint": comparison.fingerprint(cell),
        "commits": list(dict.fromkeys(filter(None, map(_commit, environments)))),
        **{name: environments[0].get(name) for name in _ENVIRONMENT},
    }
    if failed is not None:
        return {**row, "epochs": config.epochs, "failed": failed, "config": config.to_dict()}
    summary = folder.read_json(folder.summary)
    evaluation = summary["evaluation"]
    return {
        **row,
        **{name: summary[name] for name in _SUMMARY},
        "headline": summary.get("headline", "own"),
        "decisions": {
            decision["name"]: {part: decision["parts"][part] for part in _PARTS if part in decision["parts"]}
            for decision in evaluation["decisions"]
        },
        "information": {name: evaluation["information"].get("test", {}).get(name) for name in ("cmi", "gamma", "ncmi")},
        "config": config.to_dict(),
    }


def validation_score(row: Row) -> float | None:
    """What a rate is chosen by: the score on validation of the decision the loss is judged by; ``None`` for a failed run.

    It is the accuracy or, where the kind of data has several scores to choose by, the mean of those that are defined.
    """
    if "failed" in row:
        return None
    decision, data = row["decisions"].get(row["headline"]), row["config"]["data"]["name"]
    if decision is None:
        raise ValueError(
            f"compare: {row['config']['loss']['name']} is judged by its {row['headline']}, which was not evaluated. Add it to "
            "the setting decisions, and compare again."
        )
    if "validation" not in decision:
        raise ValueError(no_validation(data))
    values = [decision["validation"][score] for score in data_kind(data).chosen_by]
    return statistics.fmean(value for value in values if value is not None)


def score_by_seed(rows: dict[int, Row], decision: str, score: str) -> dict[int, float]:
    """A score of a decision on the test set, of the runs that have it."""
    found = {seed: row["decisions"].get(decision, {}).get("test", {}).get(score) for seed, row in rows.items()}
    return {seed: value for seed, value in found.items() if value is not None}


def no_validation(data: str) -> str:
    """The sentence for data on which no rate can be chosen."""
    return (
        f"compare: rates are chosen on a validation part, and {data} has none here. Set data.validation, such as "
        "--set data.validation=0.1, or name a single rate with --rates."
    )


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """The values that rows have for a name, each once."""
    return list(dict.fromkeys(row[name] for row in rows if row.get(name) is not None))


def _commit(environment: Row) -> str | None:
    commit = environment.get("commit")
    return f"{commit}-dirty" if commit and environment.get("uncommitted_changes") else commit
