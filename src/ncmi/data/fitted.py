"""``fit_images``: images of one data set in the shape of another, as a test of what a network knows nothing of.

Shapes: N images of (channels, height, width).
"""

from dataclasses import replace

import torch
import torch.nn.functional as F

from ncmi.data.images import ImageSet

_LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in grey: ITU-R BT.601, as Pillow has it


def fit_images(data: ImageSet, shape: tuple[int, ...], chunk: int = 1000) -> ImageSet:
    """The set with images of ``shape``: grey from colours or three equal channels, resized bilinearly with antialiasing.

    >>> images = ImageSet(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1]), ("zero", "one"))
    >>> fit_images(images, (3, 32, 32)).image_shape
    (3, 32, 32)
    """
    if data.image_shape == shape:
        return data
    channels, height, width = shape
    pieces = []
    for piece in data.images.split(chunk):
        pixels = piece.to(torch.float32)
        if channels == 1 and pixels.shape[1] == 3:
            pixels = (pixels * pixels.new_tensor(_LUMA).view(3, 1, 1)).sum(dim=1, keepdim=True)
        pixels = F.interpolate(pixels, (height, width), mode="bilinear", antialias=True)
        pieces.append(pixels.round().clamp(0, 255).to(torch.uint8).expand(-1, channels, -1, -1))
    return replace(data, images=torch.cat(pieces))
