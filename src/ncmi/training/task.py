"""``Task``: network and criterion in one module, so that DDP, optimiser and checkpoint hold all of it.

Shapes: B samples, D feature width.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from ncmi.criteria import Criterion


class Task(nn.Module):
    """Images and targets in; the loss, and the features (B, D) without a gradient, out.

    Images (B, V, …) are V views of each sample; the loss gets features (B, V, D), and the first view's come out.

    Args:
        network: returns features (B, D).
        criterion: their loss and decision.
        frozen: the network does not learn, and stays in evaluation mode.
        micro_batch: samples that go through the network at a time. Activations of the parts are recomputed in the backward
            pass, one part after the other, while the loss sees all features at once: what a ratio of means needs. Batch
            normalisation takes the statistics of each part.
    """

    def __init__(self, network: nn.Module, criterion: Criterion, frozen: bool = False, micro_batch: int | None = None):
        super().__init__()
        self.network = network
        self.criterion = criterion
        self.frozen = frozen
        self.micro_batch = micro_batch
        if frozen:
            network.requires_grad_(False)

    def forward(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and its features."""
        if self.criterion.views == 1:
            features = self.features(images)
            return self.criterion(features, targets), features.detach()
        features = self.features(images.flatten(0, 1)).unflatten(0, images.shape[:2])
        return self.criterion(features, targets), features.detach()[:, 0]

    def features(self, images: Tensor) -> Tensor:
        """Features (B, D) of images."""
        if self.micro_batch is None or len(images) <= self.micro_batch or not torch.is_grad_enabled():
            return self.network(images)
        parts = [
            checkpoint(self.network, part, use_reentrant=False, context_fn=self._contexts)
            for part in images.split(self.micro_batch)
        ]
        return torch.cat(parts)  # pyright: ignore[reportArgumentType]

    def _contexts(self) -> tuple[AbstractContextManager, AbstractContextManager]:
        return nullcontext(), _unmoved_statistics(self.network)

    def train(self, mode: bool = True) -> "Task":
        """Training or evaluation mode; a frozen network stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.network.eval()
        return self


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
