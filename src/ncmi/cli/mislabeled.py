"""List training samples whose label is probably wrong: nearer to another class's centroid than to their own.

To measure how many it finds, train with --set data.flip_labels=0.1.
"""

from pathlib import Path
from typing import Any

_COLUMNS = ("sample", "label", "nearest other class", "margin", "loss", "flipped")


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("run", type=str, help="the run folder")
    parser.add_argument("--top", type=int, default=20, help="samples that are printed; the table has all of them")
    parser.add_argument(
        "--out", type=str, help="folder of table and pictures (by default information in the run folder)"
    )
    parser.add_argument("--checkpoint", type=str, default="last", choices=["last", "best"], help="which weights")
    parser.add_argument("--set", action="append", nargs="+", default=[], metavar="KEY=VALUE", help="as data.folder=…")


def run(arguments: Any) -> int:
    """Print the most suspicious samples; write all of them, and a picture."""
    if arguments.top < 1:
        raise ValueError(f"--top must be at least 1; got {arguments.top}.")
    from ncmi.information import find_suspects, open_run
    from ncmi.report.csv_table import write_rows

    overrides = [override for group in arguments.set for override in group]
    trained = open_run(arguments.run, overrides, arguments.checkpoint)
    found = find_suspects(trained)
    rows = found.rows()
    count = int((found.scores["margin"] > 0).sum())
    print(
        f"{count} of {len(rows)} training samples are nearer to another class than to their own ({trained.centroid_source})"
    )
    for name, label, nearest, margin, _, known in rows[: arguments.top]:
        made = ", label made wrong on purpose" if known == "yes" else ""
        print(f"  {name}: labelled {label}, nearer to {nearest} by {margin:.4g}{made}")
    out = Path(arguments.out or Path(arguments.run) / "information")
    out.mkdir(parents=True, exist_ok=True)
    write_rows(out / "mislabeled.csv", _COLUMNS, rows)
    _draw(found, trained.setup.config, out)
    print(f"all samples, and pictures: {out / 'mislabeled'}.csv, .svg, .png")
    return 0


def _draw(found: Any, config: Any, out: Path) -> None:
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
    title = f"{config.model.name} trained with {config.loss.name} on {config.data.name}"
    for ending in ("svg", "png"):
        draw_separation(panels, names, out / f"mislabeled.{ending}", title)
