"""From a config to things: data, loaders, task and optimiser."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ncmi.criteria import create_criterion
from ncmi.data import (
    Augment,
    BatchViews,
    CenterCrop,
    DataSplits,
    Flips,
    FolderLoader,
    FolderSet,
    ImageSet,
    ImageViews,
    Normalize,
    RandomResizedCrop,
    TensorLoader,
    flip_labels,
    load_data,
    split_off,
    stratified_subset,
)
from ncmi.data.loaders import Loader
from ncmi.models import create_model, load_weights
from ncmi.training.config import Config, DataConfig
from ncmi.training.processes import Processes
from ncmi.training.task import Task

Part = ImageSet | FolderSet


@dataclass(frozen=True)
class Parts:
    """What a run sees of its data: the training part, the validation part (if any), and the source of all.

    ``flips`` says which training labels were made wrong on purpose.
    """

    source: DataSplits
    train: Part
    validation: Part | None
    flips: Flips | None = None

    @property
    def test(self) -> Part | None:
        """The test part, if it is there; touched once, at the end."""
        return self.source.parts.get("test")


def make_parts(config: DataConfig) -> Parts:
    """The parts of a data set as the config divides it: validation first, then the training size."""
    source = load_data(config.name, config.folder, **config.options)
    train, validation = source.train, source.validation
    if validation is None and config.validation:
        held_out = int(config.validation) if config.validation >= 1 else config.validation
        split = split_off(train.targets, held_out, config.split_seed)
        train, validation = train.subset(split.kept), train.subset(split.held_out)
    if config.train_size is not None:
        if config.train_size > len(train):
            raise ValueError(
                f"data: train_size={config.train_size} is more than the {len(train)} training samples of {config.name} that "
                "remain beside the validation part. Lower it."
            )
        train = train.subset(stratified_subset(train.targets, config.train_size, config.split_seed))
    missing = (train.targets.bincount(minlength=source.num_classes) == 0).nonzero().flatten().tolist()
    if missing:
        names = ", ".join(source.class_names[target] for target in missing[:5])
        raise ValueError(
            f"data: {len(missing)} of {source.num_classes} classes of {config.name} have no training sample ({names}). Raise "
            "train_size, or lower validation."
        )
    if not config.flip_labels:
        return Parts(source, train, validation)
    flips = flip_labels(train.targets, config.flip_labels, source.num_classes, config.split_seed)
    return Parts(source, replace(train, targets=flips.targets), validation, flips)


def make_train_loader(config: Config, parts: Parts, processes: Processes, views: int = 1) -> Loader:
    """Shuffled, augmented batches, with as many views of each image as the loss wants.

    An incomplete last batch is left out, unless the whole set is smaller than a batch.
    """
    data, statistics = config.data, parts.source.statistics
    settings: dict[str, Any] = {
        "drop_last": len(parts.train) >= config.batch_size,
        "seed": config.seed,
        **_place(processes),
    }
    if isinstance(parts.train, FolderSet):
        crop, normalize = RandomResizedCrop(data.train_resolution, flip=data.flip), Normalize(*statistics)
        if views > 1:
            crop, normalize = ImageViews(crop, views), BatchViews(normalize, views)
        return FolderLoader(parts.train, crop, normalize, config.batch_size, num_workers=data.workers, **settings)
    _, height, width = parts.train.image_shape
    if data.crop >= min(height, width):
        raise ValueError(
            f"data: crop={data.crop} would move images of {height} × {width} pixels out of sight. Lower it."
        )
    augment = Augment(*statistics, crop=data.crop, flip=data.flip, rotation=data.rotation)
    transform = BatchViews(augment, views) if views > 1 else augment
    return TensorLoader(parts.train, transform, config.batch_size, **settings)


def make_test_loader(config: Config, parts: Parts, part: Part, processes: Processes) -> Loader:
    """A part in order, as it is: for evaluation."""
    settings: dict[str, Any] = {"shuffle": False, **_place(processes)}
    normalize = Normalize(*parts.source.statistics)
    batch_size = max(config.test_batch_size, processes.size)
    if isinstance(part, FolderSet):
        crop = CenterCrop(config.data.test_resolution)
        return FolderLoader(part, crop, normalize, batch_size, num_workers=config.data.workers, **settings)
    return TensorLoader(part, normalize, batch_size, **settings)


def _place(processes: Processes) -> dict[str, Any]:
    return {"rank": processes.rank, "num_ranks": processes.size, "device": processes.device}


def make_network(config: Config, parts: Parts) -> nn.Module:
    """The network for the images of a data set, with random weights."""
    model = config.model
    options = dict(model.options)
    if isinstance(parts.train, ImageSet):
        channels, height, width = parts.train.image_shape
        sizes = {"in_channels": channels, "in_features": channels * height * width}
    else:
        sizes = {"in_channels": 3, "in_features": 3 * config.data.train_resolution**2}
    if model.name == "mlp":
        options.setdefault("in_features", sizes["in_features"])
    elif ":" not in model.name or (model.name.startswith("timm:") and sizes["in_channels"] != 3):
        options.setdefault("in_channels", sizes["in_channels"])
    try:
        return create_model(model.name, **options)
    except TypeError as error:
        raise ValueError(
            f"model: {model.name!r} cannot be built with the options {model.options} ({error})."
        ) from error


def make_task(config: Config, parts: Parts, initialize: bool) -> Task:
    """Network and criterion with random numbers of the config's seed; ``initialize`` reads the weights to start from."""
    torch.manual_seed(config.seed)
    network = make_network(config, parts)
    if initialize and config.model.init_from is not None:
        load_weights(network, config.model.init_from, config.model.init_prefix)
    num_features: int = network.num_features  # pyright: ignore[reportAssignmentType]
    criterion = create_criterion(config.loss.name, parts.source.num_classes, num_features, **config.loss.options)
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
