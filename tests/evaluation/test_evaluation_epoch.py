"""validate against loops over samples, in any batches, and the collapse it must see."""

import copy
import math

import oracle
import pytest
import torch
from batches import normal
from evaluated import C, D, Head, Plain, entropy, image_set, loader, nearest, network
from torch import nn

from ncmi.data import Batch
from ncmi.evaluation import Validation, collect, validate


def batches_of(features, targets, size):
    pairs = zip(features.split(size), targets.split(size), strict=True)
    return [Batch(rows, labels, torch.arange(len(labels))) for rows, labels in pairs]


def by_loops(criterion, features, targets, points):
    """Every number of a Validation, one sample after the other."""
    size, labels = len(targets), targets.tolist()
    with torch.no_grad():
        losses = [criterion(features[x : x + 1], targets[x : x + 1]).item() for x in range(size)]
        scores = [criterion.scores(features[x : x + 1])[0].tolist() for x in range(size)]
    num_classes = len(scores[0])
    order = [sorted(range(num_classes), key=lambda v, row=row: (-row[v], v)) for row in scores]
    present, best = sorted(set(labels)), set()
    for y in present:
        rows = [row for row, label in zip(scores, labels, strict=True) if label == y]
        means = [sum(row[v] for row in rows) / len(rows) for v in range(num_classes)]
        best.add(max(range(num_classes), key=lambda v, means=means: means[v]))
    mass = oracle.one_hot(targets, num_classes)
    cmi, gamma = float(oracle.cmi(points, mass)), float(oracle.gamma(points, mass))
    decided = [sum(row[0] == v for row in order) / size for v in range(num_classes)]
    output = (sum(points) / size).tolist()
    return Validation(
        loss=sum(losses) / size,
        top1=sum(row[0] == y for row, y in zip(order, labels, strict=True)) / size,
        top5=sum(y in row[:5] for row, y in zip(order, labels, strict=True)) / size,
        cmi=cmi,
        gamma=gamma,
        ncmi=cmi / gamma,
        decided_classes=math.exp(entropy(decided)),
        shared_classes=float(len(present) - len(best)),
        output_entropy=entropy(output) / math.log(len(output)),
    )


@pytest.mark.parametrize("batch_size", [1, 4, 23])
def test_equals_loops_with_a_real_loss_in_any_batches(batch_size):
    net, criterion = network(), nearest()
    part = collect(net, loader(23, 23))
    criterion.eval()
    points = oracle.points(part.features, criterion.loss.center.mean)
    expected = by_loops(criterion, part.features, part.targets, points)
    found = validate(net, criterion, loader(23, batch_size))
    torch.testing.assert_close(tuple(found), tuple(expected), rtol=1e-12, atol=1e-14)
    assert 0 < found.top1 < 1 == found.top5


@pytest.mark.parametrize("batch_size", [3, 40])
def test_equals_loops_with_a_plain_criterion_of_many_classes(batch_size):
    criterion, features = Plain(normal(9, 5, seed=1)), normal(40, 5, seed=2)
    targets = torch.arange(40) % 7  # two classes are absent
    expected = by_loops(criterion, features, targets, [oracle.softmax(row) for row in features])
    found = validate(nn.Identity(), criterion, batches_of(features, targets, batch_size))
    torch.testing.assert_close(tuple(found), tuple(expected), rtol=1e-12, atol=1e-14)
    assert found.top1 < found.top5 < 1


def test_state_and_modes_stay():
    net, criterion, seen = network(), nearest(), []
    criterion.loss.weighting.eval()
    states = [copy.deepcopy(module.state_dict()) for module in (net, criterion)]
    modes = [[part.training for part in module.modules()] for module in (net, criterion)]
    validate(net, criterion, loader(9, 4), progress=lambda *step: seen.append(step))
    for module, state, mode in zip((net, criterion), states, modes, strict=True):
        assert [part.training for part in module.modules()] == mode
        assert all(torch.equal(tensor, state[name]) for name, tensor in module.state_dict().items())
    assert seen == [(1, 3), (2, 3), (3, 3)]


def corners(counts):
    """Features at the corners e_y of the classes, ``counts[y]`` each."""
    targets = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return torch.eye(len(counts), dtype=torch.float64)[targets], targets


def test_perfect_decisions():
    features, targets = corners([3, 3, 3, 3])
    found = validate(nn.Identity(), Plain(torch.eye(4).double()), batches_of(features, targets, 5))
    assert found.top1 == found.top5 == 1
    assert found.decided_classes == pytest.approx(4, abs=1e-12)
    assert found.shared_classes == 0
    assert found.output_entropy == pytest.approx(1, abs=1e-12)
    assert found.ncmi == pytest.approx(0, abs=1e-12)


