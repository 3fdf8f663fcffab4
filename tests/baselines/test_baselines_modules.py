"""What every baseline promises as a module: copies, saved state, evaluation without traces, precision, corners."""

import copy
import inspect
import pickle
from pathlib import Path

import pytest
import torch
from baseline_cases import PLAIN, WEIGHT, B, C, D
from batches import hard_labels
from torch import nn

from ncmi import parameter_groups
from ncmi.baselines import (
    BASELINES,
    Baseline,
    CenterLoss,
    ContrastiveCenterLoss,
    Focal,
    ProjectionHead,
    make_baseline,
)

EVERY = pytest.mark.parametrize("case", PLAIN.values(), ids=PLAIN)
HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])


def leaves(tensors, dtype=torch.float32):
    return tuple(tensor.to(dtype).requires_grad_() for tensor in tensors)


def trained(case, dtype=torch.float32):
    """A loss whose state has moved."""
    loss = case.build(dtype=dtype)
    for seed in range(3):
        loss(*leaves(case.inputs(seed=seed), dtype), case.targets(seed=seed)).backward()
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.sub_(parameter.grad)
    return loss


@EVERY
def test_copies_compute_the_same(case):
    loss = trained(case).eval()
    inputs, targets = leaves(case.inputs(seed=7)), case.targets(seed=7)
    for other in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
        assert torch.equal(other(*inputs, targets), loss(*inputs, targets))
        assert repr(other) == repr(loss)


@EVERY
def test_all_state_is_in_the_state_dict(case, tmp_path):
    loss = trained(case)
    torch.save(loss.state_dict(), tmp_path / "loss.pt")
    other = case.build(dtype=torch.float32, seed=5)
    other.load_state_dict(torch.load(tmp_path / "loss.pt"))
    for seed in (7, 8):  # the second step starts from what the first has left
        inputs, targets = leaves(case.inputs(seed=seed)), case.targets(seed=seed)
        assert torch.equal(other(*inputs, targets), loss(*inputs, targets))


@EVERY
def test_evaluation_changes_no_state_and_gives_the_same_number(case):
    loss = trained(case)
    inputs, targets = leaves(case.inputs(seed=7)), case.targets(seed=7)
    before = copy.deepcopy(loss.state_dict())
    with torch.no_grad():
        value = loss.eval()(*inputs, targets)
    assert all(torch.equal(before[name], tensor) for name, tensor in loss.state_dict().items())
    assert torch.equal(loss.train()(*inputs, targets), value)


def test_who_has_state_says_so():
    moving = {name for name, case in PLAIN.items() if case.build().state_dict()}
    assert moving == {"cmic", "center", "contrastive-center"}
    for name, kind in BASELINES.items():
        document = inspect.getdoc(kind) or ""
        learns = bool(list(PLAIN[name].build().parameters()))
        assert ("**This loss has parameters**" in document) == learns == (kind.parameter_lr is not None), name
        assert ("**This loss has state**" in document) == (name in moving and not learns), name


@EVERY
def test_an_optimiser_lowers_the_loss(case):
    loss, targets = case.build(), case.targets()
    inputs = leaves(case.inputs(), torch.float64)
    values = []
    optimizer = torch.optim.SGD([*inputs, *loss.parameters()], lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        value = loss(*inputs, targets)
        value.backward()
        optimizer.step()
        values.append(float(value.detach()))
    assert values[-1] < values[0]


def test_parameter_groups_take_the_learning_rate():
    loss = ContrastiveCenterLoss(C, D)
    groups = parameter_groups(nn.Linear(2, D), loss, lr=0.1, weight_decay=5e-4, centroid_lr=loss.parameter_lr)
    assert [(group["lr"], group["weight_decay"]) for group in groups] == [(0.1, 5e-4), (0.5, 0.0)]


@HALVES
@EVERY
def test_half_precision_is_outside_only(case, dtype):
    inputs, targets = leaves(case.inputs(), dtype), case.targets()
    exact = leaves([tensor.detach().float() for tensor in inputs])
    expected = case.build(dtype=torch.float32)(*exact, targets)
    for context in (torch.autocast("cpu", dtype=dtype), torch.autocast("cpu", dtype=dtype, enabled=False)):
        with context:
            value = case.build(dtype=torch.float32)(*inputs, targets)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, expected)
    gradients, expected_gradients = torch.autograd.grad(value, inputs), torch.autograd.grad(expected, exact)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        assert found.dtype == dtype
        torch.testing.assert_close(found.float(), wanted, rtol=2e-2, atol=2e-2 * float(wanted.abs().max()))


@HALVES
@EVERY
def test_state_stays_float32_in_a_half_precision_network(case, dtype):
    network = nn.ModuleDict({"loss": case.build(dtype=torch.float32)}).to(dtype)
    assert all(tensor.dtype == torch.float32 for tensor in network["loss"].state_dict().values())
    assert Focal(C, alpha=WEIGHT).to(dtype).alpha.dtype == torch.float32


@EVERY
def test_float64_inputs_stay_float64(case):
    loss = case.build(dtype=torch.float32)
    value = loss(*case.inputs(), case.targets())
    assert value.dtype == torch.float64
    assert all(tensor.dtype == torch.float32 for tensor in loss.state_dict().values())


