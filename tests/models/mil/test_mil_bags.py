"""Groups of bags: packing, unpadding, and sentences for what cannot be a bag."""

import pytest
import torch

from ncmi.models.mil import ABMIL, Bags


def test_pack_and_split_are_each_others_inverse():
    bags = [torch.randn(length, 3) for length in (4, 1, 6)]
    packed = Bags.pack(bags)
    assert packed.lengths.tolist() == [4, 1, 6]
    assert all(torch.equal(one, other) for one, other in zip(packed.split(), bags, strict=True))


def test_unpad_keeps_the_real_instances_in_order():
    padded = torch.arange(12.0).view(2, 3, 2)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    bags = Bags.unpad(padded, mask)
    assert torch.equal(bags.instances, torch.tensor([[0.0, 1.0], [4.0, 5.0], [8.0, 9.0]]))
    assert bags.lengths.tolist() == [2, 1]
    with pytest.raises(
        ValueError, match=r"mask shape \(G, N\), true at real.*got \(2, 3, 2\) and torch.int64 \(2, 3\)"
    ):
        Bags.unpad(padded, mask.long())
    with pytest.raises(ValueError, match=r"padded must have shape \(G, N, F\)"):
        Bags.unpad(padded[0], mask)


def test_pack_wants_bags_of_one_width():
    with pytest.raises(ValueError, match=r"same F; got \(2, 3\), \(2, 4\)\. Take the bags of one feature extractor"):
        Bags.pack([torch.zeros(2, 3), torch.zeros(2, 4)])
    with pytest.raises(ValueError, match=r"every bag must have shape \(N, F\)"):
        Bags.pack([torch.zeros(3), torch.zeros(3)])
    with pytest.raises(ValueError, match=r"at least one bag; got none"):
        Bags.pack([])


def holes(value):
    bag = torch.zeros(4, 5)
    bag[2, 1] = value
    return bag


@pytest.mark.parametrize(
    ("bags", "kind", "sentence"),
    [
        (
            torch.zeros(0, 5),
            ValueError,
            r"ABMIL: a bag must hold at least one instance; got \(0, 5\)\. Leave out slides",
        ),
        (torch.zeros(0), ValueError, r"at least one instance; got \(0,\)"),
        (Bags.pack([torch.zeros(2, 5), torch.zeros(0, 5)]), ValueError, r"bag 1 of 2 is empty\. Leave out slides"),
        (Bags(torch.zeros(0, 5), torch.tensor([0])), ValueError, r"at least one instance; got \(0, 5\)"),
        (torch.zeros(4, 6), ValueError, r"\(N, 5\) because in_features=5; got \(4, 6\)\. Build the .* in_features=6"),
        (torch.zeros(5), ValueError, r"got \(5,\)\. Pass one bag \(N, F\), or Bags.pack"),
        (torch.tensor(1.0), ValueError, r"got \(\)\. Pass one bag"),
        (torch.zeros(1, 4, 5), ValueError, r"got \(1, 4, 5\)\. Pass bag\[0\].*Bags\.unpad\(padded, mask\)"),
        (
            torch.zeros(4, 5, dtype=torch.uint8),
            TypeError,
            r"real numbers .*got torch.uint8\. Pass the features of the pa",
        ),
        ([torch.zeros(4, 5)], TypeError, r"must be a tensor or Bags; got list\. Pass one bag .* Bags.pack"),
        (holes(float("nan")), ValueError, r"finite; 1 of 4 rows hold NaN or infinity \(first at row 2\)\. Extract"),
        (holes(float("inf")), ValueError, r"finite; 1 of 4 rows"),
        (Bags(torch.zeros(4, 5), torch.tensor([2, 1])), ValueError, r"add up to .*sum 3 and 4 instances\. Bags\.pack"),
        (Bags(torch.zeros(4, 5), torch.tensor([5, -1])), ValueError, r"lengths must not be negative; got -1"),
        (Bags(torch.zeros(4, 5), torch.tensor([4.0])), ValueError, r"whole numbers of shape \(G,\).*got torch.float32"),
        (Bags(torch.zeros(4, 5), torch.tensor(4)), ValueError, r"whole numbers .*of shape \(\)"),
        (Bags(torch.zeros(4, 5), torch.tensor([], dtype=torch.long)), ValueError, r"whole numbers .*of shape \(0,\)"),
    ],
)
def test_what_cannot_be_a_bag(bags, kind, sentence):
    with pytest.raises(kind, match=sentence):
        ABMIL(5, 8)(bags)


def test_large_numbers_are_no_infinity():
    # Their sum overflows, they do not.
    assert ABMIL(5, 8).eval()(torch.full((40, 5), 3e37)).attention.shape == (40, 1)
