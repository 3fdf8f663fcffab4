"""The memory of past vectors: a ratio of means on one sample a step, saved, equal on all ranks, and silent in evaluation."""

import copy
import os

import pytest
import torch
import torch.distributed as dist
from bag_sets import make_tcga
from ranks import spawn
from torch.nn.parallel import DistributedDataParallel

from ncmi.criteria import create_criterion
from ncmi.functional import class_statistics, theorem1
from ncmi.loss import NoSeparation
from ncmi.models.mil import Bags, create_bag_model
from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.run_folder import RunFolder
from ncmi.training.task import Task

C, D, F = 3, 6, 5
RATIOS = ["theorem1", "centroid"]


def criterion(memory, objective="theorem1", **options):
    torch.manual_seed(1)
    return create_criterion("ncmi", C, D, objective=objective, memory=memory, **options)


def samples(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, D, generator=generator), torch.randint(C, (count,), generator=generator)


def lung(folder, *overrides):
    make_tcga(folder / "tcga_lung", ("LUAD", "LUSC"))
    values = {
        "epochs": 12,
        "batch_size": 1,
        "data": {"name": "bags:tcga-lung", "folder": str(folder), "workers": 0},
        "model": {"name": "abmil", "options": {"num_features": 16}},
        "loss": {"name": "ncmi", "options": {"objective": "theorem1"}},
        "optimizer": {"name": "adamw", "lr": 3e-3},
        "decisions": ["own"],
    }
    return make_config(values, overrides)


def test_one_bag_a_step_trains_with_a_memory(tmp_path):
    summary = train(lung(tmp_path, "loss.options.memory=16"), RunFolder(tmp_path / "run"), quiet=True)
    assert summary["steps"] == 12 * summary["train_samples"]
    rows = RunFolder(tmp_path / "run").rows()
    assert rows[-1]["train_loss"] < 0.7 * rows[0]["train_loss"]
    (own,) = summary["evaluation"]["decisions"]
    assert own["parts"]["train"]["top1"] > 0.9


@pytest.mark.parametrize("objective", RATIOS)
def test_one_bag_a_step_without_a_memory_gets_a_sentence(tmp_path, objective):
    chosen = lung(tmp_path, f"loss.options.objective={objective}")
    with pytest.raises(
        NoSeparation, match=r"one class only.*objective='harmonic'.*loss\.options\.memory, a number of past"
    ):
        train(chosen, RunFolder(tmp_path / "run"), quiet=True)


@pytest.mark.parametrize("objective", RATIOS)
def test_past_vectors_and_the_batch_are_one_batch_without_a_gradient_for_the_past(objective):
    remembering, plain = criterion(5, objective, center="none"), criterion(0, objective, center="none")
    past, past_targets = samples(5, seed=1)
    past_targets[:2] = torch.tensor([0, 1])
    remembering(past, past_targets)
    features, targets = samples(2)
    found, expected = features.clone().requires_grad_(), features.clone().requires_grad_()
    loss = remembering(found, targets)
    other = plain(torch.cat([expected, past]), torch.cat([targets, past_targets]))
    torch.testing.assert_close(loss, other)
    loss.backward()
    other.backward()
    torch.testing.assert_close(found.grad, expected.grad)
    assert float(found.grad.abs().max()) > 0
    for one, another in zip(remembering.own_parameters(), plain.own_parameters(), strict=True):
        torch.testing.assert_close(one.grad, another.grad)
    points = plain.points(torch.cat([features, past]))
    statistics = class_statistics(points, torch.cat([targets, past_targets]), C)
    if objective == "theorem1":
        ratio = theorem1(statistics, plain.loss.centroids())
        torch.testing.assert_close(loss, ratio.concentration / ratio.separation)


def test_the_oldest_vectors_are_forgotten():
    remembering = criterion(4)
    features, targets = samples(12)
    targets[:3] = torch.tensor([0, 1, 2])
    for first, last in ((0, 3), (3, 4), (4, 6), (6, 12)):
        remembering(features[first:last], targets[first:last])
        held = remembering.memory.held()
        assert torch.equal(held.features, features[max(0, last - 4) : last])
        assert torch.equal(held.targets, targets[max(0, last - 4) : last])
    assert remembering.memory.full
    assert not held.features.requires_grad


def test_until_a_second_class_comes_a_step_only_remembers():
    remembering = criterion(3)
    features = samples(4)[0].requires_grad_()
    before = copy.deepcopy(remembering.loss.state_dict())
    loss = remembering(features[:1], torch.tensor([2]))
    loss.backward()
    assert float(loss.detach()) == 0
    assert float(features.grad.abs().max()) == 0
    assert all(float(p.grad.abs().max()) == 0 for p in remembering.parameters())
    assert all(torch.equal(before[name], value) for name, value in remembering.loss.state_dict().items())
    assert float(remembering(features[1:2].detach(), torch.tensor([0])).detach()) > 0


