"""Stratified choices: exact counts, true proportions, no class lost, the same for the same seed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ncmi.data import ImageSet, split_off, stratified_subset

BALANCED = torch.arange(10).repeat(50)


def test_validation_of_a_balanced_set():
    kept, held_out = split_off(BALANCED, 100)
    assert torch.bincount(BALANCED[held_out]).tolist() == [10] * 10
    assert torch.equal(torch.cat((kept, held_out)).sort().values, torch.arange(500))
    assert torch.equal(held_out, held_out.sort().values)


def test_a_fraction_and_its_count_are_the_same():
    for first, second in zip(split_off(BALANCED, 0.1), split_off(BALANCED, 50), strict=True):
        assert torch.equal(first, second)


def test_seeds_differ_and_repeat():
    first = split_off(BALANCED, 100, seed=1).held_out
    assert torch.equal(first, split_off(BALANCED, 100, seed=1).held_out)
    common = set(first.tolist()) & set(split_off(BALANCED, 100, seed=2).held_out.tolist())
    assert len(common) < 40


def test_the_choice_is_the_same_on_every_machine():
    assert split_off(torch.arange(3).repeat(5), 4, seed=7).held_out.tolist() == [1, 4, 9, 14]


@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) > 1),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 5),
)
def test_shares_are_within_one_sample_and_every_class_can_be_trained(sizes, share, seed):
    targets = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    room = sum(max(size - 1, 0) for size in sizes)
    count = max(1, min(int(share * len(targets)), room))
    if room == 0:
        return
    kept, held_out = split_off(targets, count, seed)
    assert len(held_out) == count
    taken = torch.bincount(targets[held_out], minlength=len(sizes)).tolist()
    left = torch.bincount(targets[kept], minlength=len(sizes)).tolist()
    for size, here, there in zip(sizes, taken, left, strict=True):
        assert here + there == size
        assert size == 0 or there >= 1
        # A class at its limit hands its turn on, so the bound holds where no class is.
        if all(s * count / len(targets) <= s - 1 for s in sizes if s):
            assert abs(here - size * count / len(targets)) < 1


@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) > 0),
    share=st.floats(0, 1),
    seed=st.integers(0, 5),
)
def test_subsets_have_every_class(sizes, share, seed):
    targets = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    count = max(1, int(share * len(targets)))
    chosen = stratified_subset(targets, count, seed)
    assert len(chosen) == len(chosen.unique()) == count
    taken = torch.bincount(targets[chosen], minlength=len(sizes)).tolist()
    present = sum(size > 0 for size in sizes)
    if count >= present:
        assert all(here >= 1 for size, here in zip(sizes, taken, strict=True) if size)
    quotas = [size * count / len(targets) for size in sizes]
    if all(quota >= 1 for quota in quotas if quota):
        assert all(abs(here - quota) < 1 for here, quota in zip(taken, quotas, strict=True))


def test_a_rare_class_is_paid_for_by_the_large_ones():
    targets = torch.tensor([0] * 900 + [1] * 95 + [2] * 5)
    assert torch.bincount(targets[stratified_subset(targets, 100)]).tolist() == [90, 9, 1]
    assert torch.bincount(targets[stratified_subset(targets, 3)]).tolist() == [1, 1, 1]


def test_no_class_is_favoured_where_shares_are_equal():
    first = [stratified_subset(torch.arange(10).repeat(3), 15, seed).tolist() for seed in range(40)]
    extra = torch.zeros(10)
    for chosen in first:
        extra += torch.bincount(torch.arange(10).repeat(3)[chosen], minlength=10) - 1
    assert float(extra.min()) > 8  # 20 expected of each class
    assert float(extra.max()) < 32


@pytest.mark.parametrize(
    ("held_out", "sentence"),
    [
        (0, r"held_out must lie in \[1, 499\]"),
        (500, r"held_out must lie in \[1, 499\]"),
        (1.5, r"a fraction must lie in \(0, 1\); got 1.5"),
        (0.0001, "held_out must lie in"),
        (495, "each of the 10 classes must keep one; at most 490"),
    ],
)
def test_impossible_splits_get_a_sentence(held_out, sentence):
    with pytest.raises(ValueError, match=sentence):
        split_off(BALANCED, held_out)


@pytest.mark.parametrize("count", [0, 501])
def test_impossible_subsets_get_a_sentence(count):
    with pytest.raises(ValueError, match=r"count must lie in \[1, 500\]"):
        stratified_subset(BALANCED, count)


def test_image_sets_are_checked():
    pixels, targets = torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.tensor([0, 1])
    with pytest.raises(ValueError, match=r"images must be uint8 .* got torch.float32"):
        ImageSet(pixels.float(), targets, ("a", "b"))
    with pytest.raises(ValueError, match=r"targets must be int64 of shape \(2,\)"):
        ImageSet(pixels, targets[:1], ("a", "b"))
    with pytest.raises(ValueError, match=r"labels must lie in \[0, 0\] .* image 1 has label 1"):
        ImageSet(pixels, targets, ("a",), "letters")
    part = ImageSet(pixels, targets, ("a", "b"), "letters").subset(torch.tensor([1]))
    assert (len(part), part.num_classes, part.image_shape, part.name) == (1, 2, (1, 4, 4), "letters")
