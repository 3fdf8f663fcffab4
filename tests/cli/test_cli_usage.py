"""The command line: instant help, every option explained, wrong usage."""

import subprocess
import sys

import pytest

import ncmi
from ncmi.cli import main
from ncmi.cli.main import _COMMANDS

COMMANDS = [
    *("train", "evaluate", "report", "measure", "attention", "export", "predict", "ood", "mislabeled", "classes"),
    *("reproduce", "recipes", "doctor"),
]


class Recorded:
    """Takes the place of a parser, to see which arguments a command adds."""

    def __init__(self, command):
        self.arguments = {}
        _COMMANDS[command].add_arguments(self)

    def add_argument(self, *names, **settings):
        self.arguments[names[-1]] = settings


def usage(*arguments):
    """What a command that ends in the parser says, and its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def test_the_version_is_that_of_the_package(capsys):
    assert usage("--version") == 0
    assert ncmi.__version__ in capsys.readouterr().out


def test_help_and_recipes_do_not_wait_for_torch():
    program = """
import contextlib, io, sys
from ncmi.cli import main
for arguments in [["--help"], *([name, "--help"] for name in sys.argv[1:]), ["recipes"], ["recipes", "--print", "digits"],
                  ["train", "digits", "--dry-run", "--set", "loss=ce"]]:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as printed:
        main(arguments)
    assert printed.getvalue(), arguments
    heavy = {"torch", "numpy", "torchmetrics", "sklearn", "matplotlib"} & set(sys.modules)
    assert not heavy, (arguments, heavy)
"""
    run = subprocess.run([sys.executable, "-c", program, *COMMANDS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_argument(capsys, command):
    assert usage(command, "--help") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert " ".join(_COMMANDS[command].__doc__.splitlines()[0].split()) in printed
    arguments = Recorded(command).arguments
    assert arguments
    for name, settings in arguments.items():
        assert name in printed
        assert " ".join(settings["help"].split()) in printed


def test_the_help_names_every_command(capsys):
    assert usage("--help") == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in _COMMANDS)
    assert set(COMMANDS) <= set(_COMMANDS)


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_torchrun_lets_every_option_through(command):
    """Its parser takes a beginning of its own options for an option, or for an error if it fits two, as --run would."""
    from torch.distributed.run import get_args_parser

    given = ["train", "digits"]
    for name, settings in Recorded(command).arguments.items():
        given += [name] if settings.get("action") == "store_true" else [name, "value"]
    parsed = get_args_parser().parse_args(["--nproc-per-node", "2", "-m", "ncmi", *given])
    assert parsed.training_script == "ncmi"
    assert parsed.training_script_args == given


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], 'expected "command" to be one of'),
        (["bogus"], "invalid choice: 'bogus'"),
        (["train"], "required: train.recipe"),
        (["train", "digits", "--epochs", "3"], "unrecognized arguments: --epochs"),
        (["evaluate", "runs/x", "--checkpoint", "first"], "invalid choice: 'first'"),
        (["measure", "--temperature", "warm"], "temperature"),
    ],
    ids=["nothing", "unknown command", "no recipe", "unknown option", "unknown choice", "no number"],
)
def test_wrong_usage_is_exit_code_2(capsys, arguments, words):
    assert usage(*arguments) == 2
    errors = capsys.readouterr().err
    assert words in errors
    assert "Traceback" not in errors
