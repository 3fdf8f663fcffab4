"""Score how well a run tells images of another data set from its own: smallest divergence from a centroid.

Beside it stands the usual score, the largest probability. Both test sets are used.
"""

from pathlib import Path
from typing import Any

from ncmi.cli.trained_run import add_run_arguments, open_named, run_title


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    add_run_arguments(parser)
    parser.add_argument("--data", type=str, required=True, help="the other data set, such as cifar10")
    parser.add_argument("--data-dir", type=str, help="where its files are")


def run(arguments: Any) -> int:
    """Print AUROC of both scores; write table and pictures."""
    from ncmi.information import measure_novelty
    from ncmi.information.novelty import SCORES
    from ncmi.report.csv_table import write_rows
    from ncmi.report.separation import draw_separation

    trained, out = open_named(arguments)
    found = measure_novelty(trained, arguments.data, arguments.data_dir)
    inside, outside = found.scores["divergence"]
    print(f"{len(inside)} test images of {found.own}, {len(outside)} of {found.other}; 0.5 is chance")
    for name, words in SCORES.items():
        source = f" ({trained.centroid_source})" if name == "divergence" else ""
        print(f"AUROC {found.auroc(name):.4f} by the {words}{source}")
    stem = f"ood-{Path(arguments.data.replace(':', '-')).name}"
    write_rows(out / f"{stem}.csv", ("set", "index", *SCORES), found.rows())
    panels = {
        f"{words}\nAUROC {found.auroc(name):.3f}": [kind.tolist() for kind in found.scores[name]]
        for name, words in SCORES.items()
    }
    for ending in ("svg", "png"):
        draw_separation(
            panels, (f"{found.own} (own)", f"{found.other} (other)"), out / f"{stem}.{ending}", run_title(trained)
        )
    print(f"scores of every image, and pictures: {out / stem}.csv, .svg, .png")
    return 0
