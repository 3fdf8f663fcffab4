"""``Source``: what a run learns from, whatever its samples are."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from ncmi.data import Flips
from ncmi.data.keyed import permutation
from ncmi.data.loaders import Loader
from ncmi.training.processes import Processes


class Source:
    """Training, validation and test part of some data, with loaders and a network that fit them.

    Args:
        class_names: C names; the class index is the position.
        train: what is learned from; it has a length and ``targets``.
        validation: what choices are made on, if there is such a part; its samples are taken in a mixed order.
        test: touched once, at the end.
    """

    flips: Flips | None = None  # training labels that were made wrong on purpose

    def __init__(self, class_names: Sequence[str], train: Any, validation: Any | None, test: Any | None):
        self.class_names = tuple(class_names)
        if validation is not None:
            # A folder's images come class by class; an objective that compares the samples of a batch wants others, too.
            validation = validation.subset(permutation(len(validation), seed=0))
        self.train, self.validation, self.test = train, validation, test
        missing = (train.targets.bincount(minlength=self.num_classes) == 0).nonzero().flatten().tolist()
        if missing:
            names = ", ".join(self.class_names[target] for target in missing[:5])
            raise ValueError(
                f"data: {len(missing)} of {self.num_classes} classes of {train.name} have no training sample ({names}). Raise "
                "train_size, or lower validation."
            )

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.class_names)

    def patients(self, part: Any) -> tuple[str, ...]:
        """Whom each sample of a part comes from; empty where samples are independent."""
        return ()

    def train_loader(self, processes: Processes, views: int = 1) -> Loader:
        """Batches of an epoch, in an order and with a chance that are functions of the config's seed."""
        raise NotImplementedError

    def test_loader(self, part: Any, processes: Processes) -> Loader:
        """A part in order, as it is."""
        raise NotImplementedError

    def make_network(self) -> nn.Module:
        """The config's network, with random weights; it returns features."""
        raise NotImplementedError