def test_two_merged_classes_share_one():
    features, targets = corners([3, 3, 3, 3])
    features[targets == 2] = features[targets == 1]
    found = validate(nn.Identity(), Plain(torch.eye(4).double()), batches_of(features, targets, 5))
    assert found.shared_classes == 1
    assert found.top1 == 0.75
    # A quarter, a half and a quarter of the decisions: exp(H) = 2^1.5. NCMI is at its minimum and sees nothing.
    assert found.decided_classes == pytest.approx(2**1.5, abs=1e-12)
    assert found.ncmi == pytest.approx(0, abs=1e-12)


def test_absent_classes_are_not_shared():
    features, targets = corners([2, 0, 0, 3])
    found = validate(nn.Identity(), Plain(torch.eye(4).double()), batches_of(features, targets, 2))
    assert found.shared_classes == 0


def test_a_collapsed_network_is_right_at_the_rate_of_chance():
    targets = torch.arange(12) % 4
    features = torch.ones(12, 4, dtype=torch.float64)
    found = validate(nn.Identity(), Plain(torch.ones(4, 4).double()), batches_of(features, targets, 5))
    assert found.top1 == 0.25
    assert (found.decided_classes, found.shared_classes) == (1, 3)
    assert math.isnan(found.ncmi)
    assert found.gamma == pytest.approx(0, abs=1e-12)


def test_one_class_has_no_ncmi():
    features = normal(5, 4)
    found = validate(nn.Identity(), Plain(torch.eye(4).double()), batches_of(features, torch.full((5,), 2), 5))
    assert math.isnan(found.ncmi)
    assert found.cmi > 0
    assert found.shared_classes == 0


def test_class_mean_scores_decide_as_the_nearest_centroid_of_the_class_mean():
    # Centroids in pairs, so that classes merge: the reason that shared_classes needs no class means.
    criterion = nearest()
    with torch.no_grad():
        criterion.loss.centroids.xi[1] = criterion.loss.centroids.xi[0]
    criterion.eval()
    features, targets = normal(60, D, seed=3), torch.arange(60) % C
    mass = oracle.one_hot(targets, C)
    means = oracle.class_means(oracle.points(features, criterion.loss.center.mean), mass)
    centroids = [oracle.nsf(row) for row in criterion.loss.centroids.xi.detach()]
    nearest_centroid = [min(range(C), key=lambda v, s=s: float(oracle.kl(s, centroids[v]))) for s in means]
    found = validate(nn.Identity(), criterion, batches_of(features, targets, 7))
    assert found.shared_classes == C - len(set(nearest_centroid))
    assert found.shared_classes > 0


def test_ignored_samples_are_left_out():
    features, targets = normal(12, 4), torch.arange(12) % 4
    criterion = Plain(normal(4, 4, seed=1))
    expected = validate(nn.Identity(), criterion, batches_of(features[3:], targets[3:], 4))
    targets[:3] = -100
    found = validate(nn.Identity(), criterion, batches_of(features, targets, 3))
    torch.testing.assert_close(tuple(found), tuple(expected), rtol=1e-12, atol=1e-14)


def test_a_float32_head_under_autocast_decides_in_full_precision():
    torch.manual_seed(0)
    criterion, batches = Head(), batches_of(normal(50, D, dtype=torch.float32), torch.arange(50) % C, 10)
    expected = validate(nn.Identity(), criterion, batches)
    with torch.autocast("cpu", dtype=torch.float16):
        assert validate(nn.Identity(), criterion, batches) == expected


def test_guards():
    features, targets = normal(6, 4), torch.arange(6) % 4
    criterion = Plain(torch.eye(4).double())
    with pytest.raises(ValueError, match="gave no labelled sample on any rank"):
        validate(nn.Identity(), criterion, [])
    with pytest.raises(ValueError, match=r"validate: targets must lie in \[0, 3\]"):
        validate(nn.Identity(), criterion, batches_of(features, targets + 1, 6))
    with pytest.raises(ValueError, match=r"validate: features must have shape \(B, 4\)"):
        validate(nn.Identity(), criterion, batches_of(features[:, :3], targets, 6))
    with pytest.raises(ValueError, match="scores must be numbers; row 0 holds NaN"):
        validate(nn.Identity(), Plain(torch.full((4, 4), torch.nan).double()), batches_of(features, targets, 6))
    with pytest.raises(ValueError, match="Use reduction='mean'"):
        validate(network(), nearest(reduction="none"), loader(6, 6))
    with pytest.raises(ValueError, match=r"scores must have shape \(6, 4\)"):
        validate(nn.Identity(), Narrow(torch.eye(4).double()), batches_of(features, targets, 6))


class Narrow(Plain):
    """A criterion that forgets a class."""

    def __call__(self, features, targets):
        return features.sum()

    def scores(self, features):
        return features[:, :3]


def test_the_set_is_not_trivial():
    assert len(set(image_set(23).targets.tolist())) == C
