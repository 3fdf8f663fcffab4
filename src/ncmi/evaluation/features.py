"""Labelled features: what a network makes of a data set, on one rank or on all.

Shapes: N samples, B of a batch, D feature width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ncmi.checks import check_features, check_tensor
from ncmi.data.loaders import Batch
from ncmi.distributed import world_size
from ncmi.heads.inputs import extract, frozen

Progress = Callable[[int, int], None]

_NUMBERS_A_MESSAGE = 2**24


class Batches(Protocol):
    """A loader: batches in order, and their number. ``ncmi.data`` loaders are such, and so is a list."""

    def __iter__(self) -> Iterator[Batch]:
        """The batches of this rank."""
        ...

    def __len__(self) -> int:
        """Their number."""
        ...


@dataclass(frozen=True, eq=False)
class LabelledFeatures:
    """Features with their classes.

    Args:
        features: real numbers (N, D).
        targets: class indices int64 (N,).
        class_names: names of the classes, if they came with names; the class index is the position.

    >>> part = LabelledFeatures(torch.zeros(3, 8), torch.tensor([0, 1, 1]))
    >>> len(part), part.num_features
    (3, 8)
    """

    features: Tensor
    targets: Tensor
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_tensor("LabelledFeatures", "features", self.features)
        check_tensor("LabelledFeatures", "targets", self.targets)
        if self.features.ndim != 2 or not self.features.is_floating_point():
            raise ValueError(
                f"LabelledFeatures: features must be real numbers of shape (N, D); got {self.features.dtype} of shape "
                f"{tuple(self.features.shape)}. Pool or flatten them to one row a sample, and pass them as floats."
            )
        if self.targets.dtype != torch.int64 or self.targets.shape != self.features.shape[:1]:
            raise ValueError(
                f"LabelledFeatures: targets must be int64 class indices of shape ({len(self.features)},), one a row of "
                f"features; got {self.targets.dtype} of shape {tuple(self.targets.shape)}."
            )

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def num_features(self) -> int:
        """D."""
        return self.features.shape[1]

    def rows(self, indices: Tensor) -> "LabelledFeatures":
        """The samples at ``indices`` (n,), in that order."""
        return replace(self, features=self.features[indices], targets=self.targets[indices])

    def chunks(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Features and targets in pieces of at most ``size`` rows; none if there is no sample."""
        for start in range(0, len(self), size):
            yield self.features[start : start + size], self.targets[start : start + size]


@torch.no_grad()
def collect(network: nn.Module, loader: Batches, progress: Progress | None = None) -> LabelledFeatures:
    """Features of every sample that ``loader`` gives to this rank, in its order, on the CPU.

    The network runs in evaluation mode and gets the modes of its submodules back. Nothing is communicated, so ranks may
    have different numbers of steps; :func:`gather` joins their parts. All ranks must hold the same network: after training
    under DDP with BatchNorm, whose running statistics differ from rank to rank, call
    :func:`ncmi.distributed.broadcast_state` first. A rank without a sample gets features of shape (0, 0).

    Args:
        network: maps images to features (B, D).
        loader: a loader of ``ncmi.data`` that goes through the set in order.
        progress: called after each batch with the steps done and their number.

    >>> batch = Batch(torch.ones(4, 1, 2, 2), torch.tensor([0, 1, 0, 1]), torch.arange(4))
    >>> collect(nn.Flatten(), [batch, batch]).features.shape
    torch.Size([8, 4])
    """
    network, rows, labels = without_ddp(network), [], []
    with frozen(network):
        for step, batch in enumerate(loader, start=1):
            rows.append(network_features("collect", network, batch.images).cpu())
            labels.append(batch.targets.long().cpu())
            if progress is not None:
                progress(step, len(loader))
    if not rows:
        return LabelledFeatures(torch.zeros(0, 0), torch.zeros(0, dtype=torch.int64))
    return LabelledFeatures(torch.cat(rows), torch.cat(labels))


def gather(part: LabelledFeatures) -> LabelledFeatures:
    """The parts of all ranks joined in rank order, on every rank; to the bit what one process would have collected.

    Parts may differ in length and may be empty. Every rank must call it. Outside a process group, ``part`` itself.
    """
    if world_size() == 1:
        return part
    device = _exchange_device()
    own = torch.tensor([len(part), part.num_features, part.features.dtype == torch.float64], device=device)
    headers = _all_gather(own)
    lengths = [int(header[0]) for header in headers]
    widths = {int(header[1]) for header in headers if header[0] > 0}
    if len(widths) > 1:
        raise ValueError(
            f"gather: features must have one width on all ranks; got {sorted(widths)}. Collect them with the same network."
        )
    width = widths.pop() if widths else part.num_features
    dtype = torch.float64 if any(bool(header[2]) for header in headers) else torch.float32
    rows = max(1, _NUMBERS_A_MESSAGE // max(width, 1))
    features = _gather_rows(part.features.reshape(len(part), width).to(dtype), lengths, rows, device)
    targets = _gather_rows(part.targets, lengths, _NUMBERS_A_MESSAGE, device)
    return LabelledFeatures(features, targets, part.class_names)


def network_features(owner: str, network: nn.Module, images: Tensor) -> Tensor:
    """Checked features (B, D) of a batch, in float32 at least."""
    features = extract(network, images)
    check_tensor(owner, "features", features)
    check_features(owner, features, features.shape[1] if features.ndim == 2 else 0)
    return features.to(torch.promote_types(features.dtype, torch.float32))


def without_ddp(network: nn.Module) -> nn.Module:
    """The network inside DDP, whose first forward without a gradient sends buffers and so waits for a rank without a step."""
    return network.module if isinstance(network, DistributedDataParallel) else network


def _gather_rows(rows: Tensor, lengths: list[int], step: int, device: torch.device) -> Tensor:
    """Rows of all ranks in rank order, exchanged ``step`` rows at a time so that the padded copies stay small."""
    pieces: list[list[Tensor]] = [[] for _ in lengths]
    for start in range(0, max(lengths), step):
        own = rows[start : start + step]
        padded = own.new_zeros(min(step, max(lengths) - start), *rows.shape[1:], device=device)
        padded[: len(own)] = own.to(device)
        for rank, received in enumerate(_all_gather(padded)):
            pieces[rank].append(received[: max(0, lengths[rank] - start)].cpu())
    return torch.cat([piece for rank in pieces for piece in rank] or [rows])


def _all_gather(tensor: Tensor) -> list[Tensor]:
    received = [torch.empty_like(tensor) for _ in range(world_size())]
    dist.all_gather(received, tensor)
    return received


def _exchange_device() -> torch.device:
    """Where tensors must be to be sent: NCCL takes those on a GPU alone."""
    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
