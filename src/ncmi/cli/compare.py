"""Compare losses, and networks, on a recipe: each at its own best learning rate, then several seeds on the test set."""

import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("recipe", type=str, help="a name that `ncmi recipes` lists, or a YAML file")
    parser.add_argument(
        "--losses",
        type=str,
        required=True,
        help="names with commas between them, as ce,ncmi,ncmi:objective=theorem1 (a colon before each option); or all",
    )
    parser.add_argument(
        "--models", type=str, help="compare these networks too, each with every loss (by default the recipe's)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds each of them gets (by default 3)")
    parser.add_argument(
        "--rate-seeds",
        type=int,
        default=1,
        help="how many of them run at every rate, to choose it by their mean (by default 1; more for small validation parts)",
    )
    parser.add_argument(
        "--rates",
        type=str,
        help="learning rates to choose among, as 0.1,0.3,1 (by default the recipe's, a third and three times of it)",
    )
    parser.add_argument(
        "--set",
        action="append",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="override settings of the recipe, for all: epochs=5",
    )
    parser.add_argument("--out", type=str, help="where rows and table go (by default results/compare/<recipe>)")
    parser.add_argument("--jobs", type=int, help="runs side by side (by default one for each core; with a GPU, 1)")
    parser.add_argument("--retry-failed", action="store_true", help="run again what failed before, from its start")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the runs and which of them are done; train nothing"
    )


def run(arguments: Any) -> int:
    """Compare; the exit code tells whether a signal stopped it."""
    from ncmi.experiments.cells import Comparison
    from ncmi.experiments.compare import check_comparison, compare, describe
    from ncmi.training.loop import Stopped

    comparison = Comparison(
        arguments.recipe,
        _factors(arguments),
        arguments.seeds,
        _rates(arguments.rates),
        [override for group in arguments.set for override in group],
        rate_seeds=arguments.rate_seeds,
    )
    out = Path(arguments.out or Path("results") / "compare" / comparison.folder_name)
    runs = Path("runs") / "compare" / comparison.folder_name
    if arguments.dry_run:
        check_comparison(comparison)
        print(describe(comparison, out, runs))
        return 0
    import torch

    jobs = 1 if arguments.jobs is None and torch.cuda.is_available() else arguments.jobs
    try:
        table = compare(comparison, out, runs, jobs=jobs, retry_failed=arguments.retry_failed, say=_say)
    except Stopped as stopped:
        print(f"ncmi compare: {stopped}", file=sys.stderr)
        return 128 + stopped.number
    print(table.markdown())
    print(f"Rows and table are in {out}.")
    return 0


def _factors(arguments: Any) -> dict[str, list[str]]:
    """What is compared, by its key in the config."""
    models = {} if arguments.models is None else {"model": _names("--models", arguments.models, "abmil,transmil")}
    return {**models, "loss": _losses(arguments.losses)}


def _losses(text: str) -> list[str]:
    from ncmi.criteria import list_criteria
    from ncmi.experiments.losses import split_variant

    if text.strip() == "all":
        return list_criteria()
    losses = _names("--losses", text, "ce,ncmi; or all")
    for loss in losses:
        split_variant(loss)
    return losses


def _names(option: str, text: str, example: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"{option} needs names with commas between them, such as {example}.")
    return list(dict.fromkeys(names))


def _rates(text: str | None) -> list[float]:
    if text is None:
        return []
    try:
        return [float(rate) for rate in text.split(",")]
    except ValueError as error:
        raise ValueError(f"--rates needs numbers with commas between them, such as 0.1,0.3,1; got {text!r}.") from error


def _say(line: str) -> None:
    print(line, flush=True)
