"""The CIFAR family of ResNets (20, 32, 44, 56 layers), whose shortcuts have no parameters.

Shapes: B samples, H × W places, D feature width.
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from ncmi.models.resnet import ResNet


class PadShortcut(nn.Module):
    """Every ``stride``-th place, and zeros for the new channels, half of them before and half behind the old ones."""

    def __init__(self, in_channels: int, channels: int, stride: int):
        super().__init__()
        self.stride = stride
        self.before = (channels - in_channels) // 2
        self.behind = channels - in_channels - self.before

    def forward(self, x: Tensor) -> Tensor:
        """A map (B, channels, H / stride, W / stride)."""
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.before, self.behind))


class CifarResNet(ResNet):
    """ResNet of 6n + 2 layers for 32×32 images (He et al., 2016, section 4.2; shortcut option A).

    Three stages of basic blocks, 16, 32 and 64 channels wide. The head is called ``linear``, as in the published weights
    of Y. Idelbayev (akamaster/pytorch_resnet_cifar10).

    Args:
        blocks: n for each of the three stages: 3, 5, 7 and 9 for 20, 32, 44 and 56 layers.
        num_classes: C; 0 leaves the head out.
        width: channels of the first stage; D is four times that.
        in_channels: channels of the images.

    >>> CifarResNet((3, 3, 3), num_classes=10).num_features
    64
    """

    head_name = "linear"

    def __init__(
        self, blocks: Sequence[int] = (3, 3, 3), *, num_classes: int = 0, width: int = 16, in_channels: int = 3
    ):
        super().__init__("basic", blocks, num_classes=num_classes, width=width, stem="cifar", in_channels=in_channels)

    def shortcut(self, in_channels: int, channels: int, stride: int) -> nn.Module:
        """Subsampling and zero channels; nothing to learn."""
        return PadShortcut(in_channels, channels, stride)
