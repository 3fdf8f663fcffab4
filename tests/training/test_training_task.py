"""Network and criterion as one module: frozen networks, micro-batches, averages, what is watched."""

import copy
import math

import pytest
import torch
from torch import nn

from ncmi.criteria import create_criterion, list_criteria
from ncmi.models import create_model
from ncmi.recipes import LOSS_OPTIONS
from ncmi.training.average import WeightAverage
from ncmi.training.monitor import CollapseMonitor, Diverged, check_finite, check_finite_weights, measure_batch
from ncmi.training.task import Task

C = 5


def batch(seed=0, size=12):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, 3, 8, 8, generator=generator), torch.randint(C, (size,), generator=generator)


def make(loss="ncmi", network="resnet8_slim", options=None, **settings):
    torch.manual_seed(1)
    body = create_model(network, **({"in_features": 192} if network == "mlp" else {}))
    return Task(body, create_criterion(loss, C, body.num_features, **(options or {})), **settings)


def gradients(task, images, targets):
    task.zero_grad()
    loss, features = task(images, targets)
    loss.backward()
    return loss.detach(), features, [p.grad.clone() for p in task.parameters()]


@pytest.mark.parametrize("objective", ["rivals", "harmonic", "theorem1", "centroid", "released"])
def test_micro_batches_are_the_whole_batch_for_every_objective(objective):
    torch.manual_seed(1)
    body = create_model("mlp", in_features=192, hidden=[16, 8]).double()
    whole = Task(body, create_criterion("ncmi", C, 8, objective=objective).double())
    parts = copy.deepcopy(whole)
    parts.micro_batch = 5
    images, targets = batch()
    expected = gradients(whole, images.double(), targets)
    found = gradients(parts, images.double(), targets)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    # A mean of the parts' losses is another number: the ratio must be formed once.
    separate = [
        parts.criterion.eval()(parts.network(x), y)
        for x, y in zip(images.double().split(5), targets.split(5), strict=True)
    ]
    if objective in ("theorem1", "centroid"):
        assert abs(float(sum(separate).detach() / len(separate) - expected[0])) > 1e-6


def test_recomputed_parts_count_once_in_batch_statistics():
    task = make(micro_batch=4)
    images, targets = batch()
    gradients(task, images, targets)
    norm = task.network.bn1
    assert int(norm.num_batches_tracked) == 3
    expected = copy.deepcopy(make().network)
    expected.train()
    for part in images.split(4):
        expected(part)
    torch.testing.assert_close(norm.running_mean, expected.bn1.running_mean)
    torch.testing.assert_close(norm.running_var, expected.bn1.running_var)


def test_dropout_is_replayed_in_recomputed_parts():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.Dropout(0.5))
    task = Task(body, create_criterion("ce", C, 8), micro_batch=4)
    images, targets = batch()
    torch.manual_seed(3)
    _, _, found = gradients(task, images, targets)
    torch.manual_seed(3)
    features = torch.cat([body(part) for part in images.split(4)])
    task.zero_grad()
    task.criterion(features, targets).backward()
    torch.testing.assert_close(found, [p.grad for p in task.parameters()])


def test_a_frozen_network_neither_learns_nor_moves_its_statistics():
    task = make(frozen=True)
    before = copy.deepcopy(task.network.state_dict())
    task.train()
    loss, _ = task(*batch())
    loss.backward()
    assert not task.network.training
    assert task.criterion.training
    assert all(p.grad is None for p in task.network.parameters())
    assert all(torch.equal(before[name], value) for name, value in task.network.state_dict().items())


@pytest.mark.parametrize("name", list_criteria())
def test_every_criterion_trains_decides_and_is_measured(name):
    task = make(name, network="mlp", options=LOSS_OPTIONS.get(name, {}))
    images, targets = batch()
    if task.criterion.views > 1:
        images = torch.stack([images, images.flip(-1)], dim=1)
    loss, features, found = gradients(task, images, targets)
    assert loss.ndim == 0
    assert bool(loss.isfinite())
    assert features.requires_grad is False
    assert all(bool(gradient.isfinite().all()) for gradient in found)
    measured = measure_batch(task.criterion, features, targets)
    assert set(measured) == {"accuracy", "cmi", "gamma", "ncmi"}
    assert task.criterion.training
    assert task.criterion.scores(features).shape == (12, C)
    own = {id(parameter) for parameter in task.criterion.own_parameters()}
    assert own <= {id(parameter) for parameter in task.criterion.parameters()}


