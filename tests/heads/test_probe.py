"""LinearProbe: the exact fit is stationary and well regularised, the SGD fit agrees, and the model stays as it was."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ncmi import LinearProbe
from ncmi.heads import lbfgs, logistic

C, D, N = 5, 8, 200


def data(dtype=torch.float64):
    """Classes that overlap, coordinates that are correlated and of very different scale, one of them constant."""
    generator = torch.Generator().manual_seed(2)
    targets = torch.randint(C, (N,), generator=generator)
    means = torch.randn(C, D, generator=generator, dtype=torch.float64)
    features = means[targets] + torch.randn(N, D, generator=generator, dtype=torch.float64)
    features = features @ torch.randn(D, D, generator=generator, dtype=torch.float64) + 4
    features[:, 1] *= 1000
    features[:, 2] = 0.1
    return features.to(dtype), targets


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    features, targets = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(0))
    features, targets = features[order], targets[order]
    return (features[:1200], targets[:1200]), (features[1200:], targets[1200:])


def standardised(features):
    scale = features.std(dim=0, correction=0)
    return (features - features.mean(dim=0)) / torch.where(scale > 1e-6, scale, 1.0)


def stated_objective(probe, features, targets, weight_decay, normalize=False):
    """Mean cross-entropy plus λ/2 ‖W‖² with W on standardised features, and its gradient by autograd."""
    features = F.normalize(features, dim=1) if normalize else features
    scale = features.std(dim=0, correction=0)
    constant = scale <= 1e-6
    scale = torch.where(constant, 1.0, scale)
    weight = (probe.linear.weight * scale).detach().requires_grad_()
    bias = (probe.linear.bias + probe.linear.weight @ features.mean(dim=0)).detach().requires_grad_()
    value = F.cross_entropy(standardised(features) @ weight.T + bias, targets)
    value = value + 0.5 * weight_decay * weight.square().sum()
    return float(value.detach()), torch.autograd.grad(value, (weight, bias))


@pytest.mark.parametrize("weight_decay", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("normalize", [False, True])
def test_fit_is_the_stationary_point_of_the_stated_objective(weight_decay, normalize):
    features, targets = data()
    probe = LinearProbe(C, D, normalize=normalize).double().fit(features, targets, weight_decay)
    _, gradient = stated_objective(probe, features, targets, weight_decay, normalize)
    assert max(float(entry.abs().max()) for entry in gradient) < 1e-5
    assert probe.weight_decay_ == weight_decay


def test_fit_reaches_the_minimum_that_newton_steps_reach():
    features, targets = data()
    probe = LinearProbe(C, D).double().fit(features, targets, weight_decay=0.01)
    rows = standardised(features)

    def objective(flat):
        weight, bias = flat[: C * D].view(C, D), flat[C * D :]
        return F.cross_entropy(rows @ weight.T + bias, targets) + 0.005 * weight.square().sum()

    flat = torch.zeros(C * D + C, dtype=torch.float64)
    for _ in range(12):
        gradient = torch.autograd.functional.jacobian(objective, flat)
        # The biases may all rise together without an effect: one direction has no curvature.
        flat = flat - torch.linalg.pinv(torch.autograd.functional.hessian(objective, flat), hermitian=True) @ gradient
    assert stated_objective(probe, features, targets, 0.01)[0] == pytest.approx(float(objective(flat)), abs=1e-8)


def test_fewer_samples_than_coordinates():
    generator = torch.Generator().manual_seed(0)
    features, targets = torch.randn(12, 30, generator=generator, dtype=torch.float64), torch.arange(12) % 3
    probe = LinearProbe(3, 30).double().fit(features, targets, weight_decay=0.1)
    assert max(float(entry.abs().max()) for entry in stated_objective(probe, features, targets, 0.1)[1]) < 1e-5


def test_analytic_gradient_equals_autograd():
    features, targets = data()
    line = logistic.Line(torch.randn(C, D).double().requires_grad_(), torch.randn(C).double().requires_grad_())
    rows = standardised(features)
    value = F.cross_entropy(rows @ line.weight.T + line.bias, targets) + 0.15 * line.weight.square().sum()
    with torch.no_grad():
        found, gradient = logistic.objective(line, rows, targets, 0.3)
    torch.testing.assert_close(found, value.detach(), rtol=1e-12, atol=0)
    for mine, theirs in zip(gradient, torch.autograd.grad(value, line), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


def raw_digits():
    """Raw pixels in their given order: separable, and the last rows have other writers than the first."""
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images[:1200]), torch.tensor(labels[:1200])


@pytest.mark.parametrize(("make", "seed"), [(data, 7), (raw_digits, 0), (raw_digits, 1)])
def test_chosen_weight_decay_is_the_best_of_exact_fits_on_the_held_out_part(make, seed):
    features, targets = make()
    classes, width = int(targets.max()) + 1, features.shape[1]
    probe = LinearProbe(classes, width).double().fit(features, targets, seed=seed)
    held_out = logistic.held_out_rows(targets, seed=seed)
    # Scaled with all data, as in the fit; sklearn's C is 1/(N·λ). Newton's method is exact where L-BFGS could stop early.
    rows = standardised(features)
    model = LogisticRegression(solver="newton-cg", tol=1e-8, max_iter=1000, warm_start=True)
    losses = {}
    for weight_decay in logistic.WEIGHT_DECAYS:
        model.set_params(C=1 / (weight_decay * int((~held_out).sum())))
        model.fit(rows[~held_out].numpy(), targets[~held_out].numpy())
        log_probs = torch.from_numpy(model.predict_log_proba(rows[held_out].numpy()))
        losses[weight_decay] = float(F.nll_loss(log_probs, targets[held_out]))
    assert probe.weight_decay_ == min(losses, key=lambda weight_decay: losses[weight_decay])
    assert probe.weight_decay_ not in (max(losses), min(losses))
    refitted = LinearProbe(classes, width).double().fit(features, targets, probe.weight_decay_)
    values = [stated_objective(fitted, features, targets, probe.weight_decay_)[0] for fitted in (probe, refitted)]
    assert values[0] == pytest.approx(values[1], abs=1e-7)


def test_a_large_direction_without_classes_does_not_hide_the_small_ones():
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(400) % 4
    informative = torch.randn(4, 10, generator=generator)[targets] + 0.1 * torch.randn(400, 10, generator=generator)
    nuisance = torch.randn(400, 1, generator=generator) @ torch.randn(1, 10, generator=generator)
    features = nuisance + 1e-3 * informative
    assert LinearProbe(4, 10).fit(features, targets).score(features, targets) > 0.95


def test_held_out_part_is_stratified_and_seeded():
    targets = torch.tensor([0] * 50 + [1] * 10 + [2] * 2 + [3])
    mask = logistic.held_out_rows(targets, seed=0)
    assert [int(mask[targets == y].sum()) for y in range(4)] == [10, 2, 1, 0]
    assert torch.equal(mask, logistic.held_out_rows(targets, seed=0))
    assert not torch.equal(mask, logistic.held_out_rows(targets, seed=1))


def test_same_seed_gives_the_same_probe():
    features, targets = data(torch.float32)
    torch.manual_seed(1)
    first = LinearProbe(C, D).fit(features, targets)
    torch.manual_seed(2)
    second = LinearProbe(C, D).fit(features, targets)
    assert torch.equal(first.linear.weight, second.linear.weight)


def test_as_accurate_as_sklearn_on_digits(digits):
    (features, targets), test = digits
    probe = LinearProbe(10, 64).fit(features, targets)
    model = LogisticRegression(max_iter=5000).fit(features.numpy(), targets.numpy())
    assert probe.score(*test) == pytest.approx(model.score(*(part.numpy() for part in test)), abs=0.01)
    assert probe.score(*test) > 0.95


def test_sgd_on_digits_is_close_to_the_exact_fit(digits):
    (features, targets), test = digits
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(features, targets), batch_size=256, shuffle=True)
    probe = LinearProbe(10, 64).fit_sgd(nn.Identity(), loader)
    assert probe.score(*test) == pytest.approx(LinearProbe(10, 64).fit(features, targets).score(*test), abs=0.02)


def test_sgd_follows_the_schedule():
    features, targets = data(torch.float32)
    features = standardised(features)
    batches = [(features[:100], targets[:100]), (features[100:], targets[100:])]
    probe = LinearProbe(C, D).fit_sgd(nn.Identity(), batches, epochs=20, lr=0.3, weight_decay=0.01)
    reference = nn.Linear(D, C)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.zero_()
    momentum = [torch.zeros_like(parameter) for parameter in reference.parameters()]
    for epoch in range(20):
        rate = 0.3 * 0.2 ** ((epoch >= 12) + (epoch >= 15) + (epoch >= 18))
        for rows, labels in batches:
            loss = F.cross_entropy(reference(rows), labels)
            gradients = torch.autograd.grad(loss, tuple(reference.parameters()))
            with torch.no_grad():
                for parameter, gradient, velocity in zip(reference.parameters(), gradients, momentum, strict=True):
                    velocity.mul_(0.9).add_(gradient + 0.01 * parameter)
                    parameter.sub_(rate * velocity)
    torch.testing.assert_close(probe.linear.weight, reference.weight, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(probe.linear.bias, reference.bias, rtol=1e-4, atol=1e-6)


def test_sgd_leaves_the_model_as_it_was():
    features, targets = data(torch.float32)
    model = nn.Sequential(nn.BatchNorm1d(D), nn.Dropout(0.5), nn.BatchNorm1d(D), nn.Linear(D, 3))
    model[2].eval()
    before = copy.deepcopy(model.state_dict())
    for callable_model in (model, model.forward):
        probe = LinearProbe(C, 3).fit_sgd(callable_model, [(features, targets)], epochs=2)
        assert [module.training for module in model.modules()] == [True, True, True, False, True]
        assert all(parameter.grad is None for parameter in model.parameters())
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, before[name])
    with torch.no_grad():
        expected = LinearProbe(C, 3).fit_sgd(nn.Identity(), [(model.eval()(features), targets)], epochs=2)
    assert torch.equal(probe.linear.weight, expected.linear.weight)


def test_sgd_takes_soft_and_ignored_labels():
    features, targets = data(torch.float32)
    features = standardised(features)
    hard = LinearProbe(C, D).fit_sgd(nn.Identity(), [(features, targets)], epochs=3)
    soft = LinearProbe(C, D).fit_sgd(nn.Identity(), [(features, F.one_hot(targets, C).float())], epochs=3)
    torch.testing.assert_close(hard.linear.weight, soft.linear.weight)
    ignored = (features[:7], torch.full((7,), -100))
    also = LinearProbe(C, D).fit_sgd(nn.Identity(), [(features, targets), ignored], epochs=3)
    assert torch.equal(hard.linear.weight, also.linear.weight)


def test_normalized_probe_sees_directions_only():
    features, targets = data(torch.float32)
    probe = LinearProbe(C, D, normalize=True).fit(features, targets, weight_decay=0.01)
    torch.testing.assert_close(probe(features), probe(features * 7))


def test_state_dict_pickle_and_low_precision_inputs():
    features, targets = data(torch.float32)
    probe = LinearProbe(C, D).fit(features, targets, weight_decay=0.01)
    loaded = LinearProbe(C, D)
    loaded.load_state_dict(probe.state_dict())
    for twin in (loaded, pickle.loads(pickle.dumps(probe))):
        assert torch.equal(twin.predict(features), probe.predict(features))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert probe(features.bfloat16()).dtype == torch.float32
    assert "normalize=False" in repr(probe)


def test_a_fit_that_does_not_converge_warns(monkeypatch):
    monkeypatch.setattr(lbfgs, "_MAX_ITERATIONS", 2)
    with pytest.warns(UserWarning, match="L-BFGS ended with a gradient of"):
        LinearProbe(C, D).fit(*data(), weight_decay=1e-6)


def test_a_search_that_does_not_converge_warns(monkeypatch):
    monkeypatch.setattr(lbfgs, "_MAX_ITERATIONS", 2)
    with pytest.warns(UserWarning, match="L-BFGS ended with a gradient of") as record:
        LinearProbe(C, D).fit(*data())
    assert ["in the search" in str(warning.message) for warning in record] == [True, False]


@pytest.mark.parametrize("weight_decay", [0.0, -1.0, float("nan"), float("inf")])
def test_weight_decay_must_be_positive(weight_decay):
    with pytest.raises(ValueError, match="weight_decay must be positive"):
        LinearProbe(C, D).fit(*data(), weight_decay=weight_decay)


def test_wrong_data_are_sentences():
    features, targets = data()
    probe = LinearProbe(C, D)
    with pytest.raises(ValueError, match="Pass num_features=7"):
        probe.fit(features[:, :7], targets)
    with pytest.raises(ValueError, match=r"must lie in \[0, 4\]"):
        probe.fit(features, targets + 1)
    with pytest.raises(TypeError, match="got soft labels"):
        probe.fit(features, F.one_hot(targets, C).double())
    with pytest.raises(ValueError, match="no labelled sample"):
        probe.score(features[:0], targets[:0])
    with pytest.raises(ValueError, match="200 samples of 1"):
        probe.fit(features, torch.zeros_like(targets))
    with pytest.raises(ValueError, match="two or more of some class"):
        probe.fit(features[:3], torch.arange(3))
    assert probe.fit(features[:3], torch.arange(3), weight_decay=0.1).weight_decay_ == 0.1
    with pytest.raises(ValueError, match=f"Pass num_features={D}"):
        LinearProbe(D, C).fit(features, targets)
    with pytest.raises(ValueError, match="num_classes must be at least 2"):
        LinearProbe(1, D)


def test_wrong_sgd_settings_are_sentences():
    features, targets = data(torch.float32)
    probe = LinearProbe(C, D)
    for wrong in ({"epochs": 0}, {"lr": 0.0}):
        with pytest.raises(ValueError, match="epochs must be at least 1 and lr positive"):
            probe.fit_sgd(nn.Identity(), [(features, targets)], **wrong)
    with pytest.raises(ValueError, match="gave no labelled sample"):
        probe.fit_sgd(nn.Identity(), iter([(features, targets)]), epochs=2)
    with pytest.raises(RuntimeError, match="diverged at lr="):
        probe.fit_sgd(nn.Identity(), [(features, targets)], epochs=3, lr=1e38)
