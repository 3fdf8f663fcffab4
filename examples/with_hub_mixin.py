"""Hugging Face: network and loss in one module with ``PyTorchModelHubMixin``, saved and loaded as a folder."""

import tempfile

import torch
from huggingface_hub import PyTorchModelHubMixin
from sklearn.datasets import load_digits
from torch import Tensor, nn

import ncmi


class Digits(nn.Module, PyTorchModelHubMixin):
    """A network with its loss; ``forward`` gives a score for each class."""

    def __init__(self, num_classes: int = 10, num_features: int = 64):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, num_features), nn.ReLU())
        self.loss = ncmi.NCMILoss(num_classes, num_features)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, C) by the centroids as they stand."""
        return ncmi.CentroidClassifier.from_loss(self.loss)(self.network(images))


def main(folder: str) -> tuple[Digits, Digits]:
    """Train, save to disk, and load; ``push_to_hub`` would send the same folder."""
    torch.manual_seed(0)
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    images = images.float() / 16
    model = Digits(num_classes=10, num_features=32)
    optimizer = torch.optim.SGD(ncmi.parameter_groups(model.network, model.loss, lr=0.3), momentum=0.9)
    for _ in range(3):
        for batch in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            model.loss(model.network(images[batch]), labels[batch]).backward()
            optimizer.step()

    model.save_pretrained(folder)
    restored = Digits.from_pretrained(folder)
    accuracy = (restored(images).argmax(dim=1) == labels).float().mean()
    print(f"accuracy on the training images {accuracy:.2f}, by the restored centroids")
    return model, restored


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
