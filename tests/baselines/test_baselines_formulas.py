"""Every baseline against loops written from its formula: value, gradient, state, and what torch itself computes."""

import itertools
import math

import baseline_oracle as oracle
import pytest
import torch
import torch.nn.functional as F
from baseline_cases import CASES, PLAIN, WEIGHT, B, C, D
from batches import hard_labels, normal, soft_labels

from ncmi.baselines import BASELINES, CMIC, OPL, AntiClass, CenterLoss, Focal, Poly1, SquareLoss, Squentropy, SupCon
from ncmi.baselines.square import square_loss_settings

EXACT = {"rtol": 1e-9, "atol": 1e-11}


def leaves(tensors):
    return tuple(tensor.clone().requires_grad_() for tensor in tensors)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_value_and_gradient_are_those_of_the_loops(case):
    loss, targets = case.build(), case.targets()
    inputs, copies = leaves(case.inputs()), leaves(case.inputs())
    expected = case.expected(loss, copies, targets)
    own = tuple(loss.parameters())
    weights = torch.linspace(0.5, 2, expected.numel(), dtype=torch.float64).view_as(expected)
    expected_gradients = torch.autograd.grad((expected * weights).sum(), copies + own)
    value = loss(*inputs, targets)
    torch.testing.assert_close(value, expected, **EXACT)
    gradients = torch.autograd.grad((value * weights).sum(), inputs + own)
    torch.testing.assert_close(gradients, expected_gradients, **EXACT)
    assert all(float(gradient.abs().max()) > 1e-5 for gradient in gradients)


DERIVATIVES = {name: case for name, case in CASES.items() if case.is_derivative}


@pytest.mark.parametrize("case", DERIVATIVES.values(), ids=DERIVATIVES)
def test_gradcheck(case):
    loss, targets = case.build().eval(), case.targets(batch=6)
    inputs = leaves(case.inputs(batch=6))
    assert torch.autograd.gradcheck(lambda *x: loss(*x, targets), inputs)


def test_every_baseline_has_a_plain_case():
    assert set(PLAIN) == set(BASELINES)


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("weight", [None, WEIGHT.double()], ids=["plain", "weighted"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_and_smoothing_are_those_of_torch(soft, weight, reduction):
    logits, targets = normal(B, C), soft_labels(B, C) if soft else hard_labels(B, C)
    if not soft:
        targets[3] = -100
    for name, smoothing in (("ce", 0.0), ("label-smoothing", 0.1), ("label-smoothing", 0.37)):
        settings = {"smoothing": smoothing} if smoothing else {}
        loss = BASELINES[name](C, weight=weight, reduction=reduction, **settings)
        expected = F.cross_entropy(logits, targets, weight=weight, reduction=reduction, label_smoothing=smoothing)
        torch.testing.assert_close(loss(logits, targets), expected)


def test_cross_entropy_gradient_is_probabilities_minus_label():
    logits, targets = normal(B, C).requires_grad_(), hard_labels(B, C)
    CASES["ce"].build()(logits, targets).backward()
    expected = (torch.softmax(logits.detach(), dim=1) - F.one_hot(targets, C)) / B
    torch.testing.assert_close(logits.grad, expected)


def test_focal_without_focus_is_cross_entropy():
    logits, targets = normal(B, C), hard_labels(B, C)
    torch.testing.assert_close(Focal(C, gamma=0)(logits, targets), F.cross_entropy(logits, targets))


def test_focal_alpha_divides_by_the_samples_and_not_by_alpha():
    logits, targets = normal(B, C), hard_labels(B, C)
    found = Focal(C, gamma=0, alpha=WEIGHT.double())(logits, targets)
    expected = F.cross_entropy(logits, targets, weight=WEIGHT.double(), reduction="sum") / B
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 0.99, 1.0, 2.0])
@pytest.mark.parametrize("size", [0.0, 1.0, 15.0, 17.0, 40.0, 88.0, 1e4, 1e30])
def test_focal_gradient_is_finite_however_certain(gamma, size):
    logits = torch.tensor([[size, 0.0, -1.0], [-size, size, 0.5]], requires_grad=True)
    for targets in (torch.tensor([0, 0]), torch.tensor([[0.9, 0.1, 0.0], [0.0, 1.0, 0.0]])):
        value = Focal(3, gamma=gamma)(logits, targets)
        (gradient,) = torch.autograd.grad(value, logits)
        assert bool(value.isfinite())
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("lead", [-30.0, -3.0, 0.0, 3.0, 12.0, 20.0, 30.0])
def test_focal_keeps_its_digits_where_one_minus_p_has_none(gamma, lead):
    # From a lead of 17 on, 1 − p_y is zero as a float32 difference. Here it is e^−s/(1 + e^−s), with s the lead over both.
    logits = torch.tensor([[lead, 0.0, 0.0]], requires_grad=True)
    value = Focal(3, gamma=gamma)(logits, torch.tensor([0]))
    odds = 2 * math.exp(-lead)
    wrong, surprise = odds / (1 + odds), math.log1p(odds)
    assert float(value.detach()) == pytest.approx(wrong**gamma * surprise, rel=1e-5)
    slope = -(gamma * wrong**gamma * (1 - wrong) * surprise + wrong ** (gamma + 1))
    (gradient,) = torch.autograd.grad(value, logits)
    assert gradient[0].tolist() == pytest.approx([slope, -slope / 2, -slope / 2], rel=1e-5, abs=0)


