"""The environment of a run: true, ready for JSON, without names of people, machines or folders; it never fails."""

import getpass
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
import torch
import torchmetrics

import ncmi
from ncmi.training.environment import describe_environment

KEYS = {
    *("ncmi", "commit", "uncommitted_changes", "python", "torch", "numpy", "torchmetrics", "cuda", "platform"),
    *("processor", "cores", "threads", "device", "device_name", "launch", "world_size", "started"),
}
CODE = """
import json, sys
from ncmi.training.environment import describe_environment

for line in sys.stdin:
    print(json.dumps(describe_environment("cpu")), flush=True)
"""


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the package's source in a folder of its own."""
    source = tmp_path_factory.mktemp("copy") / "src"
    shutil.copytree(Path(ncmi.__file__).parent, source / "ncmi", ignore=shutil.ignore_patterns("__pycache__"))
    (source / ".gitignore").write_text("__pycache__/\n")
    return source


def test_what_is_described():
    found = json.loads(json.dumps(describe_environment("cpu"), allow_nan=False))
    assert found.keys() == KEYS
    assert found["ncmi"] == ncmi.__version__
    assert (found["torch"], found["numpy"]) == (torch.__version__, np.__version__)
    assert found["torchmetrics"] == torchmetrics.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["threads"] == torch.get_num_threads()
    assert 1 <= found["cores"] <= (os.cpu_count() or 1)
    assert found["world_size"] == 1
    assert found["device"] == "cpu"
    assert found["processor"]
    assert found["device_name"] == found["processor"]
    assert found["cuda"] == torch.version.cuda
    started = datetime.fromisoformat(found["started"])
    assert started.utcoffset() == timedelta(0)
    assert abs(datetime.now(timezone.utc) - started) < timedelta(minutes=1)


def test_no_names_of_people_machines_or_folders():
    text = json.dumps(describe_environment(torch.device("cpu")))
    for name in (socket.gethostname(), getpass.getuser()):
        assert not re.search(rf"\b{re.escape(name)}\b", text)
    assert not re.search(r'"/|~/|[A-Z]:\\', text)


def test_the_commit_of_the_checkout(copied):
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    # A hook's variable must not lead to another repository.
    environment = {**os.environ, "PYTHONPATH": str(copied), "GIT_DIR": "/nowhere"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", CODE], env=environment, **pipes) as process:

        def described():
            process.stdin.write("again\n")
            process.stdin.flush()
            found = json.loads(process.stdout.readline())
            return found["commit"], found["uncommitted_changes"]

        assert described() == (None, None)

        git(copied, "init")
        # A repository around an installed package, as around a virtual environment, is somebody else's.
        git(copied, "commit", "--allow-empty", "-m", "theirs")
        assert described() == (None, None)

        git(copied, "add", ".")
        git(copied, "commit", "-m", "ours")
        commit = git(copied, "rev-parse", "HEAD")
        assert len(commit) == 40
        assert described() == (commit, False)

        (copied / "notes.txt").write_text("outside of the package")
        assert described() == (commit, False)
        new = copied / "ncmi" / "new.py"
        new.touch()
        assert described() == (commit, True)
        new.unlink()
        assert described() == (commit, False)
        with (copied / "ncmi" / "checks.py").open("a") as file:
            file.write("# changed\n")
        assert described() == (commit, True)


def test_without_git(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = describe_environment("cpu")
    assert found.keys() == KEYS
    assert found["commit"] is None
    # A git that only fails, and one that says something that is no text.
    program = tmp_path / "git"
    for body in ("exit 128", "printf '\\377\\376'"):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        assert describe_environment("cpu")["commit"] is None
