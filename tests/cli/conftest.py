"""A recipe, a finished run, and a command that must be refused."""

import json

import pytest
from command_line import QUICK

from ncmi.cli import main
from ncmi.training.run_folder import RunFolder


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "quick.yaml"
    path.write_text(json.dumps(QUICK))  # JSON is YAML
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory, recipe):
    """A finished run with cross-entropy, whose best epoch is not its last."""
    folder = tmp_path_factory.mktemp("runs") / "ce"
    settings = ["loss=ce", "epochs=4", "schedule=constant", "optimizer.lr=0.2"]
    assert main(["train", recipe, "--quiet", "--run-folder", str(folder), "--set", *settings]) == 0
    return RunFolder(folder)


@pytest.fixture
def refused(capsys):
    """Run a command that must fail with exit code 1 and one line on stderr; returns the line."""

    def run_command(*arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 1
        errors = capsys.readouterr().err
        assert errors.startswith(f"ncmi {arguments[0]}: ")
        assert errors.endswith("\n")
        assert errors.count("\n") == 1, errors
        assert "Traceback" not in errors
        return errors

    return run_command