def test_poly1_takes_no_probability_from_a_smoothed_cross_entropy():
    logits, smoothed = normal(B, C), 0.9 * F.one_hot(hard_labels(B, C), C).double() + 0.1 / C
    probs = torch.softmax(logits, dim=1)
    expected = F.cross_entropy(logits, smoothed) + 2 * (smoothed * (1 - probs)).sum(dim=1).mean()
    torch.testing.assert_close(Poly1(C)(logits, smoothed), expected)


def test_squentropy_squares_logits_and_leaves_the_own_one_out():
    # The own logit is 1e4 times the others; a difference of sums would lose them in float32.
    logits = torch.tensor([[1e4, 1.0, -2.0, 0.5]])
    assert float(Squentropy(C)(logits, torch.tensor([0]))) == pytest.approx((1 + 4 + 0.25) / 3)


@pytest.mark.parametrize(
    ("num_classes", "expected"),
    [(2, (1, 1)), (42, (1, 1)), (43, (1, 15)), (100, (1, 15)), (999, (1, 15)), (1000, (15, 30)), (5000, (15, 30))],
)
def test_square_loss_settings_follow_the_number_of_classes(num_classes, expected):
    loss = SquareLoss(num_classes)
    assert (loss.true_class_weight, loss.target_value) == expected == square_loss_settings(num_classes)
    assert SquareLoss(num_classes, target_value=7.0).target_value == 7
    assert SquareLoss(num_classes, true_class_weight=7.0).true_class_weight == 7


def test_square_loss_is_the_weighted_mean_of_squared_errors():
    logits, targets = normal(B, C), hard_labels(B, C)
    one_hot = F.one_hot(targets, C).double()
    expected = ((logits - 30 * one_hot).square() * (14 * one_hot + 1)).mean()
    torch.testing.assert_close(SquareLoss(C, true_class_weight=15, target_value=30)(logits, targets), expected)


def test_anticlass_gradient_is_one_cold_label_minus_reversed_probabilities():
    logits, targets = normal(B, C).requires_grad_(), hard_labels(B, C)
    AntiClass(C, ce_weight=0.0)(logits, targets).backward()
    one_cold = (1 - F.one_hot(targets, C).double()) / (C - 1)
    torch.testing.assert_close(logits.grad, (one_cold - torch.softmax(-logits.detach(), dim=1)) / B)


def test_anticlass_epsilon_bounds_what_the_formula_does_not():
    logits, targets = torch.tensor([[-80.0, 80.0, 0.0, 10.0]], requires_grad=True), torch.tensor([0])
    exact, published = (AntiClass(C, ce_weight=0.0, epsilon=epsilon)(logits, targets) for epsilon in (0.0, 1e-7))
    assert float(exact.detach()) == pytest.approx((160 + 80 + 90) / 3 - math.log(3), rel=1e-6)
    assert float(published.detach()) == pytest.approx(-math.log(1e-7), rel=1e-3)
    (gradient,) = torch.autograd.grad(published, logits)
    assert float(gradient.abs().max()) < 1e-6


@pytest.mark.parametrize("name", ["center", "center weighted", "center ignored none"])
def test_centers_take_the_papers_step(name):
    case = CASES[name]
    loss = case.build()
    (logits, features), targets = case.inputs(), case.targets()
    settings = {key: value for key, value in case.settings.items() if key in ("weight", "center_lr")}
    expected = oracle.moved_centers(features, targets, loss.centers.clone(), **settings)
    loss(logits, features, targets)
    torch.testing.assert_close(loss.centers, expected, **EXACT)


