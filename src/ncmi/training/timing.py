"""How long a run will take, from a few steps of it."""

import tempfile
import time

from ncmi.training.config import Config
from ncmi.training.loop import step
from ncmi.training.processes import Processes
from ncmi.training.run import Run
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup

_UNTIMED, _TIMED = 2, 5


def expected_minutes(config: Config, processes: Processes) -> float:
    """Minutes that all steps of a run will take, without validation; nothing is kept."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Setup(config, processes), RunFolder(folder))
        run.task.train()
        seconds, started = [], 0.0
        for place, batch in enumerate(run.batches):
            if place >= _UNTIMED:
                seconds.append(time.perf_counter() - started)
            if place == _UNTIMED + _TIMED:
                break
            started = time.perf_counter()
            step(run, batch)
    return sum(seconds) / len(seconds) * config.epochs * len(run.batches) / 60
