"""List training samples whose label is probably wrong: nearer to another class's centroid than to their own.

To measure how many it finds, train with --set data.flip_labels=0.1.
"""

from pathlib import Path
from typing import Any

from ncmi.cli.trained_run import add_run_arguments, add_top, check_top, open_named, run_title

_COLUMNS = ("sample", "label", "nearest other class", "margin", "loss", "flipped")


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    add_run_arguments(parser)
    add_top(parser, "samples", 20)


def run(arguments: Any) -> int:
    """Print the most suspicious samples; write all of them, and a picture."""
    check_top(arguments)
    from ncmi.information import find_suspects
    from ncmi.report.csv_table import write_rows

    trained, out = open_named(arguments)
    found = find_suspects(trained)
    rows = found.rows()
    count = int((found.scores["margin"] > 0).sum())
    print(
        f"{count} of {len(rows)} training samples are nearer to another class than to their own ({trained.centroid_source})"
    )
    for name, label, nearest, margin, _, known in rows[: arguments.top]:
        made = ", label made wrong on purpose" if known == "yes" else ""
        print(f"  {name}: labelled {label}, nearer to {nearest} by {margin:.4g}{made}")
    write_rows(out / "mislabeled.csv", _COLUMNS, rows)
    _draw(found, run_title(trained), out)
    print(f"all samples, and pictures: {out / 'mislabeled'}.csv, .svg, .png")
    return 0


def _draw(found: Any, title: str, out: Path) -> None:
    from ncmi.information.labels import SCORES
    from ncmi.report.separation import draw_separation

    names, panels = ["training samples"], {words: [found.scores[name].tolist()] for name, words in SCORES.items()}
    if found.flipped is not None:
        names, panels = ["labels left alone", "labels made wrong on purpose"], {}
        for name, words in SCORES.items():
            area, precision = found.found(name)
            print(f"labels made wrong on purpose, by the {words}: AUROC {area:.4f}, precision {100 * precision:.1f} %")
            kinds = [found.scores[name][mask].tolist() for mask in (~found.flipped, found.flipped)]
            panels[f"{words}\nAUROC {area:.3f}, precision {100 * precision:.1f} %"] = kinds
    for ending in ("svg", "png"):
        draw_separation(panels, names, out / f"mislabeled.{ending}", title)
