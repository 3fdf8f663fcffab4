"""``DataKind``: what a comparison must know of its kind of data: the scores it shows and chooses by, and where a seed goes."""

from collections.abc import Callable
from typing import NamedTuple

from ncmi.models import list_models
from ncmi.models.mil import list_bag_models


class Column(NamedTuple):
    """A score of a decision on the test set that gets a column.

    Args:
        decision: as evaluation names it: ``"own"``, ``"linear probe"``.
        score: as evaluation names it: ``"top1"``, ``"macro_f1"``.
        title: of the column.
        compared: whether there is a column of differences to the reference, too.
    """

    decision: str
    score: str
    title: str
    compared: bool = True


class DataKind(NamedTuple):
    """A kind of data.

    Args:
        columns: of the table.
        shown: the scores of the columns, in words.
        chosen_by: the scores on validation whose mean chooses the learning rate.
        criterion: the same in words.
        folds: whether the data come in several splits, numbered by ``data.fold``. Seed k then takes split k.
        covered: what deviations and intervals over seeds cover, in words.
        list_models: the networks for such data.
    """

    columns: tuple[Column, ...]
    shown: str
    chosen_by: tuple[str, ...]
    criterion: str
    folds: bool
    covered: str
    list_models: Callable[[], list[str]]

    @property
    def seed_keys(self) -> tuple[str, ...]:
        """The settings that a seed goes to."""
        return ("seed", "data.fold") if self.folds else ("seed",)


IMAGES = DataKind(
    columns=(
        Column("own", "top1", "own decision"),
        Column("linear probe", "top1", "linear probe"),
        Column("class means", "top1", "class means", compared=False),
    ),
    shown="top-1",
    chosen_by=("top1",),
    criterion="accuracy",
    folds=False,
    covered="seeds alone (start, order, augmentation), on one training set and one test set",
    list_models=list_models,
)

BAGS = DataKind(
    columns=(
        Column("own", "macro_f1", "own, macro F1"),
        Column("own", "macro_auc", "own, macro AUC"),
        Column("linear probe", "macro_f1", "probe, macro F1"),
        Column("linear probe", "macro_auc", "probe, macro AUC"),
    ),
    shown="macro F1 and macro AUC of the own decision and of the linear probe",
    chosen_by=("macro_f1", "macro_auc"),
    criterion="the mean of macro F1 and macro AUC",
    folds=True,
    covered=(
        "seeds and splits: seed k takes split k (data.fold), where the data have several. Splits share samples, so that the "
        "intervals may be too narrow; those over patients, of each run, are in the rows"
    ),
    list_models=list_bag_models,
)

# By what stands before the name of the data.
_KINDS = {"bags:": BAGS}


def data_kind(name: str) -> DataKind:
    """The kind of the data of that name, as ``data.name`` has it.

    >>> data_kind("cifar100").criterion, data_kind("bags:tcga-lung").seed_keys
    ('accuracy', ('seed', 'data.fold'))
    """
    prefix, colon, _ = name.partition(":")
    return _KINDS.get(prefix + colon, IMAGES)