def test_a_center_without_samples_stays():
    loss = CenterLoss(3, D)
    loss(torch.zeros(2, 3), torch.ones(2, D), torch.tensor([0, 1]))
    assert torch.equal(loss.centers, torch.tensor([0.25, 0.25, 0.0])[:, None].expand(3, D))


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("cmic")])
def test_cmic_centroids_follow_the_class_means(name):
    case = CASES[name]
    loss, targets = case.build(), case.targets()
    _, expected = oracle.cmic(*case.inputs(), targets, loss.centroids.clone(), loss.updates, **case.settings)
    loss(*case.inputs(), targets)
    torch.testing.assert_close(loss.centroids, expected, **EXACT)
    torch.testing.assert_close(loss.centroids.sum(dim=1), torch.ones(C).double())


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("momentum", [0.0, 0.8, 0.9999])
def test_cmic_centroids_are_weighted_means_of_what_their_class_has_seen(soft, momentum):
    loss = CMIC(C, cmi_weight=0.1, separation_weight=0.1, momentum=momentum).double()
    means = [[] for _ in range(C)]
    for step in range(6):
        logits, share = normal(B, C, seed=step), torch.linspace(0, 1, B).double()
        mass = torch.zeros(B, C).double()  # two classes a batch, and class 3 never
        mass[:, step % 3], mass[:, (step + 1) % 3] = (share, 1 - share) if soft else (share.round(), 1 - share.round())
        loss(logits, mass if soft else mass.argmax(dim=1))
        for c in (step % 3, (step + 1) % 3):
            means[c].append((mass[:, c : c + 1] * torch.softmax(logits, dim=1)).sum(dim=0) / mass[:, c].sum())
    assert [len(seen) for seen in means] == [4, 4, 4, 0]
    for c in range(C):
        weights = [momentum**age for age in reversed(range(len(means[c])))]
        total = sum((w * mean for w, mean in zip(weights, means[c], strict=True)), torch.zeros(C).double())
        expected = total / sum(weights) if weights else torch.full((C,), 1 / C).double()
        torch.testing.assert_close(loss.centroids[c], expected, **EXACT)
        assert float(loss.updates[c]) == pytest.approx(sum(weights))


def test_cmic_centroids_leave_their_uniform_start_in_a_short_training():
    loss = CMIC(C, cmi_weight=0.1, separation_weight=0.1)
    loss(20 * torch.eye(C), torch.arange(C))
    torch.testing.assert_close(loss.centroids, torch.eye(C), rtol=0, atol=1e-6)


def test_cmic_of_soft_labels_is_the_mean_over_what_the_labels_may_be():
    # So a sample is no partner of its own: it has one label, whatever it is.
    loss = CMIC(3, cmi_weight=0.4, separation_weight=0.7).double().eval()
    logits, soft = normal(3, 3), soft_labels(3, 3, seed=4)
    soft[0] = torch.tensor([0.2, 0.5, 0.3])
    expected = torch.zeros(()).double()
    for drawn in itertools.product(range(3), repeat=3):
        chance = math.prod(float(soft[x, y]) for x, y in enumerate(drawn))
        expected += chance * loss(logits, torch.tensor(drawn))
    torch.testing.assert_close(loss(logits, soft), expected)


@pytest.mark.parametrize("normalize", ["batch_squared", "pairs"])
def test_cmic_of_a_lone_soft_sample_has_no_separation(normalize):
    logits, soft = normal(1, 3, dtype=torch.float32), torch.tensor([[0.3, 0.6, 0.1]])
    found = CMIC(3, cmi_weight=0.0, separation_weight=1.0, normalize=normalize)(logits, soft)
    torch.testing.assert_close(found, F.cross_entropy(logits, soft))


def test_cmic_separation_has_a_bound():
    logits = torch.tensor([[0.0, 0.0], [1e4, 0.0]], requires_grad=True)
    loss = CMIC(2, cmi_weight=0.0, separation_weight=1e3).eval()
    value = loss(logits, torch.tensor([0, 1]))
    assert float(value.detach()) > 1e3 * math.log(1e-25)
    assert bool(torch.autograd.grad(value, logits)[0].isfinite().all())


def test_cmic_asks_for_its_weights():
    with pytest.raises(TypeError, match=r"cmi_weight.*separation_weight"):
        CMIC(3)  # pyright: ignore[reportCallIssue]


def test_supcon_scales_differ_by_their_factors():
    (views,), targets = CASES["supcon"].inputs(), hard_labels(B, C)
    plain, google, authors = (
        float(SupCon(C, scale=scale)(views, targets)) for scale in ("none", "temperature", "base_temperature")
    )
    assert google == pytest.approx(0.1 * plain)
    assert authors == pytest.approx(0.1 / 0.07 * plain)


def test_supcon_sees_directions_only():
    (views,), targets = CASES["supcon"].inputs(), hard_labels(B, C)
    lengths = normal(B, 2, 1, seed=3).exp()
    torch.testing.assert_close(SupCon(C)(lengths * views, targets), SupCon(C)(views, targets))


def test_opl_negatives_differ_on_random_directions():
    logits, features, targets = torch.zeros(64, C), normal(64, D).float(), hard_labels(64, C)
    mean, abs_mean, mean_abs = (
        float(OPL(C, gamma=1, negative=negative)(logits, features, targets))
        for negative in ("mean", "abs_mean", "mean_abs")
    )
    assert mean <= abs_mean < mean_abs - 0.2


def test_opl_without_positive_pairs_has_no_similarity():
    features = normal(3, D).requires_grad_()
    logits = torch.zeros(3, 3, dtype=torch.float64)
    value = OPL(3, gamma=0)(logits, features, torch.arange(3))
    torch.testing.assert_close(value, torch.tensor(math.log(3) + 1).double())
    assert float(torch.autograd.grad(value, features)[0].abs().max()) == 0
