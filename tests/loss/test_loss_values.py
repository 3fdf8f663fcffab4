"""Value and gradient of the loss against the oracle, for every objective and every way to weigh samples."""

import oracle
import pytest
import torch
from batches import OBJECTIVES, hard_labels, normal, soft_labels
from torch.autograd import gradcheck

from ncmi import NCMILoss
from ncmi.centroids import LearnedCentroids

B, C, D = 8, 4, 6
IGNORED = hard_labels(B, C)
IGNORED[[2, 5]] = -100
LABELS = {"hard": hard_labels(B, C), "soft": soft_labels(B, C), "ignored": IGNORED}
SETTINGS = {
    "batch": {},
    "uniform": {"prior": "uniform"},
    "given": {"prior": torch.tensor([0.5, 0.125, 0.25, 0.125])},
    "weight": {"weight": torch.tensor([0.5, 2.0, 1.25, 0.75])},
}


def make(objective, num_classes=C, **settings):
    """A float64 loss with centroids near the uniform distribution, where every denominator is positive."""
    loss = NCMILoss(num_classes, D, objective, **settings).double()
    with torch.no_grad():
        loss.centroids.xi.copy_(0.5 * normal(num_classes, D, seed=7))
    return loss


def expectation(objective, features, targets, xi, settings, **options):
    chosen = {name: value.double() for name, value in settings.items() if isinstance(value, torch.Tensor)}
    if settings.get("prior") == "uniform":
        chosen["prior"] = torch.full((len(xi),), 1 / len(xi), dtype=torch.float64)
    center = oracle.batch_center(features, targets)
    return oracle.loss(objective, features, targets, xi, center=center, **chosen, **options)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_value_and_gradients_equal_the_oracle(objective, labels, settings):
    features, targets = normal(B, D).requires_grad_(), LABELS[labels]
    loss = make(objective, **SETTINGS[settings])
    xi = loss.centroids.xi.detach().clone().requires_grad_()
    expected = expectation(objective, features, targets, xi, SETTINGS[settings])
    expected_gradients = torch.autograd.grad(expected, (features, xi))
    value = loss(features, targets)
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-10)
    gradients = torch.autograd.grad(value, (features, loss.centroids.xi))
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-8, atol=1e-8)
    assert all(float(gradient.abs().max()) > 1e-4 for gradient in gradients)
    assert int(loss.fallback_steps) == 0


