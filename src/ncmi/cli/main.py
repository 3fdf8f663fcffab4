"""Commands and their arguments; what goes wrong by a user's hand becomes one sentence."""

import os
import sys
import warnings
from collections.abc import Sequence

from ncmi.cli import (
    attention,
    classes,
    compare,
    doctor,
    evaluate,
    export,
    measure,
    mislabeled,
    ood,
    predict,
    recipes,
    report,
    reproduce,
    train,
)

_COMMANDS = {
    "train": train,
    "evaluate": evaluate,
    "attention": attention,
    "compare": compare,
    "reproduce": reproduce,
    "measure": measure,
    "report": report,
    "export": export,
    "predict": predict,
    "ood": ood,
    "mislabeled": mislabeled,
    "classes": classes,
    "recipes": recipes,
    "doctor": doctor,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 after an error, 2 after wrong usage, or 128 + the signal that stopped a run.

    Set ``NCMI_TRACEBACK=1`` to see where an error comes from.
    """
    try:
        from jsonargparse import ArgumentParser
    except ImportError:
        print(
            "ncmi: the command line needs jsonargparse, which is not installed: `pip install 'ncmi[train]'`.",
            file=sys.stderr,
        )
        return 1
    parser = ArgumentParser(
        prog="ncmi",
        allow_abbrev=False,
        version=sys.modules["ncmi"].__version__,
        description="Train classifiers by normalized conditional mutual information.",
    )
    commands = parser.add_subcommands(dest="command", required=True)
    for name, command in _COMMANDS.items():
        own = ArgumentParser(allow_abbrev=False, description=command.__doc__)
        command.add_arguments(own)
        commands.add_subcommand(name, own, help=(command.__doc__ or "").splitlines()[0])
    chosen = parser.parse_args(arguments)
    warnings.showwarning = _print_warning
    try:
        return _COMMANDS[chosen.command].run(chosen[chosen.command])
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, OSError, ImportError, ArithmeticError, RuntimeError) as error:
        if os.environ.get("NCMI_TRACEBACK"):
            raise
        # Not one of our own sentences: the place it comes from may be wanted.
        where = " (NCMI_TRACEBACK=1 shows where.)" if isinstance(error, TypeError | RuntimeError) else ""
        print(f"ncmi {chosen.command}: {_line(error)}{where}", file=sys.stderr)
        return 1


def _line(error: Exception) -> str:
    """The words of an error in one line; torch puts a traceback around those of a process that decodes images."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("Caught ") and " in DataLoader worker process " in lines[0]:
        return lines[-1].partition(": ")[2]
    return " ".join(lines)


def _print_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: object) -> None:
    """A warning as a line, without the place in the source that it comes from."""
    print(f"warning: {message}", file=sys.stderr)
