"""Keyed random numbers: the published function, the same in tensors and in Python, uniform, and a function of the key."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ncmi.data import keyed
from ncmi.data.keyed import integers, permutation, random_bits, sample_hash, sample_uniforms, uniform


def test_mixing_is_splitmix64():
    # The first outputs of the reference implementation for the seed 1234567.
    state, outputs = 1234567, []
    for _ in range(5):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        outputs.append(keyed._mix(state))
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert outputs == expected


@given(
    seed=st.integers(-(2**70), 2**70),
    epoch=st.integers(0, 10**6),
    index=st.integers(0, 2**40),
    purpose=st.sampled_from([keyed.AUGMENTATION, keyed.ORDER, keyed.SPLIT]),
)
def test_tensors_and_python_integers_agree(seed, epoch, index, purpose):
    key = {"seed": seed, "epoch": epoch, "purpose": purpose}
    from_tensor = uniform(random_bits(torch.tensor([index]), 5, **key))[0].tolist()
    assert list(sample_uniforms(index, 5, **key)) == from_tensor


def test_rows_depend_on_their_index_alone():
    indices = torch.tensor([5, 0, 123456, 7])
    bits = random_bits(indices, 4, seed=3, epoch=2)
    assert torch.equal(random_bits(indices[[2]], 4, seed=3, epoch=2), bits[[2]])
    assert torch.equal(random_bits(indices.flip(0), 4, seed=3, epoch=2), bits.flip(0))
    assert torch.equal(random_bits(indices, 2, seed=3, epoch=2), bits[:, :2])


@pytest.mark.parametrize("change", [{"seed": 1}, {"epoch": 1}, {"purpose": keyed.SPLIT}])
def test_every_part_of_the_key_counts(change):
    indices = torch.arange(1000)
    first = uniform(random_bits(indices, 1, seed=0, epoch=0)).flatten()
    second = uniform(random_bits(indices, 1, **{"seed": 0, "epoch": 0, **change})).flatten()
    assert len(set(first.tolist()) & set(second.tolist())) < 5
    assert abs(float(torch.corrcoef(torch.stack((first, second)))[0, 1])) < 0.1


def test_numbers_are_uniform_and_draws_independent():
    values = uniform(random_bits(torch.arange(20_000), 3, seed=0)).double()
    assert values.dtype == torch.float64
    assert 0 <= float(values.min()) < 1e-3 < 0.999 < float(values.max()) < 1
    histogram = torch.histc(values, 50, 0, 1)
    chi_squared = float(((histogram - 1200).square() / 1200).sum())
    assert 25 < chi_squared < 85  # 49 degrees of freedom
    assert float((torch.corrcoef(values.T) - torch.eye(3)).abs().max()) < 0.03


def test_integers_cover_their_range_evenly():
    counts = torch.bincount(integers(random_bits(torch.arange(90_000), 1, seed=0).flatten(), 9))
    assert len(counts) == 9
    assert int((counts - 10_000).abs().max()) < 400


def test_hashes_do_not_collide():
    assert len(sample_hash(torch.arange(100_000), seed=0).unique()) == 100_000


def test_permutation_is_one_and_changes_with_the_epoch():
    first, second = permutation(1000, seed=0, epoch=0), permutation(1000, seed=0, epoch=1)
    assert torch.equal(first.sort().values, torch.arange(1000))
    assert int((first == second).sum()) < 10
    assert torch.equal(first, permutation(1000, seed=0, epoch=0))
    assert len(permutation(0, seed=0)) == 0
