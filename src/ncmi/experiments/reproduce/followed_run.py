"""``follow``: a run by the package's own loop, looked at after each epoch; nothing of it is kept."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ncmi.criteria import NCMICriterion
from ncmi.evaluation import LabelledFeatures
from ncmi.training.config import Config
from ncmi.training.environment import describe_environment
from ncmi.training.loop import end_epoch, train_epoch
from ncmi.training.processes import StopSignal, join_processes
from ncmi.training.progress import Progress
from ncmi.training.run import Run
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup, algorithms
from ncmi.training.trackers import make_trackers


class Look(NamedTuple):
    """A run after an epoch.

    Args:
        row: of the epoch, as the log has it.
        features: of the validation part, on the CPU.
        center: what the loss subtracts from features, if it does.
        class_names: the class index is the position.
        criterion: the loss with its decision, in evaluation mode.
    """

    row: dict[str, Any]
    features: LabelledFeatures
    center: Tensor | None
    class_names: tuple[str, ...]
    criterion: NCMICriterion


def follow(config: Config) -> Iterator[Look]:
    """The run of a config with the loss ``ncmi`` and a validation part, epoch by epoch, in this process."""
    with (
        tempfile.TemporaryDirectory() as path,
        join_processes() as processes,
        algorithms(config, processes),
        closing(make_trackers([], path, {})) as trackers,
    ):
        folder = RunFolder(path)
        run = Run(Setup(config, processes), folder)
        criterion, validation = run.task.criterion, run.setup.source.validation
        if not isinstance(criterion, NCMICriterion) or validation is None:
            raise ValueError(
                "follow: it looks at the centre of NCMI on a validation part. Set loss=ncmi and data.validation."
            )
        folder.create(config, describe_environment(processes.device))
        progress, stop = Progress(config.epochs * len(run.batches), enabled=False), StopSignal()
        while run.state.epoch < config.epochs:
            train_epoch(run, progress, stop)
            row = end_epoch(run, trackers)
            run.task.eval()
            mean = criterion.loss.center.mean
            center = None if mean is None else mean.detach().cpu().to(torch.float32, copy=True)
            features = run.setup.own_features(run.task, validation)
            yield Look(row, features, center, tuple(run.setup.source.class_names), criterion)
