"""Sentences about labels that every reader shares."""

import torch
from torch import Tensor


def check_labels(owner: str, targets: Tensor, num_classes: int) -> None:
    """Class indices in [0, num_classes)."""
    if len(targets) == 0:
        return
    lowest, highest = (int(value) for value in torch.aminmax(targets))
    if lowest < 0 or highest >= num_classes:
        wrong = ((targets < 0) | (targets >= num_classes)).nonzero()[0].item()
        raise ValueError(
            f"{owner}: labels must lie in [0, {num_classes - 1}] because there are {num_classes} classes; image {wrong} has "
            f"label {int(targets[int(wrong)])}. The file is damaged or belongs to another data set."
        )
