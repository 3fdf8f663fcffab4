"""Two real gloo processes with parts of different length, equal to one process: validate to 1e-12, gather to the bit.

All cases run inside one pair of processes, which write what they saw.
"""

import math
import os
import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from batches import normal
from evaluated import D, loader, nearest, network
from ranks import spawn
from torch.nn.parallel import DistributedDataParallel

from ncmi.evaluation import LabelledFeatures, collect, features, gather, validate

# Samples and batch size: parts of 6 and 7 in 2 and 3 steps; of 3 and 4; of 0 and 1.
SIZES = {"uneven": (13, 6), "one batch": (7, 8), "one sample": (1, 4)}
LENGTHS = {"uneven": (5, 11), "first empty": (0, 4), "last empty": (3, 0), "all empty": (0, 0)}


def part_of(rank, lengths, dtype=torch.float32):
    start = sum(lengths[:rank])
    rows = slice(start, start + lengths[rank])
    if not lengths[rank]:
        return LabelledFeatures(torch.zeros(0, 0), torch.zeros(0, dtype=torch.int64))
    whole = sum(lengths)
    return LabelledFeatures(normal(whole, D, dtype=dtype)[rows], torch.arange(whole)[rows])


def worker(rank, folder):
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    net, criterion = network(), nearest()
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=60),
    )
    seen = {}
    for name, (size, batch_size) in SIZES.items():
        seen["validate", name] = tuple(validate(net, criterion, loader(size, batch_size, rank, 2)))
        joined = gather(collect(net, loader(size, batch_size, rank, 2)))
        seen["collect", name] = (joined.features, joined.targets)
    wrapped = DistributedDataParallel(
        net
    )  # its forward would send the buffers of BatchNorm, though rank 0 makes no step
    seen["validate", "wrapped"] = tuple(validate(wrapped, criterion, loader(*SIZES["one sample"], rank, 2)))
    wrapped(torch.ones(2, 1, 3, 3)).sum().backward()
    joined = gather(collect(wrapped, loader(*SIZES["one sample"], rank, 2)))
    seen["collected rows"] = len(joined)
    for name, lengths in LENGTHS.items():
        joined = gather(part_of(rank, lengths))
        seen["gather", name] = (joined.features, joined.targets)
    features._NUMBERS_A_MESSAGE = 2 * D  # several messages, the last ones without a row of the shorter part
    joined = gather(part_of(rank, LENGTHS["uneven"], torch.float64))
    seen["gather", "in pieces"] = (joined.features, joined.targets)
    try:
        gather(LabelledFeatures(torch.zeros(2, D + rank), torch.tensor([0, 1])))
    except ValueError as error:
        seen["widths"] = str(error)
    try:
        validate(net, criterion, [])
    except ValueError as error:
        seen["nothing"] = str(error)
    torch.save(seen, os.path.join(folder, f"{rank}.pt"))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("ranks"))
    spawn(worker, folder)
    return [torch.load(os.path.join(folder, f"{rank}.pt"), weights_only=True) for rank in range(2)]


def test_validate_equals_one_process(ranks):
    for name in (*SIZES, "wrapped"):
        alone = validate(network(), nearest(), loader(*SIZES.get(name, SIZES["one sample"])))
        for rank in ranks:
            for found, expected in zip(rank["validate", name], alone, strict=True):
                same = math.isnan(found) and math.isnan(expected)
                assert same or math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-14), (name, found, expected)
        assert str(ranks[0]["validate", name]) == str(ranks[1]["validate", name])


def test_collected_and_gathered_features_equal_one_process(ranks):
    for name, (size, batch_size) in SIZES.items():
        alone = collect(network(), loader(size, batch_size))
        for rank in ranks:
            torch.testing.assert_close(rank["collect", name][0], alone.features, rtol=1e-12, atol=1e-14)
            assert torch.equal(rank["collect", name][1], alone.targets)
    assert all(rank["collected rows"] == 1 for rank in ranks)


def test_gather_joins_in_rank_order_to_the_bit(ranks):
    for name, lengths in {**LENGTHS, "in pieces": LENGTHS["uneven"]}.items():
        dtype = torch.float64 if name == "in pieces" else torch.float32
        whole = sum(lengths)
        expected = normal(whole, D, dtype=dtype) if whole else torch.zeros(0, 0)
        for rank in ranks:
            rows, targets = rank["gather", name]
            assert rows.dtype == dtype, name
            assert torch.equal(rows, expected), name
            assert torch.equal(targets, torch.arange(whole)), name


def test_guards_speak_on_every_rank(ranks):
    for rank in ranks:
        assert "one width on all ranks; got [6, 7]" in rank["widths"]
        assert "no labelled sample on any rank" in rank["nothing"]
