"""Write a page about runs: tables, curves, confusion, calibration, t-SNE and settings, in one file of HTML."""

from pathlib import Path
from typing import Any


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("runs", type=str, nargs="+", help="run folders, finished or not")
    parser.add_argument("-o", "--out", type=str, default="report.html", help="the page (by default report.html)")


def run(arguments: Any) -> int:
    """Write the page, and say what is missing in it."""
    from ncmi.report.page import write_report

    records = write_report(arguments.runs, arguments.out)
    for record in records:
        for note in record.notes:
            print(f"{record.name}: {note}")
    size = Path(arguments.out).stat().st_size / 1e6
    count = f"{len(records)} run{'s' if len(records) > 1 else ''}"
    print(f"{arguments.out}: {count}, {size:.1f} MB. Open it in a browser.")
    return 0
