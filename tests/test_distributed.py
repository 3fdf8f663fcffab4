"""Two and three real gloo processes with uneven shards, equal to one process on the whole batch.

All cases run inside one set of processes, which write what they saw; the tests compare it with the same steps taken here,
in one process. Every rank starts from a seed of its own, so equal centroids are the package's doing.
"""

import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import torch
import torch.distributed as dist
from batches import normal, soft_labels
from ranks import spawn
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ncmi import NCMILoss, parameter_groups, rivalry
from ncmi.distributed import equal_gradient, gather_labels, sum_over_ranks, world_size

INPUTS, D, STEPS = 4, 6, 3
SHARDS = {2: (5, 11), 3: (5, 2, 9)}
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


@dataclass
class Case:
    objective: str
    settings: dict = field(default_factory=dict)
    soft: bool = False
    num_classes: int = 4
    ignored: bool = False
    block: int = 256

    def data(self, step):
        """The whole batch of a step: class 3 stands only at the end, so that the first rank lacks it."""
        inputs = normal(16, INPUTS, seed=step)
        if self.soft:
            targets = soft_labels(16, self.num_classes, seed=step)
        else:
            targets = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 3, 0, 1, 3, 2, 3])
            targets = targets * 13 if self.num_classes > 50 else targets
        inputs[torch.arange(16), (targets.argmax(dim=1) if self.soft else targets) % INPUTS] += 2
        if self.ignored:
            targets[[0, 7, 12]] = -100
        return inputs, targets


CASES = {
    "theorem1": Case("theorem1"),
    "centroid": Case("centroid"),
    "released": Case("released"),
    "harmonic": Case("harmonic"),
    "rivals": Case("rivals"),
    "theorem1 soft": Case("theorem1", soft=True),
    "rivals soft": Case("rivals", soft=True),
    "rivals weighted": Case("rivals", {"weight": torch.tensor([0.5, 2.0, 1.0, 1.5])}),
    "rivals ignored": Case("rivals", ignored=True),
    "rivals uniform": Case("rivals", {"prior": "uniform"}),
    "rivals tracked": Case("rivals", {"centroids": "ema"}),
    "rivals sum": Case("rivals", {"reduction": "sum"}),
    # Sixteen samples in four or three blocks, some of them of two ranks.
    "rivals blocks": Case("rivals", block=4, ignored=True),
    "rivals blocks soft": Case("rivals", block=6, soft=True),
    "harmonic soft": Case("harmonic", soft=True),
    "theorem1 uniform": Case("theorem1", {"prior": "uniform"}),
    "centroid uniform": Case("centroid", {"prior": "uniform"}),
    "released uniform": Case("released", {"prior": "uniform"}),
    "harmonic uniform soft": Case("harmonic", {"prior": "uniform"}, soft=True),
    "centroid weighted": Case("centroid", {"weight": torch.tensor([0.5, 2.0, 1.0, 1.5])}),
    "harmonic weighted": Case("harmonic", {"weight": torch.tensor([0.5, 2.0, 1.0, 1.5])}),
    "harmonic ignored": Case("harmonic", ignored=True),
    "theorem1 ignored": Case("theorem1", ignored=True),
    "theorem1 compact": Case("theorem1", num_classes=60),
    "centroid compact": Case("centroid", num_classes=60),
    "harmonic tracked": Case("harmonic", {"centroids": "ema"}),
    "centroid tracked": Case("centroid", {"centroids": "ema"}),
    "centroid tracked compact": Case("centroid", {"centroids": "ema"}, num_classes=60),
    "harmonic batch centre": Case("harmonic", {"center": "batch"}),
    "harmonic sum": Case("harmonic", {"reduction": "sum"}),
}


# Inside DDP it is DDP that averages ξ's gradient and copies the start: enough to see it with each kind of loss.
INSIDE = (
    "theorem1",
    "centroid",
    "released",
    "harmonic",
    "rivals",
    "rivals blocks soft",
    "theorem1 soft",
    "theorem1 compact",
    "harmonic tracked",
)


class Both(nn.Module):
    """Network and loss in one module, as one wraps them in DDP."""

    def __init__(self, network, loss):
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, inputs, targets):
        return self.loss(self.network(inputs), targets)


