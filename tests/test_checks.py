"""Each sentence fires, names its owner and says what to do."""

import pytest
import torch
from batches import OBJECTIVES, normal

from ncmi import NCMILoss
from ncmi.checks import check_features, check_sizes, check_targets, check_temperature, choose

C, D = 3, 4


@pytest.fixture
def loss():
    return NCMILoss(C, D)


def features(batch=2):
    return normal(batch, D, dtype=torch.float32)


LABELS = torch.tensor([0, 2])


def test_sizes():
    for num_classes in (1, 0, -3):
        with pytest.raises(ValueError, match=rf"NCMILoss: num_classes must be at least 2.*got {num_classes}"):
            NCMILoss(num_classes, D)
    with pytest.raises(ValueError, match=r"num_features must be at least 2.*got 1\. Pass the width"):
        NCMILoss(C, 1)
    with pytest.raises(ValueError, match=r"^Someone: "):
        check_sizes("Someone", 1, 1)


@pytest.mark.parametrize("temperature", [0, -0.2, float("nan"), float("inf")])
def test_temperature(temperature):
    with pytest.raises(ValueError, match=r"temperature must be positive and finite; got .* The default is 0\.2"):
        NCMILoss(C, D, temperature=temperature)
    with pytest.raises(ValueError, match=r"^Someone: "):
        check_temperature("Someone", temperature)


def test_width_of_the_features(loss):
    with pytest.raises(ValueError, match=r"shape \(B, 4\) because num_features=4; got \(2, 7\)\. Pass num_features=7"):
        loss(torch.randn(2, 7), LABELS)
    with pytest.raises(ValueError, match=r"got \(2, 4, 5, 5\)\. Pool or flatten"):
        loss(torch.randn(2, 4, 5, 5), LABELS)
    with pytest.raises(ValueError, match=r"got \(4,\)\. Pool or flatten"):
        loss(torch.randn(4), LABELS)


@pytest.mark.parametrize("dtype", [torch.long, torch.bool, torch.complex64])
def test_features_must_be_real(loss, dtype):
    with pytest.raises(TypeError, match=r"features must be real numbers .* got torch\."):
        loss(torch.ones(2, D).to(dtype), LABELS)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_features_must_be_finite(loss, bad):
    given = features(5)
    given[3, 1] = bad
    with pytest.raises(
        ValueError, match=r"1 of 5 rows hold NaN or infinity \(first at row 3\)\. Lower the learning rate"
    ):
        loss(given, torch.zeros(5, dtype=torch.long))
    given[4] = torch.tensor([float("inf"), -float("inf"), 0, 0])
    with pytest.raises(ValueError, match=r"2 of 5 rows"):
        check_features("Someone", given, D)


def test_large_finite_features_pass(loss):
    assert bool(loss(torch.full((2, D), 3e38) * torch.tensor([[1.0], [-0.5]]), LABELS).isfinite())
    assert bool(loss.double()(1e300 * normal(2, D), LABELS).isfinite())
    assert bool(NCMILoss(C, D)(torch.full((2, D), 6e4, dtype=torch.float16).tril(), LABELS).isfinite())


@pytest.mark.parametrize(("label", "index"), [(3, -100), (-1, -100), (-100, 7), (255, -100)])
def test_labels_must_be_in_range(label, index):
    loss = NCMILoss(C, D, ignore_index=index)
    with pytest.raises(ValueError, match=rf"in \[0, 2\] because num_classes=3 .*got {label}\. Labels that start at 1"):
        loss(features(), torch.tensor([0, label]))


def test_labels_of_the_wrong_type(loss):
    with pytest.raises(
        ValueError, match=r"got torch\.float32 of shape \(2,\)\. For class indices pass targets\.long\(\)"
    ):
        loss(features(), torch.tensor([0.0, 2.0]))
    with pytest.raises(TypeError, match=r"targets must be class indices or soft labels; got torch\.bool"):
        loss(features(), torch.tensor([True, False]))
    with pytest.raises(TypeError, match=r"got torch\.complex64"):
        loss(features(), torch.tensor([0j, 1j]))


def test_lengths_must_agree(loss):
    with pytest.raises(ValueError, match=r"same length; got 2 and \(3,\)"):
        loss(features(), torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match=r"same length; got 2 and \(\)"):
        loss(features(), torch.tensor(1))


def test_multi_label_targets_are_refused(loss):
    with pytest.raises(ValueError, match=r"pass targets\.argmax\(1\); several classes for one sample \(multi-label\)"):
        loss(features(), torch.tensor([[1, 0, 1], [0, 1, 0]]))
    with pytest.raises(
        ValueError, match=r"rows that sum to one; got a row with sum 2\. Multi-label targets are not supported"
    ):
        loss(features(), torch.tensor([[1.0, 0, 1], [0, 1, 0]]))


def test_soft_labels_must_be_distributions(loss):
    with pytest.raises(ValueError, match=r"soft labels must be non-negative rows"):
        loss(features(), torch.tensor([[1.5, -0.5, 0], [0, 1, 0]]))
    with pytest.raises(ValueError, match=r"rows that sum to one"):
        loss(features(), torch.tensor([[float("nan"), 0, 0], [0, 1, 0]]))
    with pytest.raises(ValueError, match=r"floats, shape \(B, 3\)\); got torch\.float32 of shape \(2, 4\)"):
        loss(features(), torch.full((2, 4), 0.25))
    check_targets("Someone", torch.tensor([[0.5, 0.5, 0]], dtype=torch.bfloat16), 1, C, -100)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_checks_its_input(objective):
    loss = NCMILoss(C, D, objective)
    for method in (loss, loss.measure, loss.start_from_class_means):
        with pytest.raises(ValueError, match=r"Labels that start at 1"):
            method(features(), torch.tensor([1, 3]))
        with pytest.raises(ValueError, match=r"Pass num_features=5"):
            method(torch.randn(2, 5), LABELS)


def test_unknown_names_list_their_neighbours():
    with pytest.raises(ValueError, match=r"colour must be one of 'blue', 'green'; got 'gren'\. Did you mean 'green'\?"):
        choose("Someone", "colour", "gren", ("blue", "green"))
    with pytest.raises(ValueError, match=r"got 'xyz'\.$"):
        choose("Someone", "colour", "xyz", ("blue", "green"))
    with pytest.raises(ValueError, match=r"Did you mean 'softmax'"):
        NCMILoss(C, D, simplex="sofmax")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"reduction must be one of 'mean', 'sum', 'none'; got 'avg'"):
        NCMILoss(C, D, reduction="avg")  # pyright: ignore[reportArgumentType]


def test_a_bad_batch_changes_no_state(loss):
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    with pytest.raises(ValueError, match="finite"):
        loss(torch.full((2, D), float("nan")), LABELS)
    with pytest.raises(ValueError, match="Labels"):
        loss(features(), torch.tensor([0, 3]))
    assert all(torch.equal(value, before[name]) for name, value in loss.state_dict().items())
