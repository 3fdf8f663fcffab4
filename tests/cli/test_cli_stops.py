"""The command line: signals, and readers that leave."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ncmi.cli import main


def send_when(condition, number):
    """Send this process a signal as soon as something holds; the main thread gets it."""

    def watch():
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.01)
        if condition():
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_training_with_a_line_and_its_exit_code(tmp_path, capsys, recipe, number, code):
    folder = tmp_path / "run"
    thread = send_when((folder / "checkpoints" / "last.pt").is_file, number)
    assert main(["train", recipe, "--quiet", "--run-folder", str(folder), "--set", "epochs=2000"]) == code
    thread.join()
    errors = capsys.readouterr().err
    assert errors.startswith("stopped in epoch ")
    assert errors.endswith(f"and saved. Go on with `ncmi train {folder} --resume`.\n")
    assert errors.count("\n") == 1


def test_an_interrupt_of_any_command_is_exit_code_130(capsys, monkeypatch):
    from ncmi.cli import recipes

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    monkeypatch.setattr(recipes, "run", lambda chosen: signal.raise_signal(signal.SIGINT))
    try:
        assert main(["recipes"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == ""


def test_a_reader_that_has_seen_enough_is_no_error():
    with subprocess.Popen(
        [sys.executable, "-m", "ncmi", "recipes"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141
