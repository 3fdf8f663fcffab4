"""A bare PyTorch loop: what changes when cross-entropy becomes NCMI, and what to save."""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ncmi


def main(folder: str) -> ncmi.NCMILoss:
    """Train, save both state dicts, and load them into a fresh pair."""
    torch.manual_seed(0)
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    loader = DataLoader(TensorDataset(images.float() / 16, labels), batch_size=64, shuffle=True)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU())  # no last layer: its features go to the loss
    loss = ncmi.NCMILoss(num_classes=10, num_features=64)
    optimizer = torch.optim.SGD(ncmi.parameter_groups(model, loss, lr=0.3), momentum=0.9)
    for _ in range(3):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()

    torch.save({"model": model.state_dict(), "loss": loss.state_dict()}, Path(folder, "checkpoint.pt"))
    saved = torch.load(Path(folder, "checkpoint.pt"), weights_only=True)
    restored = ncmi.NCMILoss(num_classes=10, num_features=64)
    restored.load_state_dict(saved["loss"])
    accuracy = ncmi.CentroidClassifier.from_loss(restored).score(model(images.float() / 16), labels)
    print(f"accuracy on the training images {accuracy:.2f}, by the restored centroids")
    return restored


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
