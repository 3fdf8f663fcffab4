"""Train a recipe, and evaluate its last epoch on the test set.

For several processes: torchrun --nproc-per-node 2 -m ncmi train RECIPE
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "recipe", type=str, help="a name that `ncmi recipes` lists, a YAML file, or a run folder to go on with"
    )
    parser.add_argument(
        "--set",
        action="append",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="override settings: loss=ce optimizer.lr=0.1",
    )
    parser.add_argument(
        "--run-folder", type=str, help="where the run leaves its files (by default runs/<recipe>-<loss>-seed<seed>)"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the run folder's last checkpoint")
    parser.add_argument("--init-from", type=str, help="weights to start from: ours, torchvision's or timm's")
    parser.add_argument("--device", type=str, help="such as cpu or cuda:1 (by default a GPU if there is one)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no lines")
    parser.add_argument("--dry-run", action="store_true", help="print the whole config, and train nothing")


def run(arguments: Any) -> int:
    """Train; the exit code tells whether a signal stopped the run."""
    import yaml

    from ncmi.recipes import read_recipe
    from ncmi.training.config import make_config

    overrides = [override for group in arguments.set for override in group]
    if arguments.init_from is not None:
        overrides.append(f"model.init_from={json.dumps(arguments.init_from)}")  # quoted, since values are read as YAML
    folder, config = arguments.run_folder, None
    if (Path(arguments.recipe) / "config.yaml").is_file():
        if overrides or folder or not arguments.resume:
            raise ValueError(
                f"{arguments.recipe} is a run folder. It goes on with --resume, and without --set and --run-folder."
            )
        folder = arguments.recipe
    else:
        config = make_config(read_recipe(arguments.recipe), overrides, owner=f"recipe {arguments.recipe}")
        folder = folder or _default_folder(arguments.recipe, config)
    if arguments.dry_run:
        if config is None:
            from ncmi.training.run_folder import RunFolder

            config = RunFolder(folder).read_config()
        print(yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True), end="")
        return 0
    return _train(config, folder, arguments)


def _train(config: Any, folder: str, arguments: Any) -> int:
    from ncmi.training.loop import Stopped, train
    from ncmi.training.run_folder import RunFolder

    place = RunFolder(folder)
    finished = place.finished
    try:
        train(config, place, resume=arguments.resume, device=arguments.device, quiet=arguments.quiet)
        if finished and not arguments.quiet and _speaks():
            print(f"{folder}: this run is finished; `ncmi evaluate {folder}` prints its table.")
    except Stopped as stopped:
        if _speaks():
            print(stopped, file=sys.stderr)
        return 128 + stopped.number
    return 0


def _default_folder(recipe: str, config: Any) -> str:
    name = Path(recipe).stem if recipe.endswith((".yaml", ".yml")) else recipe.replace("/", "-")
    return str(Path("runs") / f"{name}-{config.loss.name}-seed{config.seed}")


def _speaks() -> bool:
    """Whether this process prints: one of all those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"
