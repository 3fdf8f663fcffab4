"""Parameter groups: ξ wants its own learning rate and no weight decay."""

from typing import Any

from torch import nn


def parameter_groups(
    model: nn.Module, loss: nn.Module, *, lr: float, weight_decay: float = 0.0, centroid_lr: float = 1.0
) -> list[dict[str, Any]]:
    """Groups for any optimiser: the network's parameters, then the loss's (the centroids ξ).

    Weight decay would pull every centroid to the uniform distribution, so ξ gets none.

    Args:
        model: the network; it may contain ``loss``.
        loss: the loss; fixed or tracked centroids have no parameters and add no group.
        lr: the network's learning rate.
        weight_decay: the network's weight decay.
        centroid_lr: ξ's learning rate. 1 suits SGD whatever ``lr`` is, because ξ is long (1/τ = 5) and its gradients are small
            beside that, whatever D. Adam and AdamW rescale gradients: there ten times the network's rate is a place to
            start from.

    >>> from torch import nn, optim
    >>> from ncmi import NCMILoss
    >>> model, loss = nn.Linear(4, 8), NCMILoss(num_classes=3, num_features=8)
    >>> optimizer = optim.SGD(parameter_groups(model, loss, lr=0.1, weight_decay=5e-4), momentum=0.9)
    >>> [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
    [(0.1, 0.0005), (1.0, 0.0)]
    """
    of_loss = [parameter for parameter in loss.parameters() if parameter.requires_grad]
    names = {id(parameter) for parameter in of_loss}
    of_model = [p for p in model.parameters() if p.requires_grad and id(p) not in names]
    groups: list[dict[str, Any]] = [{"params": of_model, "lr": lr, "weight_decay": weight_decay, "name": "network"}]
    if of_loss:
        groups.append({"params": of_loss, "lr": centroid_lr, "weight_decay": 0.0, "name": "centroids"})
    return groups
