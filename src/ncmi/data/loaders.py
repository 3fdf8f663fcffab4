"""Loaders: normalised batches on the device, from memory or from image files, with one interface.

Shapes: B samples of this rank's batch.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.utils import data as torch_data

from ncmi.data.batches import BatchPlan
from ncmi.data.folder import FolderSet
from ncmi.data.images import ImageSet


class Batch(NamedTuple):
    """Images (B, channels, height, width) as floats, targets (B,) and sample indices (B,), on one device."""

    images: Tensor
    targets: Tensor
    indices: Tensor


class BatchTransform(Protocol):
    """uint8 images (B, …) with sample indices (B,) to float images; ``Augment`` and ``Normalize`` are such."""

    def __call__(self, images: Tensor, indices: Tensor, epoch: int, seed: int) -> Tensor:
        """Float images (B, channels, height, width)."""
        ...


class ImageTransform(Protocol):
    """A decoded image to a uint8 tensor; ``RandomResizedCrop`` and ``CenterCrop`` are such."""

    def __call__(self, image: Any, index: int, epoch: int, seed: int) -> Tensor:
        """uint8 (3, size, size)."""
        ...


class Loader:
    """What both loaders share: iterating gives the batches of the current epoch from its start step on.

    ``len()`` is the number of steps of a whole epoch.
    """

    def __init__(self, plan: BatchPlan, device: torch.device | str | None):
        self.plan = plan
        self.device = torch.device(device or "cpu")
        self.epoch = 0
        self.start_step = 0

    def __len__(self) -> int:
        return len(self.plan)

    def __iter__(self) -> Iterator[Batch]:
        raise NotImplementedError

    def set_epoch(self, epoch: int, start_step: int = 0) -> None:
        """Choose the epoch to iterate over; ``start_step`` > 0 goes on in its middle, as after a restart."""
        if not 0 <= start_step <= len(self):
            raise ValueError(f"{type(self).__name__}: start_step must lie in [0, {len(self)}]; got {start_step}.")
        self.epoch, self.start_step = epoch, start_step


class TensorLoader(Loader):
    """Batches of an in-memory set, augmented on the device.

    Args:
        data: the set; it is moved to ``device`` once, as bytes.
        transform: :class:`ncmi.data.Augment` for training, :class:`ncmi.data.Normalize` for evaluation.
        batch_size: of all ranks together.
        shuffle: a new order each epoch (training); ``False`` goes through the set in order (evaluation).
        drop_last: leave out an incomplete last batch.
        seed: of order and augmentation.
        rank: of this process.
        num_ranks: number of processes.
        device: where the batches are; ``None`` is the CPU.

    >>> from ncmi.data import Normalize
    >>> data = ImageSet(torch.zeros(10, 1, 8, 8, dtype=torch.uint8), torch.arange(10) % 2, ("even", "odd"))
    >>> loader = TensorLoader(data, Normalize((0.5,), (0.5,)), batch_size=4)
    >>> loader.set_epoch(2)
    >>> [len(batch.targets) for batch in loader]
    [4, 4, 2]
    """

    def __init__(
        self,
        data: ImageSet,
        transform: BatchTransform,
        batch_size: int,
        *,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        device: torch.device | str | None = None,
    ):
        super().__init__(BatchPlan(len(data), batch_size, shuffle, drop_last, seed, rank, num_ranks), device)
        self.source = data.to(self.device)
        self.transform = transform

    def __iter__(self) -> Iterator[Batch]:
        epoch = self.epoch
        for indices in self.plan.batches(epoch, self.start_step):
            indices = indices.to(self.device)
            images = self.transform(self.source.images[indices], indices, epoch, self.plan.seed)
            yield Batch(images, self.source.targets[indices], indices)


class FolderLoader(Loader):
    """Batches of images on disk: decoded and cropped by worker processes, normalised on the device.

    What a sample gets does not depend on the number of workers. The global random state is left alone.

    Args:
        data: the set.
        crop: :class:`ncmi.data.RandomResizedCrop` for training, :class:`ncmi.data.CenterCrop` for evaluation.
        transform: from bytes to floats, :class:`ncmi.data.Normalize` with ImageNet's statistics for one.
        batch_size: of all ranks together.
        num_workers: processes that decode; 0 decodes here.
        shuffle: as in :class:`TensorLoader`; so are the others.
    """

    def __init__(
        self,
        data: FolderSet,
        crop: ImageTransform,
        transform: BatchTransform,
        batch_size: int,
        *,
        num_workers: int = 4,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        device: torch.device | str | None = None,
    ):
        super().__init__(BatchPlan(len(data), batch_size, shuffle, drop_last, seed, rank, num_ranks), device)
        self.source = data
        self.transform = transform
        self._steps = _Steps(self.plan)
        self._loader = torch_data.DataLoader(
            _Decoded(data, crop, seed),
            batch_sampler=self._steps,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            pin_memory=self.device.type == "cuda",
            # Without a generator of its own, DataLoader would advance the global one each epoch.
            generator=torch.Generator(),
        )

    def __iter__(self) -> Iterator[Batch]:
        epoch = self.epoch
        self._steps.epoch, self._steps.start_step = epoch, self.start_step
        try:
            for batch in self._loader:
                images, targets, indices = (tensor.to(self.device, non_blocking=True) for tensor in batch)
                yield Batch(self.transform(images, indices, epoch, self.plan.seed), targets, indices)
        except Exception:
            self._stop_workers()
            raise

    def _stop_workers(self) -> None:
        """End the workers now; left to the garbage collector, torch waits five seconds for each."""
        iterator, self._loader._iterator = self._loader._iterator, None
        stop = getattr(iterator, "_shutdown_workers", None)
        if stop is not None:
            stop()


class _Steps:
    """Lists of (epoch, sample index) for the steps that a loader is about to make.

    The epoch travels with the index, because workers that live on hold a copy of the set from their first epoch.
    """

    def __init__(self, plan: BatchPlan):
        self.plan, self.epoch, self.start_step = plan, 0, 0

    def __len__(self) -> int:
        return len(self.plan) - self.start_step

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch = self.epoch
        for indices in self.plan.batches(epoch, self.start_step):
            yield [(epoch, index) for index in indices.tolist()]


class _Decoded(torch_data.Dataset):
    def __init__(self, data: FolderSet, crop: ImageTransform, seed: int):
        self.source, self.crop, self.seed = data, crop, seed

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor, int]:
        epoch, index = key
        return self.crop(self.source.decode(index), index, epoch, self.seed), self.source.targets[index], index
