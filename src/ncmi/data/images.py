"""``ImageSet``: a whole data set in memory, as bytes.

Shapes: N images, C classes; images (N, channels, height, width).
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ncmi.data.checks import check_labels


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images and their classes, held in memory; small sets are augmented from here, a batch at a time.

    Args:
        images: uint8 (N, channels, height, width).
        targets: class indices int64 (N,).
        class_names: C names; the class index is the position.
        name: what to call the set in messages.

    >>> images = ImageSet(torch.zeros(3, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 1]), ("cat", "dog"), "pets")
    >>> len(images), images.num_classes, images.subset(torch.tensor([2, 0])).targets.tolist()
    (3, 2, [1, 0])
    """

    images: Tensor
    targets: Tensor
    class_names: tuple[str, ...]
    name: str = "images"

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise ValueError(
                f"ImageSet: images must be uint8 of shape (N, channels, height, width); got {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}. For floats in [0, 1] pass (255 * images).round().to(torch.uint8)."
            )
        if self.targets.dtype != torch.int64 or self.targets.shape != self.images.shape[:1]:
            raise ValueError(
                f"ImageSet: targets must be int64 of shape ({len(self.images)},), one class an image; got "
                f"{self.targets.dtype} of shape {tuple(self.targets.shape)}."
            )
        check_labels(self.name, self.targets, len(self.class_names))

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def num_classes(self) -> int:
        """C, also when some class has no image here."""
        return len(self.class_names)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    def subset(self, indices: Tensor) -> "ImageSet":
        """The images at ``indices`` (n,), in that order; they are numbered from 0 again."""
        return replace(self, images=self.images[indices], targets=self.targets[indices])

    def to(self, device: torch.device | str | None) -> "ImageSet":
        """The same set on a device."""
        return replace(self, images=self.images.to(device), targets=self.targets.to(device))
