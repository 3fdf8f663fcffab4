"""The bar appears on a terminal alone, with its values; lines always reach stdout whole; silent processes are silent."""

import os
import re
import select
import struct
import subprocess
import sys
import time

import pytest

from ncmi.training.progress import Progress

CODE = """
import sys, time
import torch
from ncmi.training.progress import Progress

enabled = sys.argv[1] == "enabled"
progress = Progress(total_steps=1000, start_step=500, enabled=enabled)
for step in range(501, 1001):
    values = {"epoch": 1 + step // 500, "loss": torch.tensor(0.5), "cmi": 0.0123, "gamma": 1.5, "ncmi": 0.0082}
    progress.update(step, {**values, "accuracy": 0.912, "images_per_second": 1234.5, "lr": 0.1})
    time.sleep(0.002)
    if step % 250 == 0:
        progress.line(f"epoch {step // 500}: Γ 1.5")
progress.close()
progress.line("end")
print("threads", __import__("threading").active_count())
"""
LINES = ["epoch 1: Γ 1.5", "epoch 2: Γ 1.5", "end", "threads 1"]


def terminal(columns):
    """Both ends of a pseudo-terminal of that width."""
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return master, slave


def read_all(master, process):
    """What a process writes to the terminal until it ends."""
    written = b""
    while True:
        ready, _, _ = select.select([master], [], [], 0.1)
        if ready:
            try:
                written += os.read(master, 65536)
            except OSError:  # the other end is closed
                return written.decode()
        elif process.poll() is not None:
            return written.decode()


def run(columns, enabled="enabled", lines_too=False):
    """stdout and stderr of the run, with stderr (or both) on a terminal."""
    master, slave = terminal(columns)
    try:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", CODE, enabled],
            stdout=slave if lines_too else subprocess.PIPE,
            stderr=slave,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        os.close(slave)
        with process:
            shown = read_all(master, process)
            said = "" if lines_too else process.stdout.read().decode()
        assert process.returncode == 0, shown
    finally:
        os.close(master)
    return said, shown


def test_a_terminal_shows_everything():
    said, shown = run(columns=140)
    assert said.splitlines() == LINES
    bars = [bar for bar in shown.split("\r") if "|" in bar]
    # The beginning, then at most five a second, and once more after each line above.
    assert 4 <= len(bars) <= 20
    assert re.match(r" 5[01]% \|", bars[0])
    assert bars[-1].startswith("100% |")
    assert re.search(
        r"\| \d\d:\d\d, loss 0\.5, acc 91\.2%, NCMI 0\.0082, CMI 0\.0123, Γ 1\.5, 123[45] samples/s, epoch 3",
        bars[-1],
    )
    assert all(len(bar) <= 140 for bar in bars)
    assert "0.1" not in bars[-1].replace("0.0123", "")  # the learning rate has no place
    # Nothing is left of the bar at the end.
    assert shown.split("\r")[-2].strip() == ""


def test_lines_stand_above_the_bar():
    _, shown = run(columns=140, lines_too=True)
    # What a terminal shows: each carriage return starts the row again, blanks cover what was there.
    rows = []
    for row in shown.replace("\r\n", "\n").split("\n"):
        cells = ""
        for part in row.split("\r"):
            cells = part + cells[len(part) :]
        rows.append(cells.rstrip())
    assert [row for row in rows if row] == LINES


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_a_narrow_terminal_shows_whole_values(columns):
    _, shown = run(columns=columns)
    last = [bar for bar in shown.split("\r") if "%" in bar][-1].rstrip()
    assert len(last) <= columns
    values = last.split(", ")[1:]
    whole = ["loss 0.5", "acc 91.2%", "NCMI 0.0082", "CMI 0.0123", "Γ 1.5", "1234 samples/s", "epoch 3"]
    assert set(values) <= set(whole)
    assert len(values) >= {40: 2, 60: 4, 80: 6, 100: 7}[columns]


def test_a_terminal_that_does_not_know_its_width():
    _, shown = run(columns=0)
    assert "loss 0.5" in shown


def test_other_ranks_say_nothing():
    said, shown = run(columns=80, enabled="disabled")
    assert said.splitlines() == ["threads 1"]
    assert shown == ""


def test_a_pipe_gets_lines_alone():
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, "enabled"],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        check=True,
    )
    assert process.stdout.splitlines() == LINES
    assert process.stderr == ""


class Terminal:
    """A stand-in for stderr that says it is a terminal, for the tests that time or count inside this process."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def write(self, text):
        return len(text)

    def flush(self):
        pass

    def fileno(self):
        raise OSError("no descriptor")


class Counted(float):
    reads = 0

    def __float__(self):
        Counted.reads += 1
        return 0.5


def test_values_are_read_five_times_a_second(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress = Progress(total_steps=10**9)
    Counted.reads = 0
    start = time.perf_counter()
    steps = 0
    while time.perf_counter() - start < 0.9:
        steps += 1
        progress.update(steps, {"loss": Counted()})
    progress.close()
    assert 3 <= Counted.reads <= 5
    assert steps > 50_000  # far below the time of any training step


def test_no_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    Progress(total_steps=1, enabled=False).close()
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(ImportError, match=r"Progress: the bar needs the package tqdm: `pip install tqdm`, or enabled"):
        Progress(total_steps=1)
