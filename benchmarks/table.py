"""The README's benchmark table, made from the rows of the newest run.

``python -m benchmarks.table README.md`` rewrites the block between the two markers; ``--check`` changes nothing and fails if
the block is out of step.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import BAG_RESULTS, LOOP_RESULTS, RESULTS
from benchmarks.head import BARS, Shape

START, END = "<!-- benchmark:start -->", "<!-- benchmark:end -->"


def newest_run(path: Path) -> list[dict[str, Any]]:
    """Rows of the last run in the file; they share their date. No file, no rows."""
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [row for row in rows if row["date"] == rows[-1]["date"]]


def render(rows: list[dict[str, Any]]) -> str:
    """A Markdown table: one line a head, one column a shape."""
    if not rows:
        return "No run is recorded yet. `make bench` makes one."
    shapes = list(dict.fromkeys((row["batch"], row["features"], row["classes"]) for row in rows))
    heads = list(dict.fromkeys(row["contender"] for row in rows))
    cells = {((row["batch"], row["features"], row["classes"]), row["contender"]): _cell(row) for row in rows}
    lines = [
        "| head | " + " | ".join(f"({b}, {d}, {c})" for b, d, c in shapes) + " |",
        "|---" * (len(shapes) + 1) + "|",
    ]
    lines += [f"| {head} | " + " | ".join(cells.get((shape, head), "–") for shape in shapes) + " |" for head in heads]
    about = rows[0]
    machine = f"{about['cpu']}, {about['threads']} thread, torch {about['torch']}, Python {about['python']}"
    source = f"ncmi {about['ncmi']}, commit {about['commit'][:7]}{'-dirty' * about['commit'].endswith('-dirty')}"
    return "\n".join([*lines, "", f"Measured on {about['date'][:10]}: {machine}, {source}.", "", *goals(rows)])


def goals(rows: list[dict[str, Any]]) -> list[str]:
    """One sentence on the goals that the rows meet, one on those that they miss."""
    time_of = {
        (Shape(row["batch"], row["features"], row["classes"]), row["contender"]): row["median_ms"] for row in rows
    }
    met, missed = 0, []
    for bar in BARS:
        own, other = time_of.get((bar.shape, bar.contender)), time_of.get((bar.shape, bar.against))
        if own is None or other is None:
            continue
        if own <= bar.limit * other:
            met += 1
        else:
            missed.append(
                f"{bar.contender} {_short(own / other)} × {bar.against} at {bar.shape} (goal {_short(bar.limit)} ×)"
            )
    sentences = [f"{met} of {met + len(missed)} goals of `benchmarks/head.py` are met."]
    return [*sentences, f"Missed: {'; '.join(missed)}."] if missed else sentences


def loop_sentence(rows: list[dict[str, Any]]) -> str:
    """What share of the bare speed the whole training loop reaches."""
    if not rows:
        return "The training loop was not measured yet."
    shares = "; ".join(
        f"{row['loss']} {100 * row['ratio']:.1f} % ({row['loop_images_per_second']:.0f} of {row['bare_images_per_second']:.0f} "
        "images/s)"
        for row in rows
    )
    about = rows[0]
    return (
        f"The training loop of `{about['recipe']}` ({about['network']}), with loading, augmentation and measures, as a share "
        f"of the bare forward, backward and step on data in memory, {about['threads']} threads: {shares}. Measured on "
        f"{about['date'][:10]} by `python -m benchmarks.loop`."
    )


def bags_sentence(rows: list[dict[str, Any]]) -> str:
    """What a training step on a large bag costs."""
    if not rows:
        return "No step on a large bag was measured yet."
    steps = "; ".join(
        f"{row['model']}{' with activation checkpointing' * bool(row['options'].get('checkpoint'))} {row['seconds']:.3g} s "
        f"of processor time and {row['peak_gb']:.3g} GB, program and bag included (goal {row['limit_gb']:.0f} GB"
        f"{', missed' * (row['peak_gb'] > row['limit_gb'])})"
        for row in rows
    )
    about = rows[0]
    return (
        f"One training step on a bag of {about['instances']:,} × {about['width']:,} float16 numbers, "
        f"{about['threads']} thread{'s' * (about['threads'] > 1)}: {steps}. Measured on {about['date'][:10]} by "
        "`python -m benchmarks.bags`."
    )


def _cell(row: dict[str, Any]) -> str:
    if row["median_ms"] is None:
        return "does not fit"
    numbers = f"{_short(row['median_ms'])} ms, {_short(row['peak_mb'])} MB"
    return numbers if row["contender"] == "cross-entropy" else f"{_short(row['ratio'])} × ({numbers})"


def _short(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def replace_block(text: str, block: str) -> str:
    """``text`` with ``block`` between the markers."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"benchmarks.table: the file must contain the lines {START} and {END}, in this order.")
    return f"{before}{START}\n\n{block}\n\n{END}{after}"


def main() -> None:
    """Rewrite or check the block."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path, help="file with the markers, such as README.md")
    parser.add_argument("--check", action="store_true", help="only say whether the block is in step")
    parser.add_argument("--rows", type=Path, default=RESULTS, help="file of rows that benchmarks.head wrote")
    parser.add_argument("--loop-rows", type=Path, default=LOOP_RESULTS, help="file of rows that benchmarks.loop wrote")
    parser.add_argument("--bag-rows", type=Path, default=BAG_RESULTS, help="file of rows that benchmarks.bags wrote")
    options = parser.parse_args()
    text = options.document.read_text(encoding="utf-8")
    sentences = (loop_sentence(newest_run(options.loop_rows)), bags_sentence(newest_run(options.bag_rows)))
    block = "\n\n".join([render(newest_run(options.rows)), *sentences])
    wanted = replace_block(text, block)
    if wanted == text:
        return
    if options.check:
        sys.exit(
            f"{options.document} is out of step with {options.rows}. Run: python -m benchmarks.table {options.document}"
        )
    options.document.write_text(wanted, encoding="utf-8")
    print(f"{options.document}: benchmark table rewritten")


if __name__ == "__main__":
    main()
