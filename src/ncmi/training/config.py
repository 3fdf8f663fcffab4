"""``Config``: everything a run depends on, as typed dataclasses; a recipe fills it, ``--set`` overrides it.

Only the standard library is imported at the top: the command line reads configs without waiting for torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from ncmi.recipes import LOSS_OPTIONS
from ncmi.training.values import as_sentence, check_values, plain

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser


@dataclass
class DataConfig:
    """Which data, how it is split, and how training images are changed.

    Args:
        name: as in :func:`ncmi.data.load_data`: ``digits``, ``cifar100``, ``folder:<path>`` and so on; or ``bags:<name>``, as
            in :func:`ncmi.data.bags.load_bags`.
        folder: where to look for the files; by default ``$NCMI_DATA``, ``./data`` and ``~/.cache/ncmi/data``.
        options: of ``load_data``, such as ``{labels: coarse}``.
        train_size: train on this many samples, a stratified choice; by default on all.
        validation: split off the training set, stratified: a fraction below 1, or a number of samples; 0 for none. Data that
            bring a validation part of their own keep it.
        fold: which of the splits that bags come with; ``splits_<fold>.csv`` for one.
        balanced: draw as many bags from every class.
        flip_labels: make this share of the training labels of images wrong, to measure what finds them, as
            ``ncmi mislabeled`` does.
        split_seed: of all these choices. It is not the run's seed, so that runs with other seeds share their data.
        crop: pad by so many pixels and crop back, for sets in memory; 0 turns it off.
        flip: mirror images half the time.
        rotation: rotate by up to so many degrees, for sets in memory.
        train_resolution: pixels of a side in training, for folders of images.
        test_resolution: pixels of a side in evaluation, for folders of images.
        workers: processes that decode, for folders of images.
    """

    name: str = "digits"
    folder: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    train_size: int | None = None
    validation: float = 0.1
    fold: int = 0
    balanced: bool = False
    flip_labels: float = 0.0
    split_seed: int = 0
    crop: int = 0
    flip: bool = False
    rotation: float = 0.0
    train_resolution: int = 224
    test_resolution: int = 280
    workers: int = 4


@dataclass
class ModelConfig:
    """The network, without a head: heads belong to the loss.

    Args:
        name: as in :func:`ncmi.models.create_model`: also ``timm:<name>``, and ``package.module:function`` for your own.
        options: of ``create_model``; ``in_channels`` and an MLP's ``in_features`` come from the data.
        init_from: a file of weights to start from: ours, torchvision's or timm's.
        init_prefix: what stands before the network's names in that file, if it holds several networks.
    """

    name: str = "mlp"
    options: dict[str, Any] = field(default_factory=dict)
    init_from: str | None = None
    init_prefix: str | None = None


@dataclass
class LossConfig:
    """The loss: ``loss=ce`` and ``loss.name=ce`` are the same.

    Args:
        name: as in :func:`ncmi.criteria.create_criterion`: ``ncmi``, ``ce`` and the other losses.
        options: of that loss, such as ``{objective: theorem1}``.
    """

    name: str = "ncmi"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class OptimizerConfig:
    """The optimiser.

    Args:
        name: ``sgd`` or ``adamw``.
        lr: the largest learning rate of network and head.
        momentum: of SGD; the first beta of AdamW.
        nesterov: SGD's variant of momentum.
        weight_decay: of network and head.
        centroid_lr: largest rate of parameters that the loss holds beside a head, as NCMI's centroids. By default what the
            loss wants from SGD (1 for NCMI), and 10 · lr for AdamW.
        backbone_lr: factor on the network's rate, for fine-tuning; 0 freezes the network, its batch statistics included.
        clip_norm: largest norm of the gradient of network and head; by default any.
        micro_batch: send the batch through the network in parts of so many samples and recompute their activations in the
            backward pass. The loss still sees the whole batch, so that what compares samples stays exact; it saves
            memory and costs one more forward pass.
    """

    name: Literal["sgd", "adamw"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 5e-4
    centroid_lr: float | None = None
    backbone_lr: float = 1.0
    clip_norm: float | None = None
    micro_batch: int | None = None


@dataclass
class ScheduleConfig:
    """The learning rate over the steps, as a factor on each group's own.

    Args:
        name: ``constant``, ``step``, ``cosine`` or ``one-cycle``.
        warmup_epochs: rise linearly from 0 first; one-cycle has a rise of its own.
        milestones: epochs after which ``step`` falls.
        decay: the factor by which it falls.
        rise: the share of all steps in which ``one-cycle`` rises.
    """

    name: Literal["constant", "step", "cosine", "one-cycle"] = "cosine"
    warmup_epochs: float = 0.0
    milestones: list[float] = field(default_factory=list)
    decay: float = 0.1
    rise: float = 0.3


@dataclass
class EngineConfig:
    """How the arithmetic is done.

    Args:
        precision: ``float32``; ``bf16`` or ``fp16`` for mixed precision (the loss stays in float32); ``float64``.
        compile: let ``torch.compile`` translate network and loss.
        channels_last: the memory layout that convolutions on some devices prefer.
        deterministic: only algorithms that give equal bits each time.
        ema: decay of a moving average of the weights, which then is what is evaluated and saved; 0 for none.
    """

    precision: Literal["float32", "bf16", "fp16", "float64"] = "float32"
    compile: bool = False
    channels_last: bool = False
    deterministic: bool = True
    ema: float = 0.0


@dataclass
class Config:
    """A run.

    Args:
        description: one sentence.
        scale: ``full`` for a published protocol, ``small`` for a shortened one on real data, ``smoke`` for a trial.
        seed: of the start, the order of samples and their augmentation.
        epochs: passes over the training set.
        batch_size: samples a step, of all processes together.
        test_batch_size: samples a step in evaluation.
        data: which data.
        model: the network.
        loss: the loss.
        optimizer: the optimiser.
        schedule: the learning rate.
        engine: the arithmetic.
        decisions: what the last epoch is evaluated with: the loss's own decision (``own``), ``class means``,
            ``fitted centroids``, ``linear probe`` and ``knn``. The one that the loss is judged by is added if it is not among
            them.
        trackers: ``tensorboard`` and ``wandb``, beside the run's own log.
        checkpoint_minutes: save within an epoch too when so much time has passed.
    """

    description: str = ""
    scale: Literal["full", "small", "smoke"] = "small"
    seed: int = 0
    epochs: int = 10
    batch_size: int = 128
    test_batch_size: int = 500
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    decisions: list[Literal["own", "class means", "fitted centroids", "linear probe", "knn"]] = field(
        default_factory=lambda: ["own", "class means", "fitted centroids", "linear probe", "knn"]
    )
    trackers: list[Literal["tensorboard", "wandb"]] = field(default_factory=list)
    checkpoint_minutes: float = 15.0

    def __post_init__(self) -> None:
        check_values(self)

    def to_dict(self) -> dict[str, Any]:
        """The whole config as plain dictionaries, as it is written into the run folder."""
        return asdict(self)


def make_config(values: Mapping[str, Any], overrides: Sequence[str] = (), owner: str = "config") -> Config:
    """The config of a recipe's values, with ``key=value`` overrides on top.

    Args:
        values: nested dictionaries, as a recipe holds them; what they leave out keeps its default.
        overrides: such as ``optimizer.lr=0.3``, ``loss=ce`` (the section's name; its options start afresh) or
            ``data.options.labels=coarse``. Values are read as YAML.
        owner: what to call the recipe in messages.

    >>> config = make_config({"loss": {"name": "ncmi", "options": {"temperature": 0.1}}}, ["loss=ce", "optimizer.lr=0.3"])
    >>> config.loss, config.optimizer.lr
    (LossConfig(name='ce', options={}), 0.3)
    """
    tree = plain(values)
    for section in _NAMED:
        if isinstance(tree.get(section), str):
            tree[section] = _named(section, tree[section], {})
    # Names first, so that what is set below them does not depend on the order.
    for override in sorted(overrides, key=lambda text: "." in text.partition("=")[0]):
        _override(tree, override)
    _check_keys(owner, tree, Config)
    return _typed(owner, tree)


def _override(tree: dict[str, Any], override: str) -> None:
    import yaml

    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--set: needs key=value, such as optimizer.lr=0.1; got {override!r}.")
    try:
        value = plain(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ValueError(f"--set: the value of {key!r} cannot be read as YAML: {text!r}.") from error
    *sections, last = key.strip().split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise ValueError(f"--set: {key!r} goes below {section!r}, which is a value and not a section.")
    if last in _NAMED and not sections and isinstance(value, str):
        value = _named(last, value, tree.get(last, {}))
    tree[last] = value


def _named(section: str, name: str, before: dict[str, Any]) -> dict[str, Any]:
    """A section that a bare name stands for; options belong to the name that had them."""
    if section not in _WITH_OPTIONS:
        return {**before, "name": name}
    options = {"options": dict(LOSS_OPTIONS[name])} if section == "loss" and name in LOSS_OPTIONS else {}
    kept = {key: value for key, value in before.items() if key not in ("name", "options")}
    return {**kept, "name": name, **options}


# Sections that a bare string names, and those whose options belong to the name and are dropped with it.
_NAMED = ("data", "model", "loss", "optimizer", "schedule")
_WITH_OPTIONS = ("model", "loss")


def _check_keys(owner: str, tree: Mapping[str, Any], kind: type, path: str = "") -> None:
    """Every key is a field of its dataclass, and every section is a dictionary."""
    import difflib

    known = {item.name: item for item in fields(kind)}
    for key, value in tree.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=2, cutoff=0.5)
            hint = f" Did you mean {' or '.join(path + name for name in near)}?" if near else ""
            place = f" of {path[:-1]}" if path else ""
            raise ValueError(f"{owner}: {path + key} is no setting{place}; there are {', '.join(known)}.{hint}")
        section = known[key].type
        if isinstance(section, type) and is_dataclass(section):
            if not isinstance(value, Mapping):
                raise ValueError(f"{owner}: {path + key} is a section with settings of its own; got {value!r}.")
            _check_keys(owner, value, section, f"{path}{key}.")


def _typed(owner: str, tree: dict[str, Any]) -> Config:
    try:
        from jsonargparse import ArgumentError
    except ImportError as error:
        raise ImportError(
            "ncmi: recipes and the command line need jsonargparse and PyYAML, which are not installed: "
            "`pip install 'ncmi[train]'`."
        ) from error
    parser = _parser()
    try:
        parsed = parser.parse_object(tree)
    except ArgumentError as error:
        raise ValueError(f"{owner}: {as_sentence(str(error))}") from error
    return Config(**vars(parser.instantiate(parsed)))


@cache
def _parser() -> "ArgumentParser":
    """Made once: that takes as long as reading a config, and a study reads hundreds."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(Config)
    return parser
