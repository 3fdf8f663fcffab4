"""Accelerate: the loss stays beside the model, and is registered for checkpoints.

``torchrun --nproc-per-node 2 examples/with_accelerate.py`` trains in two processes: NCMILoss sums over them by itself.
"""

import sys
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ncmi


def main(folder: str) -> ncmi.NCMILoss:
    """Train, save the state, spoil the centroids, and load the state."""
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    images = images.float() / 16
    loader = DataLoader(TensorDataset(images, labels), batch_size=64 // accelerator.num_processes, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
    loss = ncmi.NCMILoss(num_classes=10, num_features=64).to(accelerator.device)
    optimizer = torch.optim.SGD(ncmi.parameter_groups(model, loss, lr=0.3), momentum=0.9)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accelerator.register_for_checkpointing(loss)
    for _ in range(3):
        for inputs, targets in loader:
            optimizer.zero_grad()
            accelerator.backward(loss(model(inputs), targets))
            optimizer.step()

    accelerator.save_state(folder)
    accelerator.wait_for_everyone()
    nn.init.zeros_(loss.centroids.xi)
    accelerator.load_state(folder)
    everyone = accelerator.gather(loss.centroids.xi.detach()[None])
    network = accelerator.unwrap_model(model)
    accuracy = ncmi.CentroidClassifier.from_loss(loss).score(network(images), labels)
    accelerator.print(
        f"accuracy on the training images {accuracy:.2f}, by the restored centroids, {accelerator.num_processes} process(es), "
        f"whose centroids differ by {float((everyone - everyone[0]).abs().max())}"
    )
    accelerator.end_training()
    return loss


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(*(sys.argv[1:] or [temporary]))
