"""Bags of instances as what a run learns from: whole slides, and the classic multiple-instance sets."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from ncmi.data.bags import BagLoader, BagSet, bracs_split, camelyon17_split, clam_split, load_bags, patient_folds
from ncmi.data.bags.splits import BagSplit
from ncmi.data.loaders import Batch, Loader
from ncmi.models.mil import Bags, create_bag_model
from ncmi.training.config import Config
from ncmi.training.processes import Processes
from ncmi.training.sources.base import Source

PREFIX = "bags:"

# How a set with a name of its own is split; others by CLAM's files if they are there, else in patient-grouped folds.
_SPLITS = {"camelyon17": "camelyon17", "bracs": "bracs", "bracs-7": "bracs"}


class BagSource(Source):
    """A set of bags, split by patient; ``data.fold`` says which of several splits."""

    def __init__(self, config: Config):
        data = config.data
        if data.train_size is not None:
            raise ValueError(
                f"data: train_size={data.train_size} is for images; bags are divided by patient. Leave it out, and shorten the "
                "set's table or its splits_<fold>.csv instead."
            )
        bags = load_bags(data.name.removeprefix(PREFIX), data.folder, preload=data.workers == 0, **data.options)
        split = make_split(bags, data.name.removeprefix(PREFIX), data.fold)
        self.config, self.in_features = config, bags.in_features
        train, validation, test = (bags.subset(indices) if len(indices) else None for indices in split)
        super().__init__(bags.class_names, train, validation, test)

    def patients(self, part: BagSet) -> tuple[str, ...]:
        """The patient of each bag."""
        return part.patients

    def train_loader(self, processes: Processes, views: int = 1) -> Loader:
        """Groups of bags with at least two classes in each."""
        if views > 1:
            raise ValueError("data: bags have one view each, and this loss wants several. Take another loss.")
        config = self.config
        loader = BagLoader(
            self.train,
            config.batch_size,
            two_classes=config.batch_size > 1,
            balanced=config.data.balanced,
            seed=config.seed,
            **processes.place,
        )
        return _Packed(loader)

    def test_loader(self, part: BagSet, processes: Processes) -> Loader:
        """Every bag once and in order."""
        size = max(self.config.test_batch_size, processes.size)
        return _Packed(BagLoader(part, size, shuffle=False, **processes.place))

    def make_network(self) -> nn.Module:
        """The config's bag model for the width of these instances."""
        return create_bag_model(self.config.model.name, self.in_features, **self.config.model.options)


def make_split(bags: BagSet, name: str, fold: int) -> BagSplit:
    """The split number ``fold`` of a set: the published one, CLAM's file, or one of ten patient-grouped folds."""
    kind = _SPLITS.get(name)
    if kind == "camelyon17":
        return camelyon17_split(bags, seed=fold)
    if kind == "bracs":
        return bracs_split(bags)
    if bags.root is not None and (bags.root / "splits").is_dir():
        return clam_split(bags, fold)
    folds = patient_folds(bags)
    if not 0 <= fold < len(folds):
        raise ValueError(f"data: fold must lie in [0, {len(folds) - 1}] for {bags.name}; got {fold}.")
    return folds[fold]


class _Packed(Loader):
    """A loader of bags as training wants it: a group of bags stands where images would."""

    def __init__(self, loader: BagLoader):
        super().__init__(loader.plan, loader.device)  # pyright: ignore[reportArgumentType]
        self.loader = loader

    def set_epoch(self, epoch: int, start_step: int = 0) -> None:
        """Choose the epoch to iterate over."""
        super().set_epoch(epoch, start_step)
        self.loader.set_epoch(epoch, start_step)

    def __iter__(self) -> Iterator[Batch]:
        for group in self.loader:
            bags: Any = Bags(group.instances, group.lengths)
            yield Batch(bags, group.targets, group.indices)