def build(case, seed):
    torch.manual_seed(seed)
    network, loss = (
        nn.Linear(INPUTS, D).double(),
        NCMILoss(case.num_classes, D, case.objective, **case.settings).double(),
    )
    if case.objective != "theorem1":
        with torch.no_grad():
            for xi in loss.parameters():
                xi.mul_(0.2)
    return network, loss


def train(case, network, loss, step_loss, rows):
    """A few SGD steps on these rows of each batch; everything that must agree, step by step."""
    optimizer = torch.optim.SGD(parameter_groups(network, loss, lr=0.05, centroid_lr=0.1), momentum=0.9)
    seen = []
    for step in range(STEPS):
        inputs, targets = case.data(step)
        optimizer.zero_grad()
        with blocks_of(case.block):
            value = step_loss(inputs[rows], targets[rows])
        value.backward()
        seen.append(
            {
                "loss": value.detach(),
                "gradients": [p.grad.clone() for p in network.parameters()],
                "centroid gradients": [p.grad.clone() for p in loss.parameters()],
                "state": {name: tensor.clone() for name, tensor in loss.state_dict().items()},
            }
        )
        optimizer.step()
    seen.append({"weights": [p.detach().clone() for p in network.parameters()], "state": loss.state_dict()})
    return seen


@contextmanager
def blocks_of(size):
    """Rivals in blocks of so many samples."""
    usual, rivalry._BLOCK = rivalry._BLOCK, size
    yield
    rivalry._BLOCK = usual


def rows_of(rank, shards):
    return slice(sum(shards[:rank]), sum(shards[: rank + 1]))


def run_case(case, rank, shards, inside):
    network, loss = build(case, seed=rank)  # each rank a seed of its own
    if inside:
        both = DistributedDataParallel(Both(network, loss))
        return train(case, network, loss, both, rows_of(rank, shards))
    wrapped = DistributedDataParallel(network)
    return train(case, network, loss, lambda x, y: loss(wrapped(x), y), rows_of(rank, shards))


def run_pieces(rank, shards):
    """The collectives by themselves, and what must not communicate."""
    own = normal(3, 2, seed=rank).requires_grad_()
    total, count = sum_over_ranks(own, torch.tensor([float(rank)]).double())
    (total * total).sum().backward()
    weight = torch.ones(2).double().requires_grad_()
    (equal_gradient(weight) * (rank + 1)).sum().backward()
    labels, where = gather_labels(torch.arange(shards[rank]) + 100 * rank)
    pieces = {
        "world size": world_size(),
        "sum": total.detach(),
        "count": count.detach(),
        "gradient": own.grad,
        "equal gradient": weight.grad,
        "labels": labels,
        "where": labels[where],
    }
    loss = NCMILoss(4, D).double().eval()
    if rank == 0:  # a collective here would hang or mix up the next one
        pieces["evaluation"] = loss(normal(5, D), torch.tensor([0, 1, 2, 3, 0])).detach()
        pieces["measure"] = tuple(loss.measure(normal(5, D), torch.tensor([0, 1, 2, 3, 0])))
    means = NCMILoss(4, D, centroids="fixed").double()
    features, targets = normal(16, D, seed=5), torch.arange(16) % 4
    rows = rows_of(rank, shards)
    means.start_from_class_means(features[rows], targets[rows])
    pieces["class means"] = means.state_dict()
    return pieces


