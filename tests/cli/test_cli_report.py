"""ncmi report: what it prints and writes, and a sentence for each thing that can go wrong."""

from pathlib import Path

import pytest
from command_line import copy_of

from ncmi.cli import main


def test_a_page_about_a_run(capsys, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(run.path)]) == 0
    assert capsys.readouterr().out == "report.html: 1 run, 0.1 MB. Open it in a browser.\n"
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    stopped = copy_of(run, tmp_path / "stopped")
    assert main(["report", str(run.path), str(stopped.path), "-o", "both.html"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        f"stopped: The run is not finished: no epoch so far. `ncmi train {stopped.path} --resume` goes on with it."
    )
    assert lines[1].startswith("both.html: 2 runs, ")


def test_refusals(refused, run, tmp_path):
    assert "missing is not a folder. Check the path." in refused("report", run.path, tmp_path / "missing")
    assert "holds no run: there is no config.yaml in it." in refused("report", tmp_path)
    assert "is a folder. Name a file" in refused("report", run.path, "-o", tmp_path)
    assert "Create it, or name another place with -o." in refused("report", run.path, "-o", tmp_path / "no" / "a.html")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no folder here that even root cannot write to")
def test_a_folder_without_permission(refused, run):
    errors = refused("report", run.path, "-o", "/proc/self/report.html")
    assert "could not be written" in errors
    assert "check the permissions of the folder" in errors
