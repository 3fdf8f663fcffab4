"""Map which classes of a run are alike: divergences between their centroids, like beside like."""

from pathlib import Path
from typing import Any

_COLUMNS = ("class", "other", "distance", "confused")


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("run", type=str, help="the run folder")
    parser.add_argument("--top", type=int, default=10, help="pairs that are printed; the table has all of them")
    parser.add_argument(
        "--out", type=str, help="folder of table and pictures (by default information in the run folder)"
    )
    parser.add_argument("--checkpoint", type=str, default="last", choices=["last", "best"], help="which weights")
    parser.add_argument("--set", action="append", nargs="+", default=[], metavar="KEY=VALUE", help="as data.folder=…")


def run(arguments: Any) -> int:
    """Print the nearest pairs; write all of them, and the map."""
    if arguments.top < 1:
        raise ValueError(f"--top must be at least 1; got {arguments.top}.")
    from ncmi.information import class_map, open_run
    from ncmi.report.class_map import draw_class_map
    from ncmi.report.csv_table import write_rows

    overrides = [override for group in arguments.set for override in group]
    trained = open_run(arguments.run, overrides, arguments.checkpoint)
    found = class_map(trained)
    rows = found.rows()
    print(f"nearest pairs of {len(found.class_names)} classes, by divergence between centroids ({found.source})")
    for one, other, distance, confused in rows[: arguments.top]:
        taken = "" if confused is None else f", {100 * confused:.1f} % of the test images confused"
        print(f"  {one} and {other}: {distance:.4g}{taken}")
    if found.confusions is not None:
        print(f"rank correlation of nearness and confusion over all pairs: {found.agreement():.3f}")
    out = Path(arguments.out or Path(arguments.run) / "information")
    out.mkdir(parents=True, exist_ok=True)
    write_rows(out / "classes.csv", _COLUMNS, rows)
    config = trained.setup.config
    title = f"{config.model.name} trained with {config.loss.name} on {config.data.name}: {found.source}"
    for ending in ("svg", "png"):
        draw_class_map(found.distances.tolist(), found.order, found.class_names, out / f"classes.{ending}", title)
    print(f"all pairs, and the map: {out / 'classes'}.csv, .svg, .png")
    return 0
