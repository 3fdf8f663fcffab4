"""Values of a config: numbers however YAML reads them, sentences for what cannot work."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ncmi.training.config import Config


def plain(value: Any) -> Any:
    """Dictionaries, lists and numbers alone; YAML 1.1 takes 1e-3 for a string, since it has no point.

    >>> plain({"lr": "1e-3", "milestones": (60, "1e2")})
    {'lr': 0.001, 'milestones': [60, 100.0]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value):
        return float(value)
    return value


def as_sentence(message: str) -> str:
    """jsonargparse's words about a value of a wrong type, as a sentence."""
    message = re.sub(r"\s+", " ", message)
    message = re.sub(r"Parser key \"([^\"]+)\": Expected an? ", r"\1 must be ", message)
    message = re.sub(r"<class '(\w+)'>", r"\1", message).replace("typing.Literal", "one of ")
    message = re.sub(r"\. Got value: (.*)", r"; got \1", message)
    return message.rstrip(".") + "."


def check_values(config: "Config") -> None:
    """Numbers that cannot work get a sentence before anything is read or built."""
    positive = {
        "epochs": config.epochs,
        "batch_size": config.batch_size,
        "test_batch_size": config.test_batch_size,
        "optimizer.lr": config.optimizer.lr,
        "optimizer.clip_norm": config.optimizer.clip_norm,
        "optimizer.micro_batch": config.optimizer.micro_batch,
        "data.train_size": config.data.train_size,
        "data.train_resolution": config.data.train_resolution,
        "data.test_resolution": config.data.test_resolution,
        "checkpoint_minutes": config.checkpoint_minutes,
    }
    at_least_zero = {
        "data.validation": config.data.validation,
        "data.workers": config.data.workers,
        "optimizer.weight_decay": config.optimizer.weight_decay,
        "optimizer.centroid_lr": config.optimizer.centroid_lr,
        "optimizer.backbone_lr": config.optimizer.backbone_lr,
        "schedule.warmup_epochs": config.schedule.warmup_epochs,
    }
    below_one = {
        "data.flip_labels": config.data.flip_labels,
        "optimizer.momentum": config.optimizer.momentum,
        "engine.ema": config.engine.ema,
        "schedule.rise": config.schedule.rise,
    }
    for name, value in positive.items():
        if value is not None and not value > 0:
            raise ValueError(f"config: {name} must be positive; got {value}.")
    for name, value in at_least_zero.items():
        if value is not None and not value >= 0:
            raise ValueError(f"config: {name} must be 0 or more; got {value}.")
    for name, value in below_one.items():
        if not 0 <= value < 1:
            raise ValueError(f"config: {name} must lie in [0, 1); got {value}.")
    if not 0 <= config.seed < 2**31:
        raise ValueError(f"config: seed must lie in [0, 2^31); got {config.seed}.")
    if config.optimizer.nesterov and not config.optimizer.momentum:
        raise ValueError("config: optimizer.nesterov needs a momentum above 0.")
    if config.engine.compile and config.optimizer.micro_batch:
        raise ValueError("config: engine.compile and optimizer.micro_batch do not go together; leave one of them out.")
