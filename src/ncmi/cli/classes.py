"""Map which classes of a run are alike: divergences between their centroids, like beside like."""

from typing import Any

from ncmi.cli.trained_run import add_run_arguments, add_top, check_top, open_named, run_title

_COLUMNS = ("class", "other", "distance", "confused")


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    add_run_arguments(parser)
    add_top(parser, "pairs", 10)


def run(arguments: Any) -> int:
    """Print the nearest pairs; write all of them, and the map."""
    check_top(arguments)
    from ncmi.information import class_map
    from ncmi.report.class_map import draw_class_map
    from ncmi.report.csv_table import write_rows

    trained, out = open_named(arguments)
    found = class_map(trained)
    rows = found.rows()
    print(f"nearest pairs of {len(found.class_names)} classes, by divergence between centroids ({found.source})")
    for one, other, distance, confused in rows[: arguments.top]:
        taken = "" if confused is None else f", {100 * confused:.1f} % of the test images confused"
        print(f"  {one} and {other}: {distance:.4g}{taken}")
    if found.confusions is not None:
        print(f"rank correlation of nearness and confusion over all pairs: {found.agreement():.3f}")
    write_rows(out / "classes.csv", _COLUMNS, rows)
    title = f"{run_title(trained)}: {found.source}"
    for ending in ("svg", "png"):
        draw_class_map(found.distances.tolist(), found.order, found.class_names, out / f"classes.{ending}", title)
    print(f"all pairs, and the map: {out / 'classes'}.csv, .svg, .png")
    return 0
