"""``Task``: network and criterion in one module, so that DDP, optimiser and checkpoint hold all of it.

Shapes: B samples, D feature width.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from ncmi.criteria import Criterion
from ncmi.distributed import sum_over_ranks, world_size
from ncmi.models.mil import BagOutput, Bags


class Task(nn.Module):
    """Images and targets in; the loss, and the features (B, D) without a gradient, out.

    Images (B, V, …) are V views of each sample; the loss gets features (B, V, D), and the first view's come out.

    Args:
        network: returns features (B, D).
        criterion: their loss and decision.
        frozen: the network does not learn, and stays in evaluation mode.
        micro_batch: samples that go through the network at a time. Activations of the parts are recomputed in the backward
            pass, one part after the other, while the loss sees all features at once: what ``rivals`` and a ratio of means
            need. Batch normalisation takes the statistics of each part.
    """

    def __init__(self, network: nn.Module, criterion: Criterion, frozen: bool = False, micro_batch: int | None = None):
        super().__init__()
        self.network = network
        self.criterion = criterion
        self.frozen = frozen
        self.micro_batch = micro_batch
        if frozen:
            network.requires_grad_(False)

    def forward(self, images: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and its features."""
        if self.criterion.views == 1:
            output = self.features(images)
            return self.criterion(output.features, targets) + self._auxiliary(output), output.features.detach()
        output = self.features(images.flatten(0, 1))
        features = output.features.unflatten(0, images.shape[:2])
        return self.criterion(features, targets) + self._auxiliary(output), features.detach()[:, 0]

    def features(self, images: Any) -> "Output":
        """Features (B, D) of images or bags, and the network's own loss term."""
        size = self.micro_batch
        if size is None or num_samples(images) <= size or not torch.is_grad_enabled():
            return network_output(self.network, images)
        parts = [
            checkpoint(network_output, self.network, part, use_reentrant=False, context_fn=self._contexts)
            for part in split_samples(images, size)
        ]
        features, auxiliaries = zip(*parts, strict=True)  # pyright: ignore[reportArgumentType]
        counts = torch.tensor([len(part) for part in features], device=features[0].device)
        return Output(torch.cat(features), (torch.stack(auxiliaries) * counts).sum() / counts.sum())

    def _auxiliary(self, output: "Output") -> Tensor:
        """The network's own loss term; in training its mean over the samples of all ranks, whose shares may differ."""
        term = output.auxiliary
        if world_size() == 1 or not (self.training and term.requires_grad):
            return term
        count = term.new_tensor(float(len(output.features)))
        total, count = sum_over_ranks(term * count, count)
        return total / count

    def _contexts(self) -> tuple[AbstractContextManager, AbstractContextManager]:
        return nullcontext(), _unmoved_statistics(self.network)

    def train(self, mode: bool = True) -> "Task":
        """Training or evaluation mode; a frozen network stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.network.eval()
        return self


class Output(NamedTuple):
    """Features (B, D), and a loss term of the network's own: its mean over the samples, zero where there is none."""

    features: Tensor
    auxiliary: Tensor


def network_output(network: nn.Module, images: Any) -> Output:
    """What a network gives for images, or a bag model for bags."""
    output = network(images)
    if isinstance(output, BagOutput):
        return Output(output.features, output.auxiliary)
    return Output(output, output.new_zeros(()))


def num_samples(images: Any) -> int:
    """How many images or bags there are."""
    return len(images.lengths) if isinstance(images, Bags) else len(images)


def split_samples(images: Any, size: int) -> Iterable[Any]:
    """The images, or bags, in parts of ``size``."""
    if not isinstance(images, Bags):
        return images.split(size)
    counts = images.lengths.split(size)
    instances = images.instances.split([int(part.sum()) for part in counts])
    return [Bags(*part) for part in zip(instances, counts, strict=True)]


@contextmanager
def _unmoved_statistics(network: nn.Module) -> Iterator[None]:
    """Running statistics of batch normalisation as they were: a recomputed forward must not count twice."""
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    before = [[buffer.clone() for buffer in norm.buffers()] for norm in norms]
    try:
        yield
    finally:
        with torch.no_grad():
            for norm, values in zip(norms, before, strict=True):
                for buffer, value in zip(norm.buffers(), values, strict=True):
                    buffer.copy_(value)
