"""``Classifier``: network, map and decision in one module that can leave this package.

Shapes: B images, N instances of a bag, F width of an instance, C classes, D feature width.
"""

import torch
from torch import Tensor, nn

from ncmi.data.normalize import check_statistics
from ncmi.models.mil.base import BagModel


class Classifier(nn.Module):
    """Scores and probabilities, each (B, C): the decision on a network's features, then softmax(scores / T).

    Args:
        network: returns features.
        decision: features (B, D) to scores (B, C): a :class:`ncmi.CentroidClassifier`, a linear head.
        temperature: T.
    """

    input_name: str
    """What the input is called in a file."""
    size_name: str
    """What its first dimension, the one that is free, is called."""

    def __init__(self, network: nn.Module, decision: nn.Module, temperature: float = 1.0):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"{type(self).__name__}: temperature must be positive; got {temperature}.")
        self.network, self.decision, self.temperature = network, decision, temperature
        self.requires_grad_(False).eval()

    def decide(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and probabilities of features (B, D)."""
        scores = self.decision(features)
        return scores, (scores / self.temperature).softmax(dim=1)

    def example(self, size: int) -> Tensor:
        """An input of ``size`` images or instances, with random content."""
        raise NotImplementedError


class ImageClassifier(Classifier):
    """Scores and probabilities (B, C) of raw images, uint8 (B, channels, height, width); normalisation is inside.

    Bytes are the only type it takes, because floats come in [0, 1] and in [0, 255], and nothing could tell which.

    Args:
        shape: channels, height and width.
        mean: of each channel, for pixels in [0, 1].
        std: of each channel, likewise.
        settings: those of :class:`Classifier`.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(64, 16))
    >>> classifier = ImageClassifier(network, nn.Linear(16, 10), shape=(1, 8, 8), mean=(0.5,), std=(0.5,))
    >>> [tuple(output.shape) for output in classifier(torch.zeros(3, 1, 8, 8, dtype=torch.uint8))]
    [(3, 10), (3, 10)]
    """

    input_name, size_name = "images", "batch"
    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        network: nn.Module,
        decision: nn.Module,
        temperature: float = 1.0,
        *,
        shape: tuple[int, int, int],
        mean: tuple[float, ...],
        std: tuple[float, ...],
    ):
        super().__init__(network, decision, temperature)
        check_statistics("ImageClassifier", mean, std)
        self.shape = shape
        # As in ncmi.data.normalize, so that evaluation and deployment round alike.
        self.register_buffer("scale", torch.tensor([1 / (255 * value) for value in std]).view(-1, 1, 1))
        shift = [-m / s for m, s in zip(mean, std, strict=True)]
        self.register_buffer("shift", torch.tensor(shift).view(-1, 1, 1))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and probabilities of a batch."""
        if images.dtype != torch.uint8 or images.shape[1:] != self.shape:
            raise ValueError(
                f"ImageClassifier: images must be uint8 of shape (B, {', '.join(map(str, self.shape))}); got {images.dtype} of "
                f"shape {tuple(images.shape)}. For floats in [0, 1] pass (255 * images).round().to(torch.uint8)."
            )
        return self.decide(self.network(images.to(self.scale.dtype) * self.scale + self.shift))

    def example(self, size: int) -> Tensor:
        """Images of random pixels."""
        return torch.randint(256, (size, *self.shape), dtype=torch.uint8, device=self.scale.device)


class BagClassifier(Classifier):
    """Scores and probabilities (1, C) of one bag of instance features, float32 (N, F) with any N ≥ 1.

    >>> from ncmi.models.mil import create_bag_model
    >>> classifier = BagClassifier(create_bag_model("abmil", 48), nn.Linear(128, 2))
    >>> [tuple(output.shape) for output in classifier(torch.randn(7, 48))]
    [(1, 2), (1, 2)]
    """

    input_name, size_name = "instances", "instances_of_the_bag"

    def __init__(self, network: BagModel, decision: nn.Module, temperature: float = 1.0):
        super().__init__(network, decision, temperature)
        self.in_features = network.in_features

    def forward(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and probabilities of a bag."""
        return self.decide(self.network(instances).features.unsqueeze(0))

    def example(self, size: int) -> Tensor:
        """A bag of random instances."""
        return torch.randn(size, self.in_features)
