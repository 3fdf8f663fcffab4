"""Collected features: every sample once and in order, on the CPU, and the network as it was."""

import copy

import pytest
import torch
from evaluated import D, image_set, loader, network
from torch import nn

from ncmi.data import Batch
from ncmi.evaluation import LabelledFeatures, collect, gather


def batches_of(features, targets, size):
    pairs = zip(features.split(size), targets.split(size), strict=True)
    return [Batch(images, labels, torch.arange(len(labels))) for images, labels in pairs]


def test_every_sample_once_in_order():
    net, seen = network(), []
    part = collect(net, loader(13, 4), progress=lambda step, steps: seen.append((step, steps)))
    data = image_set(13)
    with torch.no_grad():
        expected = copy.deepcopy(net).eval()((data.images.float() / 255 - 0.5) / 0.25)
    torch.testing.assert_close(part.features, expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(part.targets, data.targets)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert not part.features.requires_grad


def test_the_network_is_left_as_it_was():
    net = network()
    net.layers[2].eval()
    before, modes = copy.deepcopy(net.state_dict()), [module.training for module in net.modules()]
    collect(net, loader(9, 4))
    assert [module.training for module in net.modules()] == modes
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    with pytest.raises(ValueError, match=r"collect: features must have shape"):
        collect(nn.Sequential(nn.Dropout(), nn.Unflatten(3, (3, 1))), loader(9, 4))


def test_half_precision_becomes_float32():
    part = collect(nn.Identity(), batches_of(torch.ones(3, 5, dtype=torch.float16), torch.arange(3), 2))
    assert part.features.dtype == torch.float32
    assert part.targets.dtype == torch.int64


def test_no_batch_is_an_empty_part():
    part = collect(network(), [])
    assert part.features.shape == (0, 0)
    assert len(part) == 0
    assert list(part.chunks(4)) == []


def test_gather_outside_a_group_is_the_part_itself():
    part = LabelledFeatures(torch.zeros(2, D), torch.tensor([0, 1]))
    assert gather(part) is part


def test_rows_and_chunks():
    part = LabelledFeatures(torch.arange(10.0).reshape(5, 2), torch.arange(5))
    assert part.rows(torch.tensor([4, 0])).targets.tolist() == [4, 0]
    assert [len(targets) for _, targets in part.chunks(2)] == [2, 2, 1]


def test_features_must_be_finite():
    bad = torch.ones(4, 3)
    bad[2, 1] = torch.nan
    with pytest.raises(ValueError, match=r"collect: features must be finite; 1 of 4 rows"):
        collect(nn.Identity(), batches_of(bad, torch.arange(4), 4))
    with pytest.raises(TypeError, match="collect: features must be real numbers"):
        collect(nn.Identity(), batches_of(torch.ones(4, 3).long(), torch.arange(4), 4))


@pytest.mark.parametrize(
    ("features", "targets", "message"),
    [
        (torch.zeros(3, 2, 2), torch.arange(3), "Pool or flatten"),
        (torch.zeros(3, 2).long(), torch.arange(3), "real numbers"),
        (torch.zeros(3, 2), torch.arange(4), r"shape \(3,\)"),
        (torch.zeros(3, 2), torch.zeros(3), "int64 class indices"),
    ],
)
def test_wrong_parts_are_sentences(features, targets, message):
    with pytest.raises(ValueError, match=message):
        LabelledFeatures(features, targets)


def test_lists_are_no_tensors():
    with pytest.raises(TypeError, match="torch tensor"):
        LabelledFeatures([[1.0]], torch.arange(1))  # pyright: ignore[reportArgumentType]
