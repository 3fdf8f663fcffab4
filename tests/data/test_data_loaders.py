"""Loaders: ranks share what one process would take, nothing is repeated or lost, and an epoch can go on in its middle."""

import pytest
import torch
from official import images

from ncmi.data import Augment, ImageSet, Normalize, TensorLoader
from ncmi.data.batches import BatchPlan

N = 53
DATA = ImageSet(images(N, channels=1, size=8), torch.arange(N) % 7, tuple("abcdefg"), "letters")
AUGMENT, NORMALIZE = Augment((0.5,), (0.25,), crop=1, rotation=15), Normalize((0.5,), (0.25,))


def epoch_of(epoch=0, start_step=0, transform=AUGMENT, batch_size=10, **settings):
    loader = TensorLoader(DATA, transform, batch_size, **settings)
    loader.set_epoch(epoch, start_step)
    batches = list(loader)
    assert len(batches) == len(loader) - start_step
    return batches


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize(
    ("batch_size", "drop_last"),
    [(10, True), (10, False), (11, True), (11, False), (53, True), (53, False), (100, False)],
)
def test_ranks_together_take_the_batch_of_one_process(num_ranks, batch_size, drop_last):
    settings = {"batch_size": batch_size, "drop_last": drop_last, "seed": 3}
    whole = epoch_of(2, **settings)
    shares = [epoch_of(2, rank=rank, num_ranks=num_ranks, **settings) for rank in range(num_ranks)]
    for one, *parts in zip(whole, *shares, strict=True):
        for field in ("images", "targets", "indices"):
            assert torch.equal(getattr(one, field), torch.cat([getattr(part, field) for part in parts]))
        sizes = [len(part.targets) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= 1


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 60])
@pytest.mark.parametrize("batch_size", [60, 128])
def test_evaluation_takes_every_sample_once_and_in_order(num_ranks, batch_size):
    settings = {"transform": NORMALIZE, "batch_size": batch_size, "shuffle": False, "num_ranks": num_ranks}
    batches = [batch for rank in range(num_ranks) for batch in epoch_of(rank=rank, **settings)]
    assert torch.cat([batch.indices for batch in batches]).tolist() == list(range(N))
    assert torch.equal(torch.cat([batch.images for batch in batches]), NORMALIZE(DATA.images))
    assert torch.equal(torch.cat([batch.targets for batch in batches]), DATA.targets)
    assert max(len(batch.targets) for batch in batches) <= -(-batch_size // num_ranks)


def test_training_takes_every_sample_once_in_a_new_order_each_epoch():
    orders = [torch.cat([batch.indices for batch in epoch_of(epoch)]) for epoch in range(3)]
    assert all(torch.equal(order.sort().values, torch.arange(N)) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == 3
    assert torch.cat([batch.indices for batch in epoch_of(seed=1)]).tolist() != orders[0].tolist()


def test_batches_hold_what_their_indices_say():
    for batch in epoch_of(4, seed=2):
        assert torch.equal(batch.targets, DATA.targets[batch.indices])
        assert torch.equal(batch.images, AUGMENT(DATA.images[batch.indices], batch.indices, 4, 2))
        assert batch.images.dtype == torch.float32


@pytest.mark.parametrize("start_step", [0, 1, 4, 6])
@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_goes_on_in_its_middle(start_step, shuffle):
    whole = epoch_of(5, shuffle=shuffle)
    rest = epoch_of(5, start_step=start_step, shuffle=shuffle)
    assert len(rest) == len(whole) - start_step
    assert all(torch.equal(a.images, b.images) for a, b in zip(rest, whole[start_step:], strict=True))


def test_the_next_epoch_starts_at_its_beginning():
    loader = TensorLoader(DATA, NORMALIZE, 10)
    loader.set_epoch(0, start_step=3)
    assert len(list(loader)) == 3
    loader.set_epoch(1)
    assert len(list(loader)) == len(loader) == 6


def test_drop_last():
    assert [len(batch.targets) for batch in epoch_of(drop_last=True)] == [10] * 5
    assert [len(batch.targets) for batch in epoch_of()] == [10] * 5 + [3]


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    epoch_of()
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rank": 2, "num_ranks": 2}, r"rank must lie in \[0, 1\]; got 2"),
        ({"batch_size": 2, "num_ranks": 3}, "that of all ranks together and must be at least their number, 3; got 2"),
        ({"num_samples": 0}, "the set is empty"),
        ({"batch_size": 60, "drop_last": True}, "53 samples do not fill one batch of 60"),
        ({"batch_size": 26, "num_ranks": 2}, "the last batch of an epoch has 1 of 53 samples, too few for 2 ranks"),
        ({"drop_last": True, "shuffle": False}, "an evaluation takes every sample once"),
    ],
)
def test_bad_plans_get_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        BatchPlan(**{"num_samples": N, "batch_size": 10, **settings})


def test_a_bad_start_gets_a_sentence():
    with pytest.raises(ValueError, match=r"TensorLoader: start_step must lie in \[0, 6\]; got 7"):
        TensorLoader(DATA, NORMALIZE, 10).set_epoch(0, start_step=7)
