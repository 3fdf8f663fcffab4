"""Reproduce tables and figures of the paper: trainings, measurements, and the table or picture made of them."""

import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("item", type=str, nargs="*", help="names of items, or all; with none, a list of them")
    parser.add_argument(
        "--scale",
        type=str,
        default="small",
        choices=["smoke", "small", "full"],
        help="seconds; minutes on real data (the default); or the paper's own protocol",
    )
    parser.add_argument("--out", type=str, default="results/reproduce", help="rows, tables and pictures go below it")
    parser.add_argument("--jobs", type=int, help="runs side by side (by default one for each core; with a GPU, 1)")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the runs, which of them are done, and an estimate; train nothing"
    )
    parser.add_argument(
        "--tflops",
        type=float,
        help="10^12 operations a second of your GPU, for the estimate (by default 10: what the paper's times come to)",
    )


def run(arguments: Any) -> int:
    """Reproduce items one after the other; the exit code tells whether a signal stopped it."""
    from ncmi.experiments.reproduce import ITEMS, get_item, list_items

    if not arguments.item:
        width = max(map(len, ITEMS))
        for name, entry in ITEMS.items():
            print(f"{name.ljust(width)}  {entry.line}")
        return 0
    if arguments.tflops is not None and not 0 < arguments.tflops < float("inf"):
        raise ValueError(f"--tflops must be positive and finite; got {arguments.tflops:g}.")
    items = [get_item(name) for name in (list_items() if arguments.item == ["all"] else dict.fromkeys(arguments.item))]
    for item in items:
        place = _place(arguments, item.name)
        if arguments.dry_run:
            from ncmi.experiments.reproduce.dry_run import TFLOPS, describe_item

            print(describe_item(item, place, arguments.tflops or TFLOPS))
        elif code := _reproduce(item, place):
            return code
    return 0


def _place(arguments: Any, name: str) -> Any:
    import torch

    from ncmi.experiments.reproduce.item import Place

    jobs = 1 if arguments.jobs is None and torch.cuda.is_available() else arguments.jobs
    out, runs = Path(arguments.out, arguments.scale, name), Path("runs", "reproduce", arguments.scale, name)
    return Place(out, runs, arguments.scale, jobs, lambda line: print(line, flush=True))


def _reproduce(item: Any, place: Any) -> int:
    from ncmi.experiments.reproduce.run import reproduce
    from ncmi.training.loop import Stopped

    try:
        piece = reproduce(item, place)
    except Stopped as stopped:
        print(f"ncmi reproduce: {item.name}: {stopped}", file=sys.stderr)
        return 128 + stopped.number
    print(piece.markdown)
    print(f"Rows, table and pictures are in {place.out}.")
    return 0
