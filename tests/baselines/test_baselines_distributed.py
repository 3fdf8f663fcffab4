"""Two real gloo processes with uneven shards, equal to one process on the whole batch, for every baseline.

All cases run inside one pair of processes, which write what they saw; the tests compare it with the same steps taken here.
Every rank starts from a seed of its own, so equal centres are the package's doing.
"""

import os
import warnings

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from baseline_cases import CASES, C, D, V
from batches import normal, soft_labels
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ncmi.baselines import BASELINES, make_baseline

INPUTS, STEPS, BATCH = 5, 3, 16
SHARDS = {"uneven": (5, 11), "empty": (16, 0)}
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}
NAMES = [name for name, case in CASES.items() if case.settings.get("reduction") != "none"]
INSIDE = ["ce", "supcon", "cmic", "center", "contrastive-center"]


class Network(nn.Module):
    """Features and logits, or projections of views, whatever the loss takes."""

    def __init__(self, takes):
        super().__init__()
        self.takes = takes
        self.body = nn.Linear(INPUTS, D)
        self.head = nn.Linear(D, C) if takes != "views" else nn.Identity()

    def forward(self, inputs):
        features = self.body(inputs)
        logits = self.head(features)
        return (logits, features) if self.takes == "logits and features" else (logits,)


class Both(nn.Module):
    """Network and loss in one module, as one wraps them in DDP."""

    def __init__(self, network, loss):
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, inputs, targets):
        return self.loss(*self.network(inputs), targets)


def data(case, step):
    """The whole batch of a step: class 3 stands only at the end, so that the first rank lacks it."""
    inputs = normal(BATCH, V, INPUTS, seed=step) if case.takes == "views" else normal(BATCH, INPUTS, seed=step)
    if case.soft:
        return inputs, soft_labels(BATCH, C, seed=step)
    targets = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 3, 0, 1, 3, 2, 3])
    if case.ignored:
        targets[[0, 7, 12]] = -100
    return inputs, targets


def build(case, seed):
    torch.manual_seed(seed)
    loss = make_baseline(case.name, C, D, **case.settings).double()
    return Network(case.takes).double(), loss


def train(case, network, loss, step_loss, rows):
    """A few SGD steps on these rows of each batch; everything that must agree, step by step."""
    optimizer = torch.optim.SGD([*network.parameters(), *loss.parameters()], lr=0.05, momentum=0.9)
    seen = []
    for step in range(STEPS):
        inputs, targets = data(case, step)
        optimizer.zero_grad()
        value = step_loss(inputs[rows], targets[rows])
        value.backward()
        seen.append(
            {
                "loss": value.detach(),
                "gradients": [p.grad.clone() for p in network.parameters()],
                "gradients of the loss": [p.grad.clone() for p in loss.parameters()],
                "state": {name: tensor.clone() for name, tensor in loss.state_dict().items()},
            }
        )
        optimizer.step()
    return seen


def rows_of(rank, shards):
    return slice(sum(shards[:rank]), sum(shards[: rank + 1]))


def run_case(case, rank, shards, inside):
    network, loss = build(case, seed=rank)  # each rank a seed of its own
    if inside:
        both = DistributedDataParallel(Both(network, loss))
        return train(case, network, loss, both, rows_of(rank, shards))
    wrapped = DistributedDataParallel(network)
    return train(case, network, loss, lambda x, y: loss(*wrapped(x), y), rows_of(rank, shards))


def worker(rank, folder):
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    results = {}
    for name in NAMES:
        for kind, shards in SHARDS.items():
            results[name, kind] = run_case(CASES[name], rank, shards, inside=False)
    for name in INSIDE:
        results[name, "inside"] = run_case(CASES[name], rank, SHARDS["uneven"], inside=True)
    if rank == 0:  # a collective in evaluation would hang
        for name in BASELINES:
            case = CASES[name]
            results[name, "evaluation"] = case.build().eval()(*case.inputs(), case.targets()).detach()
    losses = CASES["ce weighted ignored none"]
    results["none"] = losses.build()(*losses.inputs(), losses.targets()).detach()
    torch.save(results, os.path.join(folder, f"rank{rank}.pt"))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("baseline_ranks"))
    mp.spawn(worker, args=(folder,), nprocs=2)
    return [torch.load(os.path.join(folder, f"rank{rank}.pt"), weights_only=False) for rank in range(2)]


@pytest.fixture(scope="module")
def alone():
    """The same steps in one process on the whole batch, from rank 0's start."""
    results = {}
    for name in NAMES:
        network, loss = build(CASES[name], seed=0)
        results[name] = train(CASES[name], network, loss, Both(network, loss), slice(None))
    return results


@pytest.mark.parametrize("kind", [*SHARDS, "inside"])
def test_every_rank_takes_the_steps_of_one_process(ranks, alone, kind):
    # One test for all cases: spread over workers, each would start processes of its own.
    for name in INSIDE if kind == "inside" else NAMES:
        for index, rank in enumerate(ranks):
            for step, (found, expected) in enumerate(zip(rank[name, kind], alone[name], strict=True)):
                for key in expected:
                    where = f"{name}, rank {index}, step {step}, {key}"
                    torch.testing.assert_close(found[key], expected[key], **TOLERANCE, msg=f"{where}: differs")


def test_copies_of_the_loss_stay_equal_to_the_bit(ranks):
    for name in NAMES:
        states = [rank[name, "uneven"][-1]["state"] for rank in ranks]
        assert all(torch.equal(states[1][key], states[0][key]) for key in states[0]), name


def test_the_cases_are_not_trivial(alone):
    for name, seen in alone.items():
        assert len({float(step["loss"]) for step in seen}) == STEPS, name
        assert all(float(gradient.abs().max()) > 1e-5 for gradient in seen[0]["gradients"]), name


def test_evaluation_on_one_rank_alone_is_local(ranks):
    for name in BASELINES:
        case = CASES[name]
        expected = case.build().eval()(*case.inputs(), case.targets()).detach()
        torch.testing.assert_close(ranks[0][name, "evaluation"], expected, **TOLERANCE)


def test_losses_of_samples_stay_with_their_rank(ranks):
    case = CASES["ce weighted ignored none"]
    for rank in ranks:
        torch.testing.assert_close(rank["none"], case.build()(*case.inputs(), case.targets()))
