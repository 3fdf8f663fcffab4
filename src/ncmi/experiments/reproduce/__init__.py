"""Tables and figures of the paper by name, in its order, and last one of ours. A name costs nothing until it is asked for."""

from importlib import import_module
from typing import NamedTuple

from ncmi.checks import choose
from ncmi.experiments.reproduce.item import Item


class Entry(NamedTuple):
    """Where an item is, and what it shows in a line."""

    module: str
    line: str


ITEMS = {
    "table-cifar100": Entry(
        "cifar100", "accuracy on CIFAR-100: ten losses on ResNets, by own decision and linear probe"
    ),
    "table-imagenet": Entry("imagenet", "top-1 and top-5 on ImageNet, evaluated at a higher resolution than trained"),
    "table-wsi": Entry("wsi", "macro F1 and AUC of four slide models, with cross-entropy and with NCMI"),
    "table-efficiency": Entry("efficiency", "time and memory of a training step"),
    "table-ablation": Entry("ablation", "NCMI with and without its map and its centre"),
    "figure-accuracy-vs-ncmi": Entry(
        "accuracy_vs_ncmi", "accuracy against NCMI of networks trained with cross-entropy"
    ),
    "figure-batch-size": Entry("batch_size", "accuracy over the batch size for cross-entropy, SupCon and NCMI"),
    "figure-collapse": Entry("collapse", "how the outputs of classes contract in training"),
    "theorem": Entry("theorem", "Theorem 1, as printed and corrected, in numbers"),
    "merged-classes": Entry("merged_classes", "ours: objectives whose minimum merges classes"),
}


def list_items() -> list[str]:
    """The names of all items.

    >>> list_items()[:2]
    ['table-cifar100', 'table-imagenet']
    """
    return list(ITEMS)


def get_item(name: str) -> Item:
    """The item of that name; an unknown one lists its nearest neighbours.

    >>> get_item("table-wsi").name
    'table-wsi'
    """
    module = ITEMS[choose("reproduce", "an item", name, ITEMS)].module
    return import_module(f"{__name__}.{module}").ITEM