@pytest.mark.parametrize("simplex", ["nsf", "softmax"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_evaluation_uses_the_centre_as_it_stands(objective, simplex):
    loss = make(objective, simplex=simplex, temperature=0.5)
    center = 0.2 * normal(D, seed=3)
    loss.center.set_mean(center)
    loss.eval()
    features, targets = normal(B, D), LABELS["hard"]
    options = {"center": center, "temperature": 0.5, "simplex": getattr(oracle, simplex)}
    expected = oracle.loss(objective, features, targets, loss.centroids.xi.detach(), **options)
    torch.testing.assert_close(loss(features, targets).detach(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("labels", ["hard", "soft"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradcheck(objective, labels):
    features = normal(B, D).requires_grad_()
    loss = make(objective).eval()  # the centre stays at zero, so the loss is a function of its arguments alone

    def value(f, xi):
        return torch.func.functional_call(loss, {"centroids.xi": xi}, (f, LABELS[labels]))

    assert gradcheck(value, (features, loss.centroids.xi))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("settings", ["batch", "weight"])
def test_more_classes_than_samples(objective, settings):
    # Only the classes of the batch get a row; the numbers must be those of the plain computation.
    num_classes, targets = 30, torch.tensor([4, 29, 4, 0, 17, 29, 29, 4])
    options = {} if settings == "batch" else {"weight": torch.linspace(0.5, 2, num_classes)}
    loss = make(objective, num_classes, **options)
    features = normal(B, D).requires_grad_()
    xi = loss.centroids.xi.detach().clone().requires_grad_()
    expected = expectation(objective, features, targets, xi, options)
    value = loss(features, targets)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)
    found = torch.autograd.grad(value, (features, loss.centroids.xi))
    torch.testing.assert_close(found, torch.autograd.grad(expected, (features, xi)), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("objective", ["theorem1", "centroid"])
def test_absent_classes_cost_nothing_and_change_nothing(objective):
    few, many = make(objective), make(objective, 100)
    with torch.no_grad():
        many.centroids.xi[:C].copy_(few.centroids.xi)
    features, targets = normal(B, D), LABELS["hard"]
    torch.testing.assert_close(few(features, targets), many(features, targets), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("objective", ["released", "harmonic", "rivals"])
def test_reductions(objective, settings, labels):
    features, targets = normal(B, D), LABELS[labels]
    for reduction in ("none", "sum"):
        loss = make(objective, reduction=reduction, **SETTINGS[settings])
        xi = loss.centroids.xi.detach()
        expected = expectation(objective, features, targets, xi, SETTINGS[settings], reduction=reduction)
        assert expected.shape == ((B,) if reduction == "none" else ())
        torch.testing.assert_close(loss(features, targets).detach(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("objective", ["theorem1", "centroid"])
def test_ratios_have_no_other_reduction(objective):
    for reduction in ("none", "sum"):
        with pytest.raises(
            ValueError,
            match=r"needs an objective with a number for each sample \('rivals', 'harmonic' or 'released'\)",
        ):
            NCMILoss(C, D, objective, reduction=reduction)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_one_hot_labels_equal_class_indices(objective, settings):
    # Class weights apart: nn.CrossEntropyLoss divides by the weights' sum or by the batch size, and so do we.
    features, hard = normal(B, D).requires_grad_(), LABELS["hard"]
    results = []
    for targets in (hard, oracle.one_hot(hard, C)):
        loss = make(objective, **SETTINGS[settings])
        value = loss(features, targets)
        if settings == "weight" and targets is hard and objective in ("released", "harmonic", "rivals"):
            value = value * loss.weighting.weight[hard].sum() / B
        results.append((value, *torch.autograd.grad(value, (features, loss.centroids.xi))))
    torch.testing.assert_close(results[0], results[1], rtol=1e-10, atol=1e-12)


def test_harmonic_weighs_like_cross_entropy():
    # The loss is cross-entropy on −k ln D, so torch's own criterion with the same settings must agree.
    features, loss = normal(B, D), make("harmonic", weight=SETTINGS["weight"]["weight"], center="none")
    p, q = oracle.points(features), [oracle.nsf(row) for row in loss.centroids.xi.detach()]
    logits = torch.stack([torch.stack([-8 * oracle.kl(a, b).log() for b in q]) for a in p])
    criterion = torch.nn.CrossEntropyLoss(weight=SETTINGS["weight"]["weight"].double())
    for targets in LABELS.values():
        torch.testing.assert_close(loss(features, targets).detach(), criterion(logits, targets), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_any_integer_type_is_a_label(dtype):
    features, targets = normal(200, D), torch.arange(200)
    loss = make("theorem1", 200)
    torch.testing.assert_close(loss(features, targets.to(dtype)), make("theorem1", 200)(features, targets))
    # −100 is 156 as an unsigned byte: label 156 must not pass for an ignored one.
    torch.testing.assert_close(tuple(loss.measure(features, targets.to(dtype))), tuple(loss.measure(features, targets)))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_ignored_samples_are_as_if_absent(objective):
    features, keep = normal(B, D), IGNORED >= 0
    with_ignored, without = make(objective), make(objective)
    torch.testing.assert_close(with_ignored(features, IGNORED), without(features[keep], IGNORED[keep]))
    torch.testing.assert_close(with_ignored.state_dict(), without.state_dict())


def test_order_of_the_samples_does_not_matter():
    order = torch.randperm(B)
    for objective in OBJECTIVES:
        features, targets = normal(B, D), LABELS["hard"]
        torch.testing.assert_close(
            make(objective)(features, targets), make(objective)(features[order], targets[order]), rtol=1e-12, atol=1e-12
        )


def test_measure_is_ncmi_of_the_batch_and_changes_nothing():
    loss = make("harmonic")
    loss.center.set_mean(0.1 * normal(D, seed=2))
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    features, keep = normal(B, D), IGNORED >= 0
    p = torch.stack(oracle.points(features[keep], loss.center.mean))
    mass = oracle.one_hot(IGNORED[keep], C)
    expected = oracle.cmi(p, mass), oracle.gamma(p, mass)
    terms = loss.measure(features, IGNORED)
    torch.testing.assert_close(tuple(terms), (*expected, expected[0] / expected[1]), rtol=1e-10, atol=1e-10)
    assert all(torch.equal(value, before[name]) for name, value in loss.state_dict().items())


def test_sparse_centroids_give_the_same_loss():
    targets = torch.tensor([4, 29, 4, 0, 17, 29, 29, 4])
    dense = make("theorem1", 30)
    sparse = make("theorem1", 30, centroids=LearnedCentroids(30, D, sparse=True))
    torch.testing.assert_close(dense(normal(B, D), targets), sparse(normal(B, D), targets))