def test_the_average_follows_as_its_formula_says():
    module = nn.BatchNorm1d(2)
    average = WeightAverage(module, 0.5)
    expected = module.weight.detach().clone()
    for step in range(4):
        with torch.no_grad():
            module.weight.add_(1.0)
            module.num_batches_tracked.add_(1)
        average.update(module)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * module.weight.detach()
    torch.testing.assert_close(average.module.weight, expected)
    assert int(average.module.num_batches_tracked) == 4
    assert not average.module.weight.requires_grad
    other = WeightAverage(nn.BatchNorm1d(2), 0.5)
    other.load_state_dict(average.state_dict())
    assert other.updates == 4
    torch.testing.assert_close(other.module.weight, expected)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_stops_the_run(value):
    check_finite(1.0, 1, 1)
    with pytest.raises(Diverged, match=r"the loss is .* in epoch 3, step 120. Lower optimizer.lr"):
        check_finite(value, 3, 120)


def test_weights_that_are_not_finite_are_not_saved():
    layer = nn.Linear(2, 2)
    check_finite_weights(layer, 1)
    with torch.no_grad():
        layer.bias[0] = math.nan
    with pytest.raises(Diverged, match="bias is not finite in epoch 2"):
        check_finite_weights(layer, 2)


def warned(monitor, shared, decided=None):
    """The epochs that a monitor warns after."""
    numbers = zip(shared, decided or [3.0] * len(shared), strict=True)
    rows = [
        {"epoch": epoch, "shared_classes": count, "decided_classes": effective, "output_entropy": 0.9}
        for epoch, (count, effective) in enumerate(numbers, start=1)
    ]
    return [row["epoch"] for row in rows if monitor.look(row) is not None]


def test_the_monitor_is_silent_in_a_healthy_run():
    assert warned(CollapseMonitor(100), [81, 72, 68, 60, 43, 52, 37, 34, 21, 22, 18, 6, 4, 0, 1]) == []


def test_the_monitor_warns_when_classes_stay_merged():
    assert warned(CollapseMonitor(100), [90, 80, 70, 70, 75, 70, 70, 70, 70, 70]) == [6]


def test_the_monitor_warns_when_classes_merge_again_and_repeats_only_what_is_worse():
    assert warned(CollapseMonitor(100), [2, 0, 3, 12, 15, 20, 30, 40, 60]) == [5, 7, 9]


def test_the_monitor_is_silent_when_the_number_jumps_for_an_epoch():
    assert warned(CollapseMonitor(100), [2, 0, 3, 12, 5, 6, 20, 3]) == []
    assert warned(CollapseMonitor(10), [0, 2, 0, 2, 0, 2]) == []


def test_the_monitor_is_silent_when_a_rare_class_of_two_leans_to_the_common_one():
    # As cross-entropy had it on the breast bags, where it decided nine of ten right.
    shared, decided = [1, 0, 1, 0, 1, 1, 1, 1], [1.16, 1.53, 1.36, 1.43, 1.40, 1.36, 1.40, 1.40]
    assert warned(CollapseMonitor(2), shared, decided) == []


def test_the_monitor_warns_when_two_classes_have_become_one():
    assert warned(CollapseMonitor(2), [0, 1, 1, 1, 1, 1], [1.9, 1.0, 1.0, 1.0, 1.0, 1.0]) == [5]
    assert warned(CollapseMonitor(2), [1, 1, 1, 0, 1, 1, 1], [1.0, 1.0, 1.0, 1.5, 1.0, 1.0, 1.0]) == [], "not in a row"


def test_the_monitor_needs_a_validation_part():
    assert CollapseMonitor(100).look({"epoch": 3}) is None


def test_class_weights_of_a_recipe_reach_the_loss():
    features, targets = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    for name in ("ncmi", "ce"):
        criterion = create_criterion(name, 3, 4, weight=[1, 2.5, 0.5])
        plain = create_criterion(name, 3, 4)
        plain.load_state_dict(criterion.state_dict(), strict=False)
        doubled = create_criterion(name, 3, 4, weight=[2, 5, 1])
        doubled.load_state_dict(
            {key: value for key, value in criterion.state_dict().items() if "weighting" not in key}, strict=False
        )
        found = [float(one(features, targets).detach()) for one in (criterion, plain, doubled)]
        assert found[0] != pytest.approx(found[1], rel=1e-4)
        assert found[0] == pytest.approx(found[2], rel=1e-5), "weights matter by their proportions"
    with pytest.raises(ValueError, match=r"weight must have shape \(3,\), one number a class; got \(2,\)"):
        create_criterion("ncmi", 3, 4, weight=[1, 2])
