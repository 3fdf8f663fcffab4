"""``write_report``: runs as one page of HTML that needs no other file and no network."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncmi.report.figures import LEVELS, calibration_chart, curve_charts, embed, look_inside
from ncmi.report.records import RunRecord, read_runs
from ncmi.report.tables import compare_settings, decision_table, summary_columns
from ncmi.tensor_files import write_atomically

_TEMPLATES = Path(__file__).parent / "templates"
_SCRIPTS = ("draw.js", "lines.js", "matrix.js", "scatter.js", "page.js")
_MAPS = 12  # attention maps of a run

# Told apart on a white and on a dark ground, and by most kinds of colour vision.
_COLORS = ("#2b7bd6", "#dd6b20", "#1c9a6c", "#b455c8", "#b08800", "#0f9fb5", "#d8487f", "#7c8794")


def write_report(runs: Sequence[str | Path], path: str | Path) -> list[RunRecord]:
    """Write a page about these run folders; an old one is replaced whole. Returns what was read.

    Args:
        runs: run folders, finished or not.
        path: the file, as ``report.html``.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"report: {path} is a folder. Name a file, such as {path / 'report.html'}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"report: {path.parent} is not a folder. Create it, or name another place with -o.")
    records = read_runs(runs)
    page = render(records)
    write_atomically(path, lambda file: file.write_text(page, encoding="utf-8"))
    return records


def render(runs: Sequence[RunRecord]) -> str:
    """The page."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "report: pages need the package jinja2, which is not installed: `pip install 'ncmi[train]'`."
        ) from error
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["embedded"] = _embedded
    return environment.get_template("page.html").render(_content(runs))


def _content(runs: Sequence[RunRecord]) -> dict[str, Any]:
    insides = [None if run.outputs is None else look_inside(run.outputs) for run in runs]
    charts = curve_charts(runs)
    calibration = calibration_chart(runs)
    spreads = [
        None if run.outputs is None or inside is None else embed(run.outputs, inside.names)
        for run, inside in zip(runs, insides, strict=True)
    ]
    return {
        "title": _title(runs),
        "runs": runs,
        "colors": _colors(len(runs)),
        "columns": summary_columns(runs),
        "decisions": decision_table(runs),
        "charts": charts,
        "calibration": calibration,
        "insides": insides,
        "spreads": spreads,
        "maps": [run.attention[:_MAPS] for run in runs],
        "slides": [bool(run.attention) or _on_bags(run) for run in runs],
        "config": compare_settings([_without_description(run.config) for run in runs]),
        "environment": compare_settings([run.environment for run in runs]),
        "css": (_TEMPLATES / "page.css").read_text(encoding="utf-8"),
        "script": "\n".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in _SCRIPTS),
        "data": _as_json(
            {
                "runs": [run.name for run in runs],
                "charts": charts,
                "calibration": calibration,
                "insides": [
                    inside and {**inside.matrices(), "names": inside.names, "points": points}
                    for inside, points in zip(insides, spreads, strict=True)
                ],
                "levels": LEVELS,
            }
        ),
    }


def _title(runs: Sequence[RunRecord]) -> str:
    """Data and networks of the runs."""
    names = []
    for section in ("data", "model"):
        found = list(dict.fromkeys(str(run.config.get(section, {}).get("name", "?")) for run in runs))
        names.append(", ".join(found[:3]) + (" …" if len(found) > 3 else ""))
    return " · ".join(names)


def _on_bags(run: RunRecord) -> bool:
    return str(run.config.get("data", {}).get("name", "")).startswith("bags:")


def _without_description(config: dict[str, Any]) -> dict[str, Any]:
    """The settings alone; a recipe's description is words about them."""
    return {key: value for key, value in config.items() if key != "description"}


def _colors(count: int) -> list[str]:
    """A colour for each run; beyond the named ones, hues at equal steps."""
    if count <= len(_COLORS):
        return list(_COLORS[:count])
    return [f"oklch({62 if place % 2 else 52}% 0.15 {360 * place / count:.0f})" for place in range(count)]


def _as_json(content: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever a class is called."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _embedded(path: Path) -> str:
    """A picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
