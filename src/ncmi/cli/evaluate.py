"""Evaluate a run: every decision, calibration, and CMI, Γ and NCMI, on training, validation and test part."""

import json
from typing import Any


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("run", type=str, help="the run folder")
    parser.add_argument("--checkpoint", type=str, default="last", choices=["last", "best"], help="which weights")
    parser.add_argument("--set", action="append", nargs="+", default=[], metavar="KEY=VALUE", help="as data.folder=…")
    parser.add_argument("--device", type=str, help="such as cpu or cuda:1 (by default a GPU if there is one)")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")


def run(arguments: Any) -> int:
    """Print the table; without overrides it is also written to the run folder."""
    from ncmi.training.config import make_config
    from ncmi.training.processes import join_processes
    from ncmi.training.run import load_task
    from ncmi.training.run_folder import RunFolder
    from ncmi.training.setup import Setup, algorithms

    folder = RunFolder(arguments.run)
    overrides = [override for group in arguments.set for override in group]
    config = make_config(folder.read_config().to_dict(), overrides, owner=arguments.run)
    with join_processes(arguments.device) as processes, algorithms(config, processes):
        setup = Setup(config, processes)
        evaluated = setup.evaluate(load_task(setup, folder, arguments.checkpoint))
        if evaluated is not None:
            evaluation = evaluated.evaluation
            content = {"checkpoint": arguments.checkpoint, "overrides": overrides, **evaluation.to_dict()}
            if not overrides:  # the folder keeps what belongs to its own config
                folder.write_json(folder.path / f"evaluation-{arguments.checkpoint}.json", content)
                if arguments.checkpoint == "last":  # as the headline numbers are
                    folder.save_outputs(evaluated.outputs)
            print(json.dumps(content, indent=1) if arguments.json else evaluation.table())
        processes.wait()
    return 0
