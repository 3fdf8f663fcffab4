"""``read_runs``: what run folders hold, as a report needs it. Nothing here loads a network."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ncmi.evaluation import Outputs
from ncmi.report.curves import read_rows
from ncmi.tensor_files import read_tensors

Settings = dict[str, Any]


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A run as its folder tells it.

    Args:
        name: the end of its path, as long as it must be to differ from the others'.
        path: the folder.
        config: its settings, nested.
        environment: where it was started; ``resumed`` counts how often it went on.
        rows: an epoch each; none before the first has ended.
        summary: of the finished run, else ``None``.
        outputs: what its headline decision said of the test part, if the folder has it.
        attention: pictures of attention maps.
        notes: sentences about what is missing.
    """

    name: str
    path: Path
    config: Settings
    environment: Settings = field(default_factory=dict)
    rows: list[Settings] = field(default_factory=list)
    summary: Settings | None = None
    outputs: Outputs | None = None
    attention: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def decisions(self) -> list[Settings]:
        """The table's rows in the summary, the headline first."""
        if self.summary is None:
            return []
        rows = self.summary["evaluation"]["decisions"]
        return sorted(rows, key=lambda row: row["name"] != self.summary["headline"])  # pyright: ignore[reportOptionalSubscript]


def read_runs(paths: Sequence[str | Path]) -> list[RunRecord]:
    """The runs in these folders, each once; a sentence if one is no run folder, or is damaged."""
    if not paths:
        raise ValueError("report: name at least one run folder.")
    folders = list({Path(path).resolve(): Path(path) for path in paths}.values())
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"report: {folder} is not a folder. Check the path.")
        if not (folder / "config.yaml").is_file():
            raise FileNotFoundError(f"report: {folder} holds no run: there is no config.yaml in it. Check the path.")
    return [_read(folder, name) for folder, name in zip(folders, distinct_names(folders), strict=True)]


def distinct_names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell all of them apart.

    >>> distinct_names([Path("runs/a/ce"), Path("runs/b/ce")])
    ['a/ce', 'b/ce']
    """
    parts = [folder.resolve().parts for folder in folders]
    names = [""] * len(parts)
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def _read(folder: Path, name: str) -> RunRecord:
    log, notes = folder / "log.jsonl", []
    rows = read_rows(log) if log.is_file() else []
    config = _settings(folder / "config.yaml", yaml.safe_load, yaml.YAMLError, "YAML")
    record = _json(folder / "environment.json") or {}
    summary = _json(folder / "summary.json")
    if summary is None:
        done = f"{len(rows)} of {config.get('epochs', '?')} epochs" if rows else "no epoch"
        notes.append(f"The run is not finished: {done} so far. `ncmi train {folder} --resume` goes on with it.")
    elif "evaluation" not in summary or "headline" not in summary:
        raise ValueError(f"report: {folder / 'summary.json'} lacks the evaluation. It may come from another version.")
    elif not any("test" in row["parts"] for row in summary["evaluation"]["decisions"]):
        notes.append("The data have no test part: what is decided is shown for the validation part.")
    notes += [str(row["warning"]) for row in rows if row.get("warning")][-1:]
    outputs, note = _outputs(folder, finished=summary is not None)
    return RunRecord(
        name=name,
        path=folder,
        config=config,
        environment={**record.get("started", {}), "resumed": len(record.get("resumed", []))},
        rows=rows,
        summary=summary,
        outputs=outputs,
        attention=sorted((folder / "attention").glob("*.png")),
        notes=[*notes, *note],
    )


def _outputs(folder: Path, finished: bool) -> tuple[Outputs | None, list[str]]:
    """The outputs, or a sentence on why there are none; an unfinished run has said already what is missing."""
    path = folder / "outputs.pt"
    if not path.is_file():
        missing = f"There is no {path.name}, so confusion, calibration, distances of classes and t-SNE cannot be drawn."
        return None, [f"{missing} `ncmi evaluate {folder}` writes it."] if finished else []
    try:
        return Outputs.from_dict(read_tensors(path, owner=f"report: {path}")), []
    except ValueError as error:
        return None, [f"{error} `ncmi evaluate {folder}` writes it again."]


def _json(path: Path) -> Settings | None:
    return _settings(path, json.loads, ValueError, "JSON") if path.is_file() else None


def _settings(path: Path, parse: Any, error_kind: type[Exception], language: str) -> Settings:
    try:
        values = parse(path.read_text(encoding="utf-8"))
        if isinstance(values, dict):
            return values
    except (error_kind, UnicodeDecodeError) as error:
        raise ValueError(f"report: {path} is damaged: it cannot be read as {language}.") from error
    raise ValueError(f"report: {path} is damaged: it must hold settings by name; got {type(values).__name__}.")
