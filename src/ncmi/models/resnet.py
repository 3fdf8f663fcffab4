"""ResNets, parameters named as torchvision and timm name them, so that published weights load.

Shapes: B samples, H × W places, D feature width.
"""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from ncmi.checks import choose
from ncmi.models.backbone import Backbone, make_head


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut (ResNet-18 and 34)."""

    expansion = 1

    def __init__(self, in_channels: int, channels: int, stride: int = 1, downsample: nn.Module | None = None):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        """A map (B, channels, H / stride, W / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + shortcut)


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 convolutions and a shortcut (ResNet-50 and 101); the 3×3 one strides, as in torchvision's weights."""

    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int = 1, downsample: nn.Module | None = None):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        """A map (B, 4 · channels, H / stride, W / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + shortcut)


BLOCKS: dict[str, type[BasicBlock] | type[Bottleneck]] = {"basic": BasicBlock, "bottleneck": Bottleneck}


class ResNet(Backbone):
    """A residual network (He et al., 2016) with a stem for large or for small images.

    Args:
        block: ``"basic"`` or ``"bottleneck"``.
        blocks: number of blocks in each stage; every stage after the first halves the places and doubles the channels.
        num_classes: C; 0 leaves the head out.
        width: channels of the first stage; 64 in the published networks. D is width · 2^(stages − 1), times four for
            bottlenecks.
        stem: ``"imagenet"`` (7×7 convolution of stride 2 and 3×3 max-pooling of stride 2) or ``"cifar"`` (one 3×3
            convolution, every place kept).
        in_channels: channels of the images.

    Shape:
        images (B, in_channels, H, W); features (B, D); logits (B, C).

    >>> import torch
    >>> network = ResNet("basic", (1, 1, 1, 1), num_classes=10, width=16, stem="cifar")
    >>> images = torch.randn(2, 3, 32, 32)
    >>> network(images).shape, network.forward_features(images).shape
    (torch.Size([2, 10]), torch.Size([2, 128, 4, 4]))
    """

    def __init__(
        self,
        block: Literal["basic", "bottleneck"] = "basic",
        blocks: Sequence[int] = (2, 2, 2, 2),
        *,
        num_classes: int = 0,
        width: int = 64,
        stem: Literal["imagenet", "cifar"] = "imagenet",
        in_channels: int = 3,
    ):
        super().__init__()
        kind = BLOCKS[choose("ResNet", "block", block, BLOCKS)]
        choose("ResNet", "stem", stem, ("imagenet", "cifar"))
        if not blocks or min(blocks) < 1:
            raise ValueError(f"ResNet: every stage needs at least one block, as in blocks=(2, 2, 2, 2); got {blocks}.")
        self.in_channels = in_channels
        self.num_classes = num_classes
        if stem == "imagenet":
            self.conv1 = nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False)
        else:
            self.conv1 = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if stem == "imagenet" else nn.Identity()
        self._stages = [f"layer{number}" for number in range(1, len(blocks) + 1)]
        entering = width
        for index, (name, depth) in enumerate(zip(self._stages, blocks, strict=True)):
            channels = width * 2**index
            self.add_module(name, self._stage(kind, depth, entering, channels, stride=1 if index == 0 else 2))
            entering = channels * kind.expansion
        self.num_features = entering
        self.add_module(self.head_name, make_head("ResNet", self.num_features, num_classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward_features(self, images: Tensor) -> Tensor:
        """The last stage's map (B, D, H', W')."""
        if images.ndim != 4 or images.shape[1] != self.in_channels:
            remedy = f"Pass in_channels={images.shape[1]}." if images.ndim == 4 else "Add the missing dimension."
            raise ValueError(
                f"{type(self).__name__}: images must have shape (B, {self.in_channels}, H, W) because "
                f"in_channels={self.in_channels}; got {tuple(images.shape)}. {remedy}"
            )
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for name in self._stages:
            x = getattr(self, name)(x)
        return x

    def shortcut(self, in_channels: int, channels: int, stride: int) -> nn.Module:
        """What makes the input of a block fit its output: a strided 1×1 convolution and BatchNorm."""
        return nn.Sequential(
            nn.Conv2d(in_channels, channels, 1, stride, bias=False),
            nn.BatchNorm2d(channels),
        )

    def _stage(
        self, kind: type[BasicBlock] | type[Bottleneck], depth: int, entering: int, channels: int, stride: int
    ) -> nn.Sequential:
        leaving = channels * kind.expansion
        fits = stride == 1 and entering == leaving
        first = kind(entering, channels, stride, None if fits else self.shortcut(entering, leaving, stride))
        return nn.Sequential(first, *(kind(leaving, channels) for _ in range(depth - 1)))
