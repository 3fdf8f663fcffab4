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

    criterion_: ncmi.NCMILoss

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class of each row."""
        classifier = ncmi.CentroidClassifier.from_loss(self.criterion_)
        features = torch.from_numpy(self.predict_proba(X))  # what the network returns
        return classifier.predict(features).numpy()


def make() -> CentroidNet:
    """The net before training."""
    return CentroidNet(
        nn.Sequential(nn.Linear(64, 64), nn.ReLU()),
        criterion=ncmi.NCMILoss,  # pyright: ignore[reportArgumentType]
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
    weights, centroids = Path(folder, "network.pt"), Path(folder, "criterion.pt")
    net.save_params(f_params=weights, f_criterion=centroids)

    restored = make().initialize()
    restored.load_params(f_params=weights, f_criterion=centroids)
    print(f"accuracy on the training images {restored.score(images, labels):.2f}, by the restored centroids")
    return restored


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
