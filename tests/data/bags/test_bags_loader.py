"""Groups of bags: two classes in each, every bag once, ranks that share one process's group, and epochs that go on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_bags import made_set, write_clam

from ncmi.data.bags import BagLoader, GroupPlan, load_bags, pack


def plan_groups(targets, epoch=0, **settings):
    plan = GroupPlan(torch.as_tensor(targets), **settings)
    groups = [group.tolist() for group in plan.batches(epoch)]
    assert len(groups) == len(plan)
    return groups


@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=5),
    group_size=st.integers(2, 17),
    seed=st.integers(0, 100),
    epoch=st.integers(0, 5),
)
def test_every_bag_once_and_two_classes_in_every_group(sizes, group_size, seed, epoch):
    targets = [label for label, size in enumerate(sizes) for _ in range(size)]
    count = len(targets)
    groups_needed = max(1, min(-(-count // group_size), count // 2))
    if count - max(sizes) < groups_needed:
        with pytest.raises(ValueError, match="need a bag outside the largest class for each"):
            plan_groups(targets, group_size=group_size)
        return
    groups = plan_groups(targets, epoch, group_size=group_size, seed=seed)
    assert sorted(index for group in groups for index in group) == list(range(count))
    assert all(len({targets[index] for index in group}) >= 2 for group in groups)
    lengths = [len(group) for group in groups]
    assert max(lengths) <= max(group_size, 3 if count % 2 else 2)
    assert max(lengths) - min(lengths) <= 1


@given(sizes=st.lists(st.integers(1, 60), min_size=2, max_size=5), group_size=st.integers(2, 17))
def test_balanced_groups_take_every_class_equally_often(sizes, group_size):
    targets = torch.tensor([label for label, size in enumerate(sizes) for _ in range(size)])
    for epoch in range(3):
        groups = plan_groups(targets, epoch, group_size=group_size, balanced=True, seed=1)
        assert all(len(targets[group].unique()) >= 2 for group in groups)
        drawn = torch.tensor([index for group in groups for index in group])
        assert len(drawn) == len(targets)
        by_class = torch.bincount(targets[drawn], minlength=len(sizes))
        assert by_class.max() - by_class.min() <= 1
        times = torch.bincount(drawn, minlength=len(targets))
        for label in range(len(sizes)):
            own = times[targets == label]
            assert own.max() - own.min() <= 1


def test_balanced_epochs_come_to_every_bag():
    targets = torch.tensor([0] * 30 + [1] * 4)
    seen = {
        index
        for epoch in range(10)
        for group in plan_groups(targets, epoch, group_size=8, balanced=True)
        for index in group
    }
    assert seen == set(range(34))


def test_the_size_that_the_sentence_names_works():
    targets = [0] * 95 + [1] * 5
    with pytest.raises(
        ValueError, match=r"of 25 groups .* 95 of 100 bags, and 5 are left\. Pass group_size=20 or more"
    ):
        plan_groups(targets, group_size=4)
    assert all(any(index >= 95 for index in group) for group in plan_groups(targets, group_size=20))


def test_groups_of_one_bag_for_losses_without_pairs():
    groups = plan_groups([0] * 7, group_size=1, two_classes=False)
    assert sorted(index for (index,) in groups) == list(range(7))


def test_order_is_a_function_of_seed_and_epoch():
    targets = [0, 1, 2] * 20
    orders = [plan_groups(targets, epoch, seed=seed) for epoch in range(3) for seed in range(2)]
    assert len({str(order) for order in orders}) == 6
    assert plan_groups(targets, 1, seed=1) == orders[3]
    assert plan_groups([0, 1] * 4, 2, group_size=4, seed=9) == [[5, 3, 2, 7], [6, 1, 0, 4]]
    assert plan_groups([0] * 7 + [1] * 3, 2, group_size=5, balanced=True, seed=9) == [[8, 1, 7, 2, 8], [9, 7, 3, 5, 4]]


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("balanced", [False, True])
def test_ranks_together_take_the_group_of_one_process(num_ranks, balanced):
    targets, settings = [0] * 41 + [1] * 12, {"group_size": 10, "balanced": balanced, "seed": 3}
    whole = plan_groups(targets, 2, **settings)
    shares = [plan_groups(targets, 2, rank=rank, num_ranks=num_ranks, **settings) for rank in range(num_ranks)]
    for one, *parts in zip(whole, *shares, strict=True):
        assert one == [index for part in parts for index in part]
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert min(map(len, parts)) >= 1


@pytest.mark.parametrize(
    ("targets", "settings", "sentence"),
    [
        ([0, 1], {"rank": 2, "num_ranks": 2}, r"rank must lie in \[0, 1\]; got 2"),
        (
            [0, 1],
            {"group_size": 2, "num_ranks": 3},
            "that of all ranks together and must be at least their number, 3; got 2",
        ),
        ([], {}, "the set is empty"),
        (
            [0, 1],
            {"group_size": 1},
            "a group of 1 cannot have two classes. Pass group_size=2 or more, or two_classes=False",
        ),
        ([1, 1], {}, "need bags of two classes; all 2 are of class 1"),
        (
            [0, 1] * 5,
            {"group_size": 8, "num_ranks": 6},
            "10 bags in 2 groups leave a group with 5, too few for 6 ranks",
        ),
    ],
)
def test_bad_plans_get_a_sentence(targets, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        GroupPlan(torch.tensor(targets, dtype=torch.int64), **settings)


def check_batch(bags, batch):
    assert batch.instances.dtype == torch.float32
    assert batch.lengths.sum() == len(batch.instances)
    assert torch.equal(batch.targets, bags.targets[batch.indices])
    for index, part in zip(batch.indices.tolist(), batch.bags(), strict=True):
        assert torch.equal(part, bags.bag(index).instances.float())


@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_hold_what_their_indices_say(shuffle):
    bags = made_set([0, 1, 1] * 9)
    loader = BagLoader(bags, 5, shuffle=shuffle, seed=2)
    loader.set_epoch(3)
    batches = list(loader)
    assert len(batches) == len(loader) == 6
    for batch in batches:
        check_batch(bags, batch)
    seen = torch.cat([batch.indices for batch in batches])
    assert torch.equal(seen.sort().values if shuffle else seen, torch.arange(27))


def test_bags_from_files_are_packed_as_stored_and_cast(tmp_path):
    bags = load_bags(write_clam(tmp_path))
    (batch,) = BagLoader(bags)
    check_batch(bags, batch)
    assert sorted(batch.lengths.tolist()) == [1, 2, 3, 4]
    check_batch(bags, pack(bags, torch.tensor([2, 0])))
    assert pack(bags, torch.tensor([0]), "meta").instances.device.type == "meta"


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
def test_evaluation_takes_every_bag_once_and_in_order(num_ranks):
    bags = made_set([0] * 8)
    loaders = [BagLoader(bags, 3, shuffle=False, rank=rank, num_ranks=num_ranks) for rank in range(num_ranks)]
    assert torch.cat([batch.indices for loader in loaders for batch in loader]).tolist() == list(range(8))


@pytest.mark.parametrize("settings", [{}, {"balanced": True}, {"shuffle": False}])
@pytest.mark.parametrize("start_step", [0, 1, 4, 6])
def test_an_epoch_goes_on_in_its_middle(start_step, settings):
    loader = BagLoader(made_set([0, 1, 1] * 9), 5, **settings)
    loader.set_epoch(5)
    whole = [batch.indices.tolist() for batch in loader]
    loader.set_epoch(5, start_step)
    assert [batch.indices.tolist() for batch in loader] == whole[start_step:]


def test_bad_starts_and_options_get_a_sentence():
    loader = BagLoader(made_set([0, 1] * 5), 5)
    with pytest.raises(ValueError, match=r"BagLoader: start_step must lie in \[0, 2\]; got 3"):
        loader.set_epoch(0, 3)
    with pytest.raises(ValueError, match="balanced needs shuffle"):
        BagLoader(made_set([0, 1]), shuffle=False, balanced=True)


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    list(BagLoader(made_set([0, 1] * 9), 4, balanced=True))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"patients": ["p"]}, "patients must have one entry a slide, 2; got 1"),
        ({"columns": {"center": ("0",)}}, "center must have one entry a slide, 2; got 1"),
        ({"slides": ["s", "s"]}, "made: each slide must be in the set once; 's' is there twice"),
    ],
)
def test_bad_sets_get_a_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        made_set([0, 1], **changes)


def test_bad_targets_get_a_sentence():
    bags = made_set([0, 1])
    fields = (bags.slides, bags.patients)
    with pytest.raises(
        ValueError, match=r"targets must be int64 of shape \(2,\), one class a slide; got torch.float32"
    ):
        type(bags)(*fields, torch.zeros(2), bags.class_names, 2, bags.reader)
    with pytest.raises(ValueError, match=r"targets must lie in \[0, 1\] because there are 2 classes; got 0 … 2"):
        type(bags)(*fields, torch.tensor([0, 2]), bags.class_names, 2, bags.reader)
