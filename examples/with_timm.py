"""timm: ``num_classes=0`` makes any of its networks return the features that the loss wants."""

import tempfile
from pathlib import Path

import timm
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import interpolate

import ncmi


def main(folder: str) -> ncmi.NCMILoss:
    """A few steps of a small ResNet on digits of 32×32 pixels; then save, and restore."""
    torch.manual_seed(0)
    images, labels = (torch.tensor(part)[:256] for part in load_digits(return_X_y=True))
    images = interpolate(images.float().reshape(-1, 1, 8, 8) / 16, size=32)

    model = timm.create_model("resnet10t", num_classes=0, in_chans=1)
    loss = ncmi.NCMILoss(num_classes=10, num_features=model.num_features)
    optimizer = torch.optim.SGD(ncmi.parameter_groups(model, loss, lr=0.1), momentum=0.9)
    for _ in range(5):
        for inputs, targets in zip(images.split(32), labels.split(32), strict=True):
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()

    torch.save({"model": model.state_dict(), "loss": loss.state_dict()}, Path(folder, "checkpoint.pt"))
    saved = torch.load(Path(folder, "checkpoint.pt"), weights_only=True)
    restored = ncmi.NCMILoss(num_classes=10, num_features=model.num_features)
    restored.load_state_dict(saved["loss"])
    model.eval()
    accuracy = ncmi.CentroidClassifier.from_loss(restored).score(model(images), labels)
    print(f"{model.num_features} features; accuracy on the training images {accuracy:.2f}, by the restored centroids")
    return restored


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