def test_a_full_memory_of_one_class_is_too_small_and_says_so():
    remembering = criterion(2)
    for _ in range(2):
        assert float(remembering(torch.randn(1, D), torch.tensor([1])).detach()) == 0
    with pytest.raises(NoSeparation, match="it holds samples of one class only"):
        remembering(torch.randn(1, D), torch.tensor([1]))


def test_evaluation_neither_uses_nor_changes_the_memory():
    remembering, plain = criterion(4), criterion(0)
    remembering(*samples(4, seed=2))
    plain.load_state_dict({k: v for k, v in remembering.state_dict().items() if not k.startswith("memory")})
    before = copy.deepcopy(remembering.state_dict())
    features, targets = samples(6)
    torch.testing.assert_close(remembering.eval()(features, targets), plain.eval()(features, targets))
    assert bool(remembering(features[:1], targets[:1]).isnan())
    remembering.scores(features)
    assert all(torch.equal(before[name], value) for name, value in remembering.state_dict().items())


def test_a_saved_memory_goes_on_to_the_same_bits():
    first = criterion(4)
    batches = [samples(1, seed) for seed in range(12)]
    for batch in batches[:7]:
        first(*batch)
    second = create_criterion("ncmi", C, D, objective="theorem1", memory=4)
    assert {"memory.features", "memory.targets", "memory.stored"} <= set(second.state_dict())
    second.load_state_dict(first.state_dict())
    for batch in batches[7:]:
        assert torch.equal(first(*batch), second(*batch))
    state = first.state_dict()
    assert all(torch.equal(state[name], value) for name, value in second.state_dict().items())


def test_half_precision_features_are_kept_in_float32():
    remembering = criterion(4).to(torch.bfloat16)
    assert remembering.memory.features.dtype == torch.float32
    features, targets = samples(6)
    remembering(features.bfloat16(), targets)
    assert remembering(features[:1].bfloat16(), targets[:1]).dtype == torch.float32
    assert criterion(4).double().memory.features.dtype == torch.float64


def test_a_memory_that_cannot_be_gets_a_sentence():
    for objective in ("rivals", "harmonic", "released"):
        with pytest.raises(ValueError, match=rf"memory=8 is for a ratio of means .*; got {objective}.*harmonic"):
            criterion(8, objective)
    for size in (-1, 2.5, True):
        with pytest.raises(ValueError, match=rf"memory must be a whole number of past vectors, 0 for none; got {size}"):
            criterion(size)
    with pytest.raises(ValueError, match=r"an option of 'ncmi' must be one of .*'memory'"):
        create_criterion("ncmi", C, D, memry=4)
    with pytest.raises(ValueError, match=r"memory keeps class indices .* soft labels \(2, 3\)"):
        criterion(4)(torch.randn(2, D), torch.eye(C)[:2])
    assert criterion(0).memory is None
    assert create_criterion("ncmi", C, D, preset="paper", memory=4).memory.size == 4


STEPS, SHARDS = 8, (1, 2)  # bags of each rank: the means over them are not those of the ranks' means


def groups():
    generator = torch.Generator().manual_seed(3)
    for step in range(STEPS):
        bags = [torch.randn(2 + place, F, generator=generator, dtype=torch.float64) for place in range(sum(SHARDS))]
        yield bags, torch.tensor([0, 0, 0] if step < 2 else [step % 3, 1, 2])


def run_steps(rank=None):
    """Losses and final state of a few steps on AEM, whose auxiliary term counts too; of one rank, or of all at once."""
    torch.manual_seed(1)
    network = create_bag_model("aem", F, num_features=8, dropout=0.0, weight=0.5)
    task = Task(network, create_criterion("ncmi", C, 8, objective="theorem1", memory=7)).double().train()
    module = task if rank is None else DistributedDataParallel(task)
    optimizer = torch.optim.SGD(task.parameters(), lr=0.01)
    starts = (0, SHARDS[0], sum(SHARDS))
    own = slice(None) if rank is None else slice(starts[rank], starts[rank + 1])
    losses = []
    for bags, targets in groups():
        loss, _ = module(Bags.pack(bags[own]), targets[own])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, task.state_dict()


def one_rank(rank, folder):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.save(run_steps(rank), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_ranks_with_uneven_shares_are_one_process(tmp_path):
    spawn(one_rank, str(tmp_path))
    expected, state = run_steps()
    for rank in range(2):
        losses, found = torch.load(tmp_path / f"{rank}.pt")
        torch.testing.assert_close(losses, expected, rtol=1e-9, atol=1e-12)
        # The counter sums up weights in float32.
        exact = {name: value for name, value in state.items() if "counter" not in name}
        torch.testing.assert_close({name: found[name] for name in exact}, exact, rtol=1e-9, atol=1e-11)
    assert torch.equal(state["criterion.memory.targets"][-3:], torch.tensor([1, 1, 2]))