def worker(rank, folder):
    """Both worlds, one after the other: starting a process costs more than all its cases."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    for size, shards in SHARDS.items():
        if rank >= size:
            continue
        rendezvous = f"file://{folder}/rendezvous{size}"
        dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=size)
        results = {"pieces": run_pieces(rank, shards)}
        for name, case in CASES.items():
            for inside in (True, False) if name in INSIDE else (False,):
                results[name, inside] = run_case(case, rank, shards, inside)
        # Ranks whose shard is empty, the last or the first.
        results["empty shard"] = {
            (name, shards): run_case(CASES[name], rank, shards, inside)
            for name, inside in {"rivals": False, "rivals blocks soft": True}.items()
            for shards in ((16,) + (0,) * (size - 1), (0,) * (size - 1) + (16,))
        }
        torch.save(results, os.path.join(folder, f"{size}ranks{rank}.pt"))
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("ranks"))
    spawn(worker, folder, ranks=max(SHARDS))
    return folder


@pytest.fixture(scope="module", params=sorted(SHARDS))
def ranks(request, folder):
    files = [os.path.join(folder, f"{request.param}ranks{rank}.pt") for rank in range(request.param)]
    return [torch.load(file, weights_only=False) for file in files]


@pytest.fixture(scope="module")
def alone():
    """The same steps in one process on the whole batch, from rank 0's start."""
    results = {}
    for name, case in CASES.items():
        network, loss = build(case, seed=0)
        results[name] = train(case, network, loss, Both(network, loss), slice(None))
    return results


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "beside"])
def test_every_rank_takes_the_steps_of_one_process(ranks, alone, inside):
    # One test for all cases: spread over workers, each would start processes of its own.
    for name in INSIDE if inside else CASES:
        for index, rank in enumerate(ranks):
            for step, (found, expected) in enumerate(zip(rank[name, inside], alone[name], strict=True)):
                for key in expected:
                    where = f"{name}, rank {index}, step {step}, {key}"
                    torch.testing.assert_close(found[key], expected[key], **TOLERANCE, msg=f"{where}: differs")


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "beside"])
def test_copies_of_the_loss_stay_equal_to_the_bit(ranks, inside):
    for name in INSIDE if inside else CASES:
        states = [rank[name, inside][-1]["state"] for rank in ranks]
        for state in states[1:]:
            assert all(torch.equal(state[key], states[0][key]) for key in state), name


def test_the_cases_are_not_trivial(alone):
    for name, seen in alone.items():
        assert len({float(step["loss"]) for step in seen[:-1]}) == STEPS, name
        assert all(float(gradient.abs().max()) > 1e-5 for gradient in seen[0]["gradients"]), name


def test_an_empty_shard_is_a_shard(ranks, alone):
    for rank in ranks:
        for (name, shards), seen in rank["empty shard"].items():
            torch.testing.assert_close(seen[-1], alone[name][-1], **TOLERANCE, msg=f"{name}, {shards}: differs")


def test_sums_and_their_gradient(ranks):
    size = len(ranks)
    total = sum(normal(3, 2, seed=rank) for rank in range(size))
    for rank in ranks:
        pieces = rank["pieces"]
        assert pieces["world size"] == size
        torch.testing.assert_close(pieces["sum"], total)
        assert float(pieces["count"]) == sum(range(size))
        # Each rank's own copy of the loss adds its gradient; DDP's average takes the factor away.
        torch.testing.assert_close(pieces["gradient"], size * 2 * total)
        torch.testing.assert_close(pieces["equal gradient"], torch.full((2,), (size + 1) / 2).double())


def test_labels_are_gathered_in_rank_order(ranks):
    shards = SHARDS[len(ranks)]
    everyone = torch.cat([torch.arange(length) + 100 * rank for rank, length in enumerate(shards)])
    for index, rank in enumerate(ranks):
        assert torch.equal(rank["pieces"]["labels"], everyone)
        assert torch.equal(rank["pieces"]["where"], everyone[rows_of(index, shards)])


def test_evaluation_on_one_rank_alone_is_local(ranks):
    pieces = ranks[0]["pieces"]
    assert bool(pieces["evaluation"].isfinite())
    assert all(bool(term.isfinite()) for term in pieces["measure"])


def test_class_means_start_sees_every_rank(ranks):
    means = NCMILoss(4, D, centroids="fixed").double()
    means.start_from_class_means(normal(16, D, seed=5), torch.arange(16) % 4)
    for rank in ranks:
        torch.testing.assert_close(rank["pieces"]["class means"], means.state_dict(), **TOLERANCE)


def test_one_process_needs_no_group():
    assert world_size() == 1
    tensor = torch.ones(2, requires_grad=True)
    assert sum_over_ranks(tensor, tensor) == (tensor, tensor)
    assert equal_gradient(tensor) is tensor
    labels, where = gather_labels(torch.arange(3))
    assert torch.equal(labels[where], torch.arange(3))
