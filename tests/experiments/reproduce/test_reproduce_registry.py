"""Items by name, in the paper's order."""

import pytest

from ncmi.experiments.reproduce import ITEMS, get_item, list_items


def test_the_order_is_the_papers_and_ours_come_last():
    assert list_items() == [
        "table-cifar100", "table-imagenet", "table-wsi", "table-efficiency", "table-ablation", "figure-accuracy-vs-ncmi",
        "figure-batch-size", "figure-collapse", "theorem", "merged-classes",
        "objective-study",
    ]  # fmt: skip


@pytest.mark.parametrize("name", list(ITEMS))
def test_an_item_is_where_its_entry_says(name):
    item = get_item(name)
    assert item.name == name
    assert item.title


def test_an_unknown_name_lists_its_neighbours():
    with pytest.raises(ValueError, match=r"reproduce: an item must be one of .* Did you mean 'table-cifar100'"):
        get_item("table-cifar10")
