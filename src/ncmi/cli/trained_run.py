"""What commands about a trained run share: its folder, its weights, and where tables and pictures go."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ncmi.information import Trained


def add_run_arguments(parser: Any) -> None:
    """The run, its weights, and the folder that is written to."""
    parser.add_argument("run", type=str, help="the run folder")
    parser.add_argument(
        "--out", type=str, help="folder of table and pictures (by default information in the run folder)"
    )
    parser.add_argument("--checkpoint", type=str, default="last", choices=["last", "best"], help="which weights")
    parser.add_argument("--set", action="append", nargs="+", default=[], metavar="KEY=VALUE", help="as data.folder=…")


def add_top(parser: Any, what: str, count: int) -> None:
    """How many lines are printed."""
    parser.add_argument("--top", type=int, default=count, help=f"{what} that are printed; the table has all of them")


def check_top(arguments: Any) -> None:
    """A sentence if nothing would be printed."""
    if arguments.top < 1:
        raise ValueError(f"--top must be at least 1; got {arguments.top}.")


def open_named(arguments: Any) -> "tuple[Trained, Path]":
    """The run that the arguments name, and the folder of what is found."""
    from ncmi.information import open_run

    overrides = [override for group in arguments.set for override in group]
    trained = open_run(arguments.run, overrides, arguments.checkpoint)
    return trained, Path(arguments.out or Path(arguments.run) / "information")


def run_title(trained: "Trained") -> str:
    """What a picture of the run is called."""
    config = trained.setup.config
    return f"{config.model.name} trained with {config.loss.name} on {config.data.name}"
