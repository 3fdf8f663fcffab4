"""skorch: a criterion with parameters is optimised and saved by itself; a rate for the centroids, and their decision."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier
from torch import nn

import ncmi


class CentroidNet(NeuralNetClassifier):
    """Decides by the nearest centroid of the criterion."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class of each row."""
        return ncmi.CentroidClassifier.from_loss(self.criterion_).predict(torch.from_numpy(self.forward(X))).numpy()

    def forward(self, X: np.ndarray, training: bool = False) -> np.ndarray:
        """Features of all rows."""
        return torch.cat(list(self.forward_iter(X, training=training))).numpy()


def make() -> CentroidNet:
    """The net before training."""
    return CentroidNet(
        nn.Sequential(nn.Linear(64, 64), nn.ReLU()),
        criterion=ncmi.NCMILoss,
        criterion__num_classes=10,
        criterion__num_features=64,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.9,
        optimizer__param_groups=[("centroids.*", {"lr": 1.0})],
        lr=0.3,
        batch_size=64,
        max_epochs=3,
        classes=list(range(10)),
        verbose=0,
    )


def main(folder: str) -> CentroidNet:
    """Train, save, and load into a fresh net."""
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    net = make().fit(images, labels)
    files = {name: Path(folder, f"{name}.pt") for name in ("f_params", "f_criterion", "f_optimizer")}
    net.save_params(**files)

    restored = make().initialize()
    restored.load_params(**files)
    print(f"accuracy on the training images {restored.score(images, labels):.2f}, by the restored centroids")
    return restored


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
