"""Two and three real gloo processes with uneven shards, equal to one process on the whole batch.

Two run every baseline, three those whose samples meet. All cases run inside one group of processes, which write what they
saw; the tests compare it with the same steps taken here.
Every rank starts from a seed of its own, so equal centres are the package's doing.
"""

import os
import warnings

import pytest
import torch
import torch.distributed as dist
from baseline_cases import CASES, C, D, V
from batches import normal, soft_labels
from ranks import spawn
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ncmi.baselines import BASELINES, make_baseline

INPUTS, STEPS, BATCH = 5, 3, 16
SHARDS = {"uneven": (5, 11), "empty": (16, 0)}
THREE = (3, 0, 13)
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}
NAMES = [name for name, case in CASES.items() if case.settings.get("reduction") != "none"]
COUPLED = ["supcon", "opl", "opl mean_abs", "cmic", "cmic soft", "center", "contrastive-center"]
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


def join(rank, folder, ranks):
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)


def leave(results, rank, folder):
    torch.save(results, os.path.join(folder, f"rank{rank}.pt"))
    dist.destroy_process_group()


def worker(rank, folder):
    results = {}
    join(rank, folder, 2)
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
    leave(results, rank, folder)


def three_worker(rank, folder):
    results = {}
    join(rank, folder, 3)
    for name in COUPLED:
        results[name, "three"] = run_case(CASES[name], rank, THREE, inside=False)
    leave(results, rank, folder)


def run(work, ranks, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("baseline_ranks"))
    spawn(work, folder, ranks=ranks)
    return [torch.load(os.path.join(folder, f"rank{rank}.pt"), weights_only=False) for rank in range(ranks)]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run(worker, 2, tmp_path_factory)


@pytest.fixture(scope="module")
def three_ranks(tmp_path_factory):
    return run(three_worker, 3, tmp_path_factory)


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
    assert_equal_steps(ranks, alone, INSIDE if kind == "inside" else NAMES, kind)


def test_three_ranks_take_the_steps_of_one_process(three_ranks, alone):
    assert_equal_steps(three_ranks, alone, COUPLED, "three")


def assert_equal_steps(ranks, alone, names, kind):
    for name in names:
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
