"""pytorch-metric-learning: its sampler of m images a class feeds the loss, and its tester judges the features."""

import tempfile
from pathlib import Path

import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.samplers import MPerClassSampler
from pytorch_metric_learning.testers import GlobalEmbeddingSpaceTester
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ncmi


def main(folder: str) -> tuple[ncmi.NCMILoss, float]:
    """Train with class-balanced batches, save, restore, and test by nearest neighbours."""
    torch.manual_seed(0)
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    images = images.float() / 16
    training, test = TensorDataset(images[:1200], labels[:1200]), TensorDataset(images[1200:], labels[1200:])
    sampler = MPerClassSampler(labels[:1200], m=8, batch_size=80, length_before_new_iter=1200)
    loader = DataLoader(training, batch_size=80, sampler=sampler, drop_last=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
    loss = ncmi.NCMILoss(num_classes=10, num_features=64)
    optimizer = torch.optim.SGD(ncmi.parameter_groups(model, loss, lr=0.3), momentum=0.9)
    for _ in range(5):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()

    torch.save(loss.state_dict(), Path(folder, "loss.pt"))
    restored = ncmi.NCMILoss(num_classes=10, num_features=64)
    restored.load_state_dict(torch.load(Path(folder, "loss.pt"), weights_only=True))
    neighbours = AccuracyCalculator(include=("precision_at_1",), k=1, knn_func=CustomKNN(CosineSimilarity()))
    tester = GlobalEmbeddingSpaceTester(accuracy_calculator=neighbours, dataloader_num_workers=0, batch_size=256)
    # Cosines are taken from the loss's centre, as the loss itself does.
    centred = nn.Sequential(model, _Subtract(restored.center.mean))
    results = tester.test({"train": training, "test": test}, 0, centred, splits_to_eval=[("test", ["train"])])
    precision = results["test"]["precision_at_1_level0"]
    accuracy = ncmi.CentroidClassifier.from_loss(restored).score(model(images[1200:]), labels[1200:])
    print(f"test images: precision at 1 {precision:.2f}; accuracy by the restored centroids {accuracy:.2f}")
    return restored, precision


class _Subtract(nn.Module):
    center: torch.Tensor

    def __init__(self, center: torch.Tensor | None):
        super().__init__()
        self.register_buffer("center", center)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features - self.center


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
