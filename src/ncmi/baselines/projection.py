"""The head that supervised contrastive training puts on an encoder, and drops afterwards.

Shapes: B samples, D feature width, P projection width.
"""

from torch import Tensor, nn

from ncmi.baselines.inputs import check_num_features


class ProjectionHead(nn.Module):
    """Projections (..., P) of features (..., D): Linear(D, H), ReLU, Linear(H, P), or one linear layer.

    Their length is free: :class:`ncmi.baselines.SupCon` scales them to length one in float32.

    Args:
        num_features: D.
        num_projections: P; 128 in all public code.
        hidden: H. ``None`` (default): D, the authors' CIFAR head. 0: one linear layer, Google's ImageNet head.

    >>> import torch
    >>> ProjectionHead(num_features=512)(torch.randn(4, 2, 512)).shape
    torch.Size([4, 2, 128])
    """

    def __init__(self, num_features: int, num_projections: int = 128, *, hidden: int | None = None):
        super().__init__()
        check_num_features("ProjectionHead", num_features)
        if num_projections < 1 or (hidden is not None and hidden < 0):
            raise ValueError(
                f"ProjectionHead: num_projections must be at least 1 and hidden at least 0 (0 for one linear layer); "
                f"got {num_projections} and {hidden}."
            )
        hidden = num_features if hidden is None else hidden
        self.layers = (
            nn.Sequential(nn.Linear(num_features, hidden), nn.ReLU(), nn.Linear(hidden, num_projections))
            if hidden
            else nn.Linear(num_features, num_projections)
        )

    def forward(self, features: Tensor) -> Tensor:
        """Projections (..., P) of features (..., D)."""
        return self.layers(features)
