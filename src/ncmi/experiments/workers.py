"""``Workers``: cells as processes of their own, side by side; no cell runs twice at the same time."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from ncmi.tensor_files import write_atomically
from ncmi.training.config import Config
from ncmi.training.run_folder import RunFolder

try:
    import fcntl
except ImportError:  # Windows: there, one comparison at a time
    fcntl = None

_PATIENCE = 10.0  # seconds that a process gets to save before it is killed, when we are in a hurry ourselves
# What training and evaluation say when numbers ran away: the cell has failed, and a comparison goes on. Data that are not
# finite are another matter.
_DIVERGED = re.compile(r"training diverged|Lower the learning rate, clip gradients|scores must be numbers;")


@dataclass
class Worker:
    """A cell that runs.

    Args:
        name: of the cell.
        folder: its run folder.
        process: ``ncmi train``.
        lock: held while it runs and until :meth:`release`, by us and by the process: whoever dies, the other still has it.
        log: what the process prints.
        started: by the monotonic clock.
    """

    name: str
    folder: RunFolder
    process: subprocess.Popen[bytes]
    lock: IO[Any]
    log: Path
    started: float

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.process.returncode == 0 and self.folder.finished

    @property
    def diverged(self) -> bool:
        """Whether the run failed because its numbers ran away."""
        return self.process.returncode == 1 and _DIVERGED.search(self.sentence) is not None

    @property
    def sentence(self) -> str:
        """The last thing that the process said."""
        lines = [line for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        if self.process.returncode < 0:
            return f"it was ended by {signal.Signals(-self.process.returncode).name}; memory may have run out."
        own = [line for line in lines if line.startswith("ncmi train: ")]
        return (own or lines or [f"it ended with code {self.process.returncode}."])[-1].removeprefix("ncmi train: ")

    @property
    def seconds(self) -> float:
        """Time since its start."""
        return time.monotonic() - self.started

    def release(self) -> None:
        """Let other comparisons have the cell."""
        self.lock.close()


class Workers:
    """The cells that run. Leaving the context ends those that are left: they are asked to save first.

    Args:
        folder: where run folders lie, each with a file of settings, a log and a lock beside it.
        threads: that each process computes with.
    """

    def __init__(self, folder: Path, threads: int):
        self.folder, self.threads = folder, threads
        self.running: dict[str, Worker] = {}

    def __enter__(self) -> "Workers":
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self.running.values():
            worker.process.terminate()
        deadline = time.monotonic() + _PATIENCE
        for worker in self.running.values():
            try:
                worker.process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            worker.release()

    def run_folder(self, name: str) -> RunFolder:
        """The run folder of a cell."""
        return RunFolder(self.folder / name)

    def claim(self, name: str) -> IO[Any] | None:
        """The lock of a cell; ``None`` while another process has it."""
        lock = (self.folder / f"{name}.lock").open("w", encoding="utf-8")
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return lock

    def start(self, name: str, config: Config, lock: IO[Any]) -> None:
        """Train a cell that was claimed, or go on with it."""
        settings, log = self.folder / f"{name}.yaml", self.folder / f"{name}.log"
        text = yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True)
        write_atomically(settings, lambda file: file.write_text(text, encoding="utf-8"))
        folder = self.run_folder(name)
        command = [sys.executable, "-m", "ncmi", "train", str(settings), "--run-folder", str(folder.path)]
        # Into a file, not a pipe: if we are killed, the process can still speak.
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--resume", "--quiet"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
                pass_fds=() if fcntl is None else (lock.fileno(),),
            )
        self.running[name] = Worker(name, folder, process, lock, log, time.monotonic())

    def collect(self) -> list[Worker]:
        """The workers whose processes have ended since the last call; the caller releases them."""
        ended = [worker for worker in self.running.values() if worker.process.poll() is not None]
        for worker in ended:
            del self.running[worker.name]
        return ended

    def terminate(self) -> None:
        """Ask every process to save and leave; they are then collected as usual."""
        for worker in self.running.values():
            worker.process.terminate()


def count_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
