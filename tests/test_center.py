import pytest
import torch
from batches import normal

from ncmi import NCMILoss
from ncmi.center import CENTERS, BatchCenter, EMACenter, NoCenter, PrintedCenter, make_center
from ncmi.functional import feature_point

D = 5


def batches(steps=6, size=4):
    return [normal(size + step % 3, D, seed=step) + 2 for step in range(steps)]


def test_debiased_average_equals_the_loop():
    center, momentum = EMACenter(D, momentum=0.8).double(), 0.8
    average = torch.zeros(D).double()
    for step, features in enumerate(batches()):
        expected = features.mean(dim=0) if step == 0 else average / (1 - momentum**step)
        torch.testing.assert_close(center(features), expected, rtol=0, atol=1e-12)
        average = momentum * average + (1 - momentum) * features.mean(dim=0)
        torch.testing.assert_close(center.mean, average / (1 - momentum ** (step + 1)), rtol=0, atol=1e-12)


def test_first_batch_average_equals_the_loop():
    center = EMACenter(D, momentum=0.8, start="first_batch").double()
    average = None
    for features in batches():
        mean = features.mean(dim=0)
        torch.testing.assert_close(center(features), mean if average is None else average, rtol=0, atol=1e-12)
        average = mean if average is None else 0.8 * average + 0.2 * mean
        torch.testing.assert_close(center.mean, average, rtol=0, atol=1e-12)


def test_printed_average_equals_algorithm_1():
    center = PrintedCenter(D, momentum=0.8).double()
    c = torch.zeros(D).double()
    for features in batches():
        torch.testing.assert_close(center(features), c, rtol=0, atol=1e-12)
        c = 0.8 * c + 0.2 * (features - c).mean(dim=0)


def test_printed_average_settles_at_half_the_mean():
    center, mean = PrintedCenter(D, momentum=0.9).double(), torch.linspace(-3, 4, D).double()
    for _ in range(200):
        center(mean.expand(2, D))
    torch.testing.assert_close(center.mean, mean / 2, rtol=1e-10, atol=1e-10)


def test_raw_average_settles_at_the_mean():
    center, mean = EMACenter(D, momentum=0.9).double(), torch.linspace(-3, 4, D).double()
    for _ in range(200):
        center(mean.expand(2, D))
    torch.testing.assert_close(center.mean, mean, rtol=1e-10, atol=1e-10)


def test_long_memory_keeps_float32_exact_enough():
    # 0.999999 remembers a million steps: 1 − mᵗ must not be formed from rounded powers.
    center = EMACenter(D, momentum=0.999999)
    means = [normal(D, seed=step) + 1 for step in range(300)]
    for mean in means:
        center(mean.float().expand(2, D))
    torch.testing.assert_close(center.mean.double(), torch.stack(means).mean(dim=0), rtol=0, atol=1e-4)


def test_batch_center_is_the_batch_in_training_and_the_average_in_evaluation():
    center, reference = BatchCenter(D, momentum=0.8).double(), EMACenter(D, momentum=0.8).double()
    for features in batches():
        torch.testing.assert_close(center(features), features.mean(dim=0))
        reference(features)
    torch.testing.assert_close(center.mean, reference.mean)
    center.eval()
    torch.testing.assert_close(center(batches()[0]), reference.mean)


def test_a_lone_sample_under_batch_center_uses_the_average():
    center = BatchCenter(D).double()
    assert torch.equal(center(normal(1, D)), torch.zeros(D).double())
    before = center.mean.clone()
    torch.testing.assert_close(center(normal(1, D, seed=1)), before)


@pytest.mark.parametrize("start", ["debiased", "first_batch"])
def test_a_lone_first_sample_is_not_its_own_center(start):
    center, feature = EMACenter(D, start=start).double(), normal(1, D)
    assert torch.equal(center(feature), torch.zeros(D).double())
    torch.testing.assert_close(center.mean, feature[0])


def test_a_lone_first_sample_trains_the_network():
    features = normal(1, D).requires_grad_()
    NCMILoss(3, D).double()(features, torch.tensor([1])).backward()
    assert features.grad is not None
    assert float(features.grad.abs().max()) > 0


@pytest.mark.parametrize("kind", [EMACenter, BatchCenter, PrintedCenter])
def test_center_moves_in_training_only_and_has_no_gradient(kind):
    center = kind(D).double()
    features = normal(6, D).requires_grad_()
    assert not center(features).requires_grad
    state = {name: value.clone() for name, value in center.state_dict().items()}
    center.eval()
    assert not center(features).requires_grad
    assert all(torch.equal(value, state[name]) for name, value in center.state_dict().items())
    center.train()
    center(features + 1)
    assert not torch.equal(center.mean, state["mean"])


def test_center_of_a_step_is_not_changed_by_that_step():
    for name in ("ema", "batch", "printed"):
        center = make_center(name, D).double()
        center(normal(4, D))
        returned = center(normal(4, D, seed=1))
        kept = returned.clone()
        center(normal(4, D, seed=2) + 5)
        assert torch.equal(returned, kept)


def test_invalid_rows_do_not_count():
    features, valid = normal(6, D), torch.tensor([True, False, True, True, False, True])
    masked, plain = EMACenter(D).double(), EMACenter(D).double()
    torch.testing.assert_close(masked(features, valid), plain(features[valid]))
    torch.testing.assert_close(masked.mean, plain.mean)


def test_one_valid_row_in_the_first_batch_is_not_its_own_center():
    center = EMACenter(D).double()
    assert torch.equal(center(normal(2, D), torch.tensor([False, True])), torch.zeros(D).double())


def test_set_mean_starts_from_a_known_mean():
    center, mean = EMACenter(D, momentum=0.5).double(), normal(D, seed=9)
    center.set_mean(mean)
    features = normal(4, D)
    torch.testing.assert_close(center(features), mean)
    torch.testing.assert_close(center.mean, (mean + features.mean(dim=0)) / 2)


def test_no_center_subtracts_nothing():
    assert NoCenter()(normal(3, D)) is None
    loss = NCMILoss(3, D, center="none").double()
    torch.testing.assert_close(tuple(loss.points(normal(3, D))), tuple(feature_point(normal(3, D))))


def test_names_stand_for_their_modules():
    assert {name: type(make_center(name, D)) for name in CENTERS} == CENTERS


def test_bad_settings_get_a_sentence():
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\); got 1"):
        EMACenter(D, momentum=1.0)
    with pytest.raises(ValueError, match=r"PrintedCenter: momentum"):
        PrintedCenter(D, momentum=-0.1)
    with pytest.raises(ValueError, match=r"got 'debaised'\. Did you mean 'debiased'"):
        EMACenter(D, start="debaised")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"got 'bach'\. Did you mean 'batch'"):
        NCMILoss(3, D, center="bach")