@EVERY
def test_float32_is_close_to_float64(case):
    inputs, targets = case.inputs(batch=64, scale=3.0), case.targets(batch=64)
    exact = case.build()(*inputs, targets)
    found = case.build(dtype=torch.float32)(*(tensor.float() for tensor in inputs), targets)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


CORNERS = {
    "one sample": (lambda x: x[:1], torch.tensor([1])),
    "one class": (lambda x: x, torch.full((B,), 2)),
    "absent classes": (lambda x: x, torch.arange(B) % 2),
    "a sample of each class": (lambda x: x[:C], torch.arange(C)),
    "equal rows": (lambda x: x[:1].expand_as(x).clone(), hard_labels(B, C)),
    "zeros": (torch.zeros_like, hard_labels(B, C)),
    "large": (lambda x: 1e4 * x, hard_labels(B, C)),
    "huge": (lambda x: 1e15 * x, hard_labels(B, C)),
    "tiny": (lambda x: 1e-30 * x, hard_labels(B, C)),
    "right and certain": (
        lambda x: x if x.shape[1:] != (C,) else 200.0 * torch.eye(C)[hard_labels(B, C)],
        hard_labels(B, C),
    ),
}


@pytest.mark.parametrize("corner", CORNERS.values(), ids=CORNERS)
@EVERY
def test_corners_are_finite(case, corner):
    change, targets = corner
    loss = case.build(dtype=torch.float32)
    inputs = leaves([change(tensor.float()) for tensor in case.inputs()])
    value = loss(*inputs, targets)
    value.backward()
    assert bool(value.isfinite())
    for tensor in (*inputs, *loss.parameters()):
        assert bool(tensor.grad.isfinite().all())
    assert all(bool(tensor.isfinite().all()) for tensor in loss.state_dict().values())


@pytest.mark.parametrize(
    "corner", ["one sample", "one class", "absent classes", "a sample of each class", "equal rows"]
)
@EVERY
def test_corners_are_those_of_the_loops(case, corner):
    change, targets = CORNERS[corner]
    loss = case.build()
    inputs = tuple(change(tensor) for tensor in case.inputs())
    expected = case.expected(loss, inputs, targets)
    torch.testing.assert_close(loss(*inputs, targets), expected, rtol=1e-9, atol=1e-9)


@EVERY
def test_two_classes_and_many(case):
    for num_classes in (2, 50):
        loss, inputs = case.build(num_classes), case.inputs(num_classes=num_classes)
        targets = hard_labels(B, num_classes)
        expected = case.expected(loss, inputs, targets)
        if case.name == "square" and num_classes == 50:  # M = 15, which the loops are not told
            continue
        torch.testing.assert_close(loss(*inputs, targets), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
@EVERY
def test_small_integers_are_labels(case, dtype):
    inputs, targets = case.inputs(), case.targets()
    assert torch.equal(case.build()(*inputs, targets.to(dtype)), case.build()(*inputs, targets))


def test_registry():
    assert len(set(BASELINES.values())) == len(BASELINES) == 12
    for kind in BASELINES.values():
        assert issubclass(kind, Baseline)
        assert kind.takes in ("logits", "logits and features", "views")
        names = list(inspect.signature(kind).parameters)
        assert names[: 1 + kind.takes_num_features] == ["num_classes", "num_features"][: 1 + kind.takes_num_features]
    assert isinstance(make_baseline("center", 3, 8), CenterLoss)
    with pytest.raises(ValueError, match=r"Did you mean 'focal'"):
        make_baseline("fokal", 3, 8)


def test_every_baseline_has_a_card():
    cards = (Path(__file__).parents[2] / "docs" / "losses.md").read_text()
    for name, kind in BASELINES.items():
        assert f'`{kind.__name__}` · `"{name}"`' in cards, name
        card = cards.split(f"`{kind.__name__}` · ")[1].split("\n## ")[0]
        for part in ("**Paper.**", "**Formula.**", "**Takes.**", "**Parameters.**", "**Published code.**"):
            assert part in card, (name, part)
        assert ("**This loss has" in card) == bool(PLAIN[name].build().state_dict()), name
        for parameter in inspect.signature(kind).parameters.values():
            if parameter.name not in ("num_classes", "num_features", "settings", "weight", "ignore_index", "reduction"):
                assert f"`{parameter.name}`" in card, (name, parameter.name)


def test_projection_heads():
    features = torch.randn(4, 2, 16)
    assert ProjectionHead(16)(features).shape == (4, 2, 128)
    assert [tuple(p.shape) for p in ProjectionHead(16, 8).parameters()] == [(16, 16), (16,), (8, 16), (8,)]
    assert [tuple(p.shape) for p in ProjectionHead(16, 8, hidden=32).parameters()] == [(32, 16), (32,), (8, 32), (8,)]
    assert [tuple(p.shape) for p in ProjectionHead(16, 8, hidden=0).parameters()] == [(8, 16), (8,)]


def test_huge_differences_between_centers_are_summed_without_loss():
    # The sample sits on another class's centre, far from its own.
    loss = ContrastiveCenterLoss(2, 1, delta=1e-3)
    with torch.no_grad():
        loss.centers.copy_(torch.tensor([[0.0], [1e4]]))
    value = loss(torch.zeros(1, 2), torch.tensor([[1e4 + 1]]), torch.tensor([0]))
    expected = torch.tensor(2.0).log() + 0.5 * (1e4 + 1) ** 2 / (1 + 1e-3)
    torch.testing.assert_close(value, expected)
