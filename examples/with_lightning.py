"""Lightning: the loss is a part of the module, so its centroids are moved, synchronised and saved with it.

``python examples/with_lightning.py 2`` trains in two processes.
"""

import sys
import tempfile
from pathlib import Path

import lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import ncmi


class Digits(lightning.LightningModule):
    """A network, and the loss with its centroids."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.loss = ncmi.NCMILoss(num_classes=10, num_features=64)

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        """The loss of a batch."""
        images, targets = batch
        return self.loss(self.network(images), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """SGD; the centroids have a group of their own."""
        return torch.optim.SGD(ncmi.parameter_groups(self.network, self.loss, lr=0.3), momentum=0.9)


def main(folder: str, devices: int = 1) -> Digits:
    """Train, and load the checkpoint."""
    lightning.seed_everything(0, verbose=False)
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    images = images.float() / 16
    loader = DataLoader(TensorDataset(images, labels), batch_size=64 // devices, shuffle=True)
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trained = Digits()
    trainer.fit(trained, loader)
    path = Path(folder, "digits.ckpt")
    trainer.save_checkpoint(path)

    own = trained.loss.centroids.xi.detach()
    difference = (trainer.strategy.all_gather(own) - own).abs().max()
    module = Digits.load_from_checkpoint(path).eval()
    accuracy = ncmi.CentroidClassifier.from_loss(module.loss).score(module.network(images), labels)
    if trainer.is_global_zero:
        print(
            f"accuracy on the training images {accuracy:.2f}, by the restored centroids, {devices} process(es), "
            f"whose centroids differ by {float(difference)}"
        )
    return module


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(*(sys.argv[2:] or [temporary]), devices=int(sys.argv[1]) if len(sys.argv) > 1 else 1)
