"""``Setup``: data and arithmetic of a run, without anything that learns."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ncmi.data.loaders import Loader
from ncmi.evaluation import (
    Evaluation,
    LabelledFeatures,
    Outputs,
    Validation,
    collect,
    evaluate,
    gather,
    outputs_of,
    validate,
)
from ncmi.models.mil import Bags
from ncmi.training.build import make_task
from ncmi.training.config import Config
from ncmi.training.processes import Processes
from ncmi.training.sources import make_source
from ncmi.training.task import Task, network_output

PARTS = ("train", "validation", "test")
_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Evaluated(NamedTuple):
    """What was measured of a task, and what its headline decision said of each test sample."""

    evaluation: Evaluation
    outputs: Outputs | None


class Setup:
    """What training and evaluation of a config share.

    Args:
        config: the run.
        processes: who computes it, and where.
    """

    def __init__(self, config: Config, processes: Processes):
        self.config, self.processes = config, processes
        self.dtype = torch.float64 if config.engine.precision == "float64" else torch.float32
        self.layout = torch.channels_last if config.engine.channels_last else torch.contiguous_format
        self.source = make_source(config)
        self._loaders: dict[int, Loader] = {}

    def make_task(self, initialize: bool = True) -> Task:
        """The config's task on the device, with the weights that it starts from or, if a checkpoint comes, random ones."""
        task = make_task(self.config, self.source, initialize).to(self.processes.device, self.dtype)
        return task.to(memory_format=self.layout)  # pyright: ignore[reportCallIssue]

    def loader(self, part: Any) -> Loader:
        """A part in order, for evaluation; made once, because its workers live on."""
        if id(part) not in self._loaders:
            self._loaders[id(part)] = self.source.test_loader(part, self.processes)
        return self._loaders[id(part)]

    def convert(self, images: Any) -> Any:
        """Images, or bags, in the type and memory layout of the network."""
        if isinstance(images, Bags):
            return images._replace(instances=images.instances.to(self.dtype))
        if images.ndim == 5:  # views of images, which become images in the task
            return images.to(self.dtype)
        return images.to(self.dtype, memory_format=self.layout)

    def autocast(self) -> AbstractContextManager:
        """The context of forward passes."""
        dtype = _AUTOCAST.get(self.config.engine.precision)
        return nullcontext() if dtype is None else torch.autocast(self.processes.device.type, dtype)

    def own_features(self, task: Task, part: Any) -> LabelledFeatures:
        """Features of this process's share of a part."""
        with self.autocast():
            return collect(_Converting(task.network, self), self.loader(part))

    def validate(self, task: Task, part: Any) -> Validation:
        """Loss, accuracy, information and the signs of collapse on a part."""
        with self.autocast():
            return validate(_Converting(task.network, self), task.criterion, self.loader(part))

    def evaluate(self, task: Task) -> Evaluated | None:
        """Every decision of the config on training, validation and test part: the one place that reads the test set.

        The decision that the loss is judged by is among them, whether the config names it or not.
        Only the main process gets a result; the others have done their share of the features.
        """
        parts = {name: getattr(self.source, name) for name in PARTS}
        features = {
            name: None if part is None else gather(self.own_features(task, part)) for name, part in parts.items()
        }
        if not self.processes.main:
            return None
        assert features["train"] is not None
        evaluation = evaluate(
            task.criterion.eval(),
            features["train"],
            features["validation"],
            features["test"],
            decisions=[*self.config.decisions, task.criterion.headline],
            patients={name: self.source.patients(part) for name, part in parts.items() if part is not None},
        )
        return Evaluated(evaluation, self._outputs(task, features))

    def _outputs(self, task: Task, features: dict[str, LabelledFeatures | None]) -> Outputs | None:
        """Those of the decision that the loss is judged by."""
        parts = {name: part for name, part in features.items() if part is not None}
        return outputs_of(task.criterion, parts, task.criterion.headline, self.source.class_names)


@contextmanager
def algorithms(config: Config, processes: Processes) -> Iterator[None]:
    """Only deterministic algorithms, if the config asks for them; afterwards what was set before."""
    settings: Any = torch.utils.deterministic
    mode, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    filled = settings.fill_uninitialized_memory
    on_cuda = processes.device.type == "cuda"
    if on_cuda:  # read when cuBLAS starts
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(config.engine.deterministic, warn_only=on_cuda)
    # The mode would also fill every new tensor, which costs time; nothing here reads what was never written.
    settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode, warn_only=warn_only)
        settings.fill_uninitialized_memory = filled


class _Converting(nn.Module):
    """A network that takes images of any type and layout, or bags, and returns features alone."""

    def __init__(self, network: nn.Module, setup: Setup):
        super().__init__()
        self.network, self.convert = network, setup.convert

    def forward(self, images: Any) -> Tensor:
        return network_output(self.network, self.convert(images)).features
