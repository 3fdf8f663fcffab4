"""Networks, criteria and image sets that the tests of evaluation share, all float64 where the network decides.

Shapes: B samples, C classes, D feature width.
"""

import math

import torch
import torch.nn.functional as F
from batches import generator, normal
from torch import nn

from ncmi import CentroidClassifier, NCMILoss
from ncmi.data import ImageSet, Normalize, TensorLoader
from ncmi.functional import feature_point, simplex_point

C, D, PIXELS = 4, 6, 9


class Plain:
    """The smallest criterion there is: no module, scores f·W, loss −score of the right class, points softmax(f)."""

    decision = "plain"
    centroids = None
    probabilities_need_temperature = False

    def __init__(self, weight):
        self.weight = weight
        self.num_classes, self.num_features = weight.shape

    def __call__(self, features, targets):
        return -self.scores(features).gather(1, targets.unsqueeze(1)).mean()

    def scores(self, features):
        return features @ self.weight.to(features).T

    def points(self, features):
        return simplex_point(features, "softmax")


class Nearest(nn.Module):
    """A real NCMILoss, decided by its centroids."""

    decision = "learned q"
    probabilities_need_temperature = True

    def __init__(self, loss):
        super().__init__()
        self.loss, self.num_classes, self.num_features = loss, loss.num_classes, loss.num_features

    def forward(self, features, targets):
        return self.loss(features, targets)

    def scores(self, features):
        return CentroidClassifier.from_loss(self.loss)(features)

    def points(self, features):
        return self.loss.points(features)

    @property
    def centroids(self):
        return CentroidClassifier.from_loss(self.loss).log_density


class Head(nn.Module):
    """A linear head with cross-entropy."""

    decision = "head"
    centroids = None
    probabilities_need_temperature = False

    def __init__(self, num_classes=C, num_features=D):
        super().__init__()
        self.num_classes, self.num_features = num_classes, num_features
        self.linear = nn.Linear(num_features, num_classes)

    def forward(self, features, targets):
        return F.cross_entropy(self.scores(features), targets)

    def scores(self, features):
        return self.linear(features.to(self.linear.weight.dtype))

    def points(self, features):
        return feature_point(features)


class Network(nn.Module):
    """Images to features, with layers that behave differently in training mode."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, D), nn.BatchNorm1d(D), nn.Dropout(0.5)).double()

    def forward(self, images):
        return self.layers(images.double())


def network(seed=0):
    torch.manual_seed(seed)
    return Network()


def nearest(seed=0, **settings):
    """With an objective whose mean does not depend on how the set is cut into batches, unless another is asked for."""
    torch.manual_seed(seed)
    loss = NCMILoss(C, D, **{"objective": "harmonic", **settings}).double()
    with torch.no_grad():
        for xi in loss.parameters():
            xi.mul_(0.2)
    loss.center.set_mean(0.1 * normal(D, seed=seed))
    return Nearest(loss)


def image_set(size, seed=0, num_classes=C):
    images = torch.randint(256, (size, 1, 3, 3), generator=generator(seed), dtype=torch.uint8)
    targets = torch.randint(num_classes, (size,), generator=generator(seed + 1))
    return ImageSet(images, targets, tuple(f"class {y}" for y in range(C)))


def loader(size, batch_size, rank=0, num_ranks=1, **settings):
    data = image_set(size, **settings)
    transform = Normalize((0.5,), (0.25,))
    return TensorLoader(data, transform, batch_size, shuffle=False, rank=rank, num_ranks=num_ranks)


def blobs(size, spread=1.0, seed=0, num_classes=C, width=D, dtype=torch.float32):
    """Features around one mean a class, and their classes."""
    targets = torch.arange(size) % num_classes
    features = 2 * normal(num_classes, width, seed=99)[targets] + spread * normal(size, width, seed=seed) + 0.7
    return features.to(dtype), targets


def entropy(probs):
    return -sum(p * math.log(p) for p in probs if p > 0)
