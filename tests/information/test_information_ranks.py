"""Ranks against plain loops."""

import pytest
import torch

from ncmi.information.ranks import auroc, precision_at, rank_correlation


def test_auroc_is_the_share_of_pairs_in_order():
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(8, (60,), generator=generator).double()
    positive = torch.rand(60, generator=generator) < 0.3
    pairs = [
        1.0 if high > low else 0.5 if high == low else 0.0
        for high in numbers[positive].tolist()
        for low in numbers[~positive].tolist()
    ]
    assert auroc(numbers, positive) == pytest.approx(sum(pairs) / len(pairs))


@pytest.mark.parametrize("positive", [[True, True], [False, False]])
def test_one_kind_alone_is_refused(positive):
    with pytest.raises(ValueError, match=r"auroc: needs samples of both kinds; got \d positive ones of 2"):
        auroc(torch.tensor([1.0, 2.0]), torch.tensor(positive))


def test_precision_and_correlation():
    assert precision_at(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([True, False, False]), 1) == 1.0
    stats = pytest.importorskip("scipy.stats")
    generator = torch.Generator().manual_seed(1)
    first, second = torch.randint(6, (2, 40), generator=generator).double()
    assert rank_correlation(first, second) == pytest.approx(float(stats.spearmanr(first, second).statistic))
