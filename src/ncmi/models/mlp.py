"""``MLP``: fully connected layers, for flat inputs and small images.

Shapes: B samples, D feature width.
"""

import math
from collections.abc import Sequence

from torch import Tensor, nn

from ncmi.models.backbone import Backbone, make_head


class MLP(Backbone):
    """Linear layers with ReLU; D is the last hidden size. Images are flattened.

    Without BatchNorm (the default) the output of a sample does not depend on its batch.

    Args:
        in_features: numbers in one input: 64 for 8×8 digits, 784 for Fashion-MNIST.
        hidden: sizes of the layers.
        num_classes: C; 0 leaves the head out.
        batch_norm: BatchNorm between each linear layer and its ReLU.

    Shape:
        images (B, …) of ``in_features`` numbers each; features (B, D); logits (B, C).

    >>> import torch
    >>> MLP(in_features=64, hidden=(128, 32))(torch.randn(5, 1, 8, 8)).shape
    torch.Size([5, 32])
    """

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int] = (256, 128),
        *,
        num_classes: int = 0,
        batch_norm: bool = False,
    ):
        super().__init__()
        if not hidden:
            raise ValueError("MLP: hidden must hold at least one size, as in hidden=(256, 128); got none.")
        self.in_features = in_features
        self.num_classes = num_classes
        self.num_features = hidden[-1]
        layers: list[nn.Module] = []
        for entering, leaving in zip((in_features, *hidden), hidden, strict=False):
            linear = nn.Linear(entering, leaving, bias=not batch_norm)
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            if not batch_norm:
                nn.init.zeros_(linear.bias)
            layers += [linear, *([nn.BatchNorm1d(leaving)] if batch_norm else []), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.fc = make_head("MLP", self.num_features, num_classes)

    def forward_features(self, images: Tensor) -> Tensor:
        """The last hidden layer's output (B, D)."""
        size = math.prod(images.shape[1:])
        if images.ndim < 2 or size != self.in_features:
            remedy = f"Pass in_features={size}." if images.ndim > 1 else "Add the batch dimension."
            raise ValueError(
                f"MLP: each input must hold {self.in_features} numbers because in_features={self.in_features}; "
                f"got a batch of shape {tuple(images.shape)}. {remedy}"
            )
        return self.layers(images.flatten(1))

    def pool(self, x: Tensor) -> Tensor:
        """The features (B, D) themselves."""
        return x
