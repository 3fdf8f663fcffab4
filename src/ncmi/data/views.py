"""Several augmented views of each image, for losses that compare them.

Shapes: B samples, V views.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ncmi.data.loaders import BatchTransform, ImageTransform


@dataclass(frozen=True)
class BatchViews:
    """Float images (B, V, channels, height, width): each view has random numbers of its own.

    Args:
        transform: what makes one view, as :class:`ncmi.data.Augment`.
        views: V.
    """

    transform: BatchTransform
    views: int

    def __call__(self, images: Tensor, indices: Tensor, epoch: int, seed: int) -> Tensor:
        """V views of images (B, …); images that come as (B, V, …), from :class:`ImageViews`, are V views already."""
        if images.ndim == 5:
            flat = self.transform(images.flatten(0, 1), indices.repeat_interleave(self.views), epoch, seed)
            return flat.unflatten(0, (-1, self.views))
        parts = [self.transform(images, indices, self.views * epoch + view, seed) for view in range(self.views)]
        return torch.stack(parts, dim=1)


@dataclass(frozen=True)
class ImageViews:
    """uint8 (V, 3, size, size) of a decoded image: V crops with random numbers of their own.

    Args:
        crop: what makes one view, as :class:`ncmi.data.RandomResizedCrop`.
        views: V.
    """

    crop: ImageTransform
    views: int

    def __call__(self, image: object, index: int, epoch: int, seed: int) -> Tensor:
        """V crops of ``image``, which is sample ``index`` of its set."""
        return torch.stack([self.crop(image, index, self.views * epoch + view, seed) for view in range(self.views)])
