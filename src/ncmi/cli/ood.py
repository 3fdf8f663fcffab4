"""Score how well a run tells images of another data set from its own: smallest divergence from a centroid.

Beside it stands the usual score, the largest probability. Both test sets are used.
"""

from pathlib import Path
from typing import Any


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("run", type=str, help="the run folder")
    parser.add_argument("--data", type=str, required=True, help="the other data set, such as cifar10")
    parser.add_argument("--data-dir", type=str, help="where its files are")
    parser.add_argument(
        "--out", type=str, help="folder of table and pictures (by default information in the run folder)"
    )
    parser.add_argument("--checkpoint", type=str, default="last", choices=["last", "best"], help="which weights")
    parser.add_argument("--set", action="append", nargs="+", default=[], metavar="KEY=VALUE", help="as data.folder=…")


def run(arguments: Any) -> int:
    """Print AUROC of both scores; write table and pictures."""
    from ncmi.information import measure_novelty, open_run
    from ncmi.information.novelty import SCORES
    from ncmi.report.csv_table import write_rows
    from ncmi.report.separation import draw_separation

    overrides = [override for group in arguments.set for override in group]
    trained = open_run(arguments.run, overrides, arguments.checkpoint)
    found = measure_novelty(trained, arguments.data, arguments.data_dir)
    inside, outside = found.scores["divergence"]
    print(f"{len(inside)} test images of {found.own}, {len(outside)} of {found.other}; 0.5 is chance")
    for name, words in SCORES.items():
        source = f" ({trained.centroid_source})" if name == "divergence" else ""
        print(f"AUROC {found.auroc(name):.4f} by the {words}{source}")
    out = Path(arguments.out or Path(arguments.run) / "information")
    out.mkdir(parents=True, exist_ok=True)
    stem = f"ood-{Path(arguments.data.replace(':', '-')).name}"
    write_rows(out / f"{stem}.csv", ("set", "index", *SCORES), found.rows())
    panels = {
        f"{words}\nAUROC {found.auroc(name):.3f}": [kind.tolist() for kind in found.scores[name]]
        for name, words in SCORES.items()
    }
    config = trained.setup.config
    title = f"{config.model.name} trained with {config.loss.name} on {found.own}"
    for ending in ("svg", "png"):
        draw_separation(panels, (f"{found.own} (own)", f"{found.other} (other)"), out / f"{stem}.{ending}", title)
    print(f"scores of every image, and pictures: {out / stem}.csv, .svg, .png")
    return 0
