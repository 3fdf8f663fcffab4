"""``Run``: everything that learns, where it stands, and how it is saved and found again."""

import math
import time
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ncmi.distributed import broadcast_state
from ncmi.training.average import WeightAverage
from ncmi.training.build import make_optimizer
from ncmi.training.monitor import CollapseMonitor, check_finite_weights
from ncmi.training.run_folder import RunFolder
from ncmi.training.schedule import make_schedule
from ncmi.training.setup import Setup
from ncmi.training.task import Task


@dataclass
class State:
    """Where a run stands: what a checkpoint holds beside tensors."""

    step: int = 0
    epoch: int = 0  # epochs that are finished and logged
    best: float = -math.inf
    best_epoch: int = 0
    seconds: float = 0.0
    # Sums over the steps of the current epoch.
    loss: float = 0.0
    accuracy: float = 0.0
    measured: int = 0
    epoch_seconds: float = 0.0


class Run:
    """A run in memory, at its last checkpoint if it has one.

    Everything random is a function of (seed, step, rank) or (seed, epoch, sample), so a checkpoint holds no random state.

    Args:
        setup: its data and arithmetic.
        folder: its files.
        started: whether the run was started before, so that a checkpoint there is its own.
    """

    def __init__(self, setup: Setup, folder: RunFolder, started: bool = False):
        config, processes = setup.config, setup.processes
        self.setup, self.config, self.processes, self.folder = setup, config, processes, folder
        saved = started and folder.last.is_file()
        self.task = setup.make_task(initialize=not saved)
        if self.task.criterion.needs_start and not saved:
            start = setup.own_features(self.task, setup.source.train)
            self.task.criterion.start(start.features.to(processes.device), start.targets.to(processes.device))
        self.batches = setup.source.train_loader(processes, self.task.criterion.views)
        self.images_per_step = min(config.batch_size, len(setup.source.train))
        self.optimizer = make_optimizer(config, self.task)
        self.schedule = make_schedule(config.schedule, config.epochs, len(self.batches))
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=config.engine.precision == "fp16")
        self.average = WeightAverage(self.task, config.engine.ema) if config.engine.ema else None
        self.monitor = CollapseMonitor(setup.source.num_classes)
        self.state = State()
        if saved:
            self._load()
        self.module = self._wrapped()
        self.saved_at = time.monotonic()

    def evaluated(self) -> Task:
        """The task whose weights count, the moving average if there is one, equal on all ranks."""
        task = self.task if self.average is None else self.average.module
        broadcast_state(task)  # running statistics of batch normalisation are each rank's own
        return task

    def save(self, best: bool = False) -> None:
        """Replace the last checkpoint; weights that are not finite never get there."""
        for task in (self.task,) if self.average is None else (self.task, self.average.module):
            check_finite_weights(task, self.state.epoch)
        if self.processes.main:
            content = {
                "task": self.task.state_dict(),
                "average": {} if self.average is None else self.average.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "state": asdict(self.state),
            }
            self.folder.save_checkpoint(content, best)
        self.saved_at = time.monotonic()

    def _load(self) -> None:
        content = self.folder.read_checkpoint()
        try:
            self.task.load_state_dict(content["task"])
            if self.average is not None:
                self.average.load_state_dict(content["average"])
            self.optimizer.load_state_dict(content["optimizer"])
            self.scaler.load_state_dict(content["scaler"])
            self.state = State(**content["state"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(_unfit(self.folder, "last")) from error

    def _wrapped(self) -> nn.Module:
        if self.config.engine.compile:
            self.task.compile()
        if self.processes.size == 1:
            return self.task
        devices = [self.processes.device] if self.processes.device.type == "cuda" else None
        return DistributedDataParallel(self.task, device_ids=devices)


def load_task(setup: Setup, folder: RunFolder, which: str = "last") -> Task:
    """The task of a run as it was at its checkpoint ``last`` or ``best``, in evaluation mode."""
    content = folder.read_checkpoint(which)
    task = setup.make_task(initialize=False)
    try:
        task.load_state_dict(content["average"]["module"] if content["average"] else content["task"])
    except (KeyError, RuntimeError, TypeError) as error:
        raise ValueError(_unfit(folder, which)) from error
    return task.eval()


def _unfit(folder: RunFolder, which: str) -> str:
    return (
        f"{folder.path}: checkpoint {which} does not fit the config. Leave out what changes the network or the loss, and leave "
        "config.yaml as the run wrote it."
    )
