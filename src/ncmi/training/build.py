"""From a config to what learns: task and optimiser."""

from typing import Any

import torch
from torch import nn

from ncmi.criteria import create_criterion
from ncmi.models import load_weights
from ncmi.training.config import Config
from ncmi.training.sources import Source
from ncmi.training.task import Task


def make_task(config: Config, source: Source, initialize: bool) -> Task:
    """Network and criterion with random numbers of the config's seed; ``initialize`` reads the weights to start from."""
    torch.manual_seed(config.seed)
    try:
        network = source.make_network()
    except TypeError as error:
        raise ValueError(
            f"model: {config.model.name!r} cannot be built with the options {config.model.options} ({error})."
        ) from error
    if initialize and config.model.init_from is not None:
        load_weights(network, config.model.init_from, config.model.init_prefix)
    num_features: int = network.num_features  # pyright: ignore[reportAssignmentType]
    criterion = create_criterion(config.loss.name, source.num_classes, num_features, **config.loss.options)
    return Task(network, criterion, frozen=config.optimizer.backbone_lr == 0, micro_batch=config.optimizer.micro_batch)


def make_optimizer(config: Config, task: Task) -> torch.optim.Optimizer:
    """SGD or AdamW over network, head and centroids; ``base_lr`` of a group is its rate at factor 1 of the schedule."""
    settings = config.optimizer
    centroid_lr = settings.centroid_lr
    if centroid_lr is None:
        centroid_lr = task.criterion.own_lr if settings.name == "sgd" else 10 * settings.lr
    own = [p for p in task.criterion.own_parameters() if p.requires_grad]
    names = {id(parameter) for parameter in own}
    head = [p for p in task.criterion.parameters() if id(p) not in names]
    network_lr, decay = settings.lr * settings.backbone_lr, settings.weight_decay
    groups = [
        *_groups("network", list(task.network.parameters()), network_lr, decay, settings.name),
        *_groups("head", head, settings.lr, decay, settings.name),
        *_groups("centroids", own, centroid_lr, 0.0, settings.name),
    ]
    groups = [group for group in groups if group["params"]]
    if not groups:
        raise ValueError(
            "optimizer: nothing is left to train: backbone_lr=0 freezes the network, and this loss has no parameters."
        )
    if settings.name == "adamw":
        return torch.optim.AdamW(groups, betas=(settings.momentum, 0.999))
    return torch.optim.SGD(groups, momentum=settings.momentum, nesterov=settings.nesterov)


def _groups(
    name: str, parameters: list[nn.Parameter], lr: float, weight_decay: float, optimizer: str
) -> list[dict[str, Any]]:
    """A group; for AdamW two, since its decay is meant for matrices: scales and biases get none (SGD's recipes decay all)."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    flat = [p for p in trained if p.ndim < 2 and optimizer == "adamw" and weight_decay]
    kept = [p for p in trained if not any(p is other for other in flat)]
    shared = {"lr": lr, "base_lr": lr, "name": name}
    return [{"params": kept, "weight_decay": weight_decay, **shared}, {"params": flat, "weight_decay": 0.0, **shared}]
