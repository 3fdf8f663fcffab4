"""torchmetrics: ``NCMIMetric`` in one collection with accuracy; each metric takes the arguments it names."""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy

import ncmi


def main(folder: str) -> tuple[ncmi.NCMILoss, dict[str, torch.Tensor]]:
    """Train, restore the loss, and measure the last images."""
    torch.manual_seed(0)
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    images = images.float() / 16
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
    loss = ncmi.NCMILoss(num_classes=10, num_features=64)
    optimizer = torch.optim.SGD(ncmi.parameter_groups(model, loss, lr=0.3), momentum=0.9)
    for _ in range(5):
        for batch in torch.randperm(1200).split(64):
            optimizer.zero_grad()
            loss(model(images[batch]), labels[batch]).backward()
            optimizer.step()

    torch.save(loss.state_dict(), Path(folder, "loss.pt"))
    restored = ncmi.NCMILoss(num_classes=10, num_features=64)
    restored.load_state_dict(torch.load(Path(folder, "loss.pt"), weights_only=True))
    classifier = ncmi.CentroidClassifier.from_loss(restored)
    accuracy = MulticlassAccuracy(10, average="micro")
    collection = MetricCollection({"accuracy": accuracy, "information": ncmi.NCMIMetric.from_loss(restored)})
    for inputs, targets in zip(images[1200:].split(100), labels[1200:].split(100), strict=True):
        features = model(inputs).detach()
        collection.update(inputs=features, targets=targets, preds=classifier.predict(features), target=targets)
    values = collection.compute()
    print(", ".join(f"{name} {float(value):.4f}" for name, value in values.items()))
    return restored, values


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
