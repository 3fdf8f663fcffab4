import oracle
import pytest
import torch
from batches import hard_labels, soft_labels

from ncmi.weighting import Weighting

C = 3
HARD = torch.tensor([0, 2, 2, 0, 0, 1])
SOFT = soft_labels(6, C)


def mass(weighting, targets):
    """What the weighting gives each (sample, class), whatever form it hands it over in."""
    result = weighting(targets, torch.float64)
    rows = result.targets if result.targets.is_floating_point() else oracle.one_hot(result.targets, C)
    return rows if result.weight is None else rows * result.weight[:, None]


def total(weighting, targets):
    return float(weighting(targets, torch.float64).total)


@pytest.mark.parametrize("targets", [HARD, SOFT], ids=["hard", "soft"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight": torch.tensor([0.5, 2.0, 0.0])},
        {"prior": torch.tensor([0.5, 0.25, 0.25])},
        {"prior": torch.tensor([2.0, 1.0, 1.0])},
    ],
    ids=["plain", "weight", "prior", "unnormalised prior"],
)
def test_mass_and_total_equal_the_definition(targets, settings):
    options = {name: value.double() / (value.sum() if name == "prior" else 1) for name, value in settings.items()}
    expected, expected_total = oracle.label_mass(targets, C, **options)
    weighting = Weighting(C, **settings)
    torch.testing.assert_close(mass(weighting, targets), expected, rtol=0, atol=1e-12)
    assert total(weighting, targets) == pytest.approx(float(expected_total), abs=1e-12)


@pytest.mark.parametrize("targets", [HARD, SOFT], ids=["hard", "soft"])
def test_uniform_prior_is_exact_in_float64(targets):
    expected, expected_total = oracle.label_mass(targets, C, prior=torch.full((C,), 1 / 3, dtype=torch.float64))
    weighting = Weighting(C, prior="uniform").double()
    torch.testing.assert_close(mass(weighting, targets), expected, rtol=0, atol=1e-10)
    assert total(weighting, targets) == pytest.approx(float(expected_total), abs=1e-10)


def test_prior_makes_present_classes_count_as_if_drawn_with_it():
    prior = torch.tensor([0.2, 0.5, 0.3])
    counted = mass(Weighting(C, prior=prior), HARD).sum(dim=0)
    torch.testing.assert_close(counted / counted.sum(), prior.double(), rtol=0, atol=1e-6)
    absent = mass(Weighting(C, prior=prior), torch.tensor([0, 0, 2])).sum(dim=0)
    torch.testing.assert_close(absent / absent.sum(), torch.tensor([0.4, 0.0, 0.6]).double(), rtol=0, atol=1e-6)


def test_ignored_samples_count_nothing():
    targets = torch.tensor([0, -100, 2, 1, -100])
    result = Weighting(C)(targets, torch.float64)
    assert result.valid is not None
    assert result.valid.tolist() == [True, False, True, True, False]
    assert float(result.total) == 3
    counted = mass(Weighting(C, weight=torch.tensor([1.0, 2.0, 4.0])), targets)
    assert counted.sum(dim=1).tolist() == [1, 0, 4, 2, 0]
    # An ignored label that is a class of its own: class 0 is left out.
    assert mass(Weighting(C, ignore_index=0), HARD).sum(dim=0).tolist() == [0, 1, 2]
    prior = mass(Weighting(C, prior=torch.tensor([0.5, 0.25, 0.25])), targets)
    assert prior.sum(dim=0).tolist() == pytest.approx([1.5, 0.75, 0.75])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_any_integer_type_is_a_label(dtype):
    assert torch.equal(mass(Weighting(C), HARD.to(dtype)), mass(Weighting(C), HARD))


@pytest.mark.parametrize(
    ("targets", "settings"),
    [
        (torch.tensor([-100, -100]), {}),
        (torch.tensor([1, 1]), {"weight": torch.tensor([1.0, 0.0, 1.0])}),
        (torch.tensor([1, 1]), {"prior": torch.tensor([0.5, 0.0, 0.5])}),
        (torch.empty(0, dtype=torch.long), {}),
        (torch.empty(0, C), {}),
    ],
)
def test_a_batch_without_weight_gets_a_sentence(targets, settings):
    with pytest.raises(ValueError, match=r"no sample with a positive weight .* Skip such a batch"):
        Weighting(C, **settings)(targets, torch.float32)


def test_bad_settings_get_a_sentence():
    with pytest.raises(ValueError, match=r"weight must have shape \(3,\), one number a class; got \(2,\)"):
        Weighting(C, weight=torch.ones(2))
    with pytest.raises(ValueError, match=r"prior must be finite and not negative; got a smallest value of -1"):
        Weighting(C, prior=torch.tensor([1.0, 1.0, -1.0]))
    with pytest.raises(ValueError, match=r"weight must be finite"):
        Weighting(C, weight=torch.tensor([1.0, float("nan"), 1.0]))
    with pytest.raises(ValueError, match=r"give weight or prior, not both"):
        Weighting(C, weight=torch.ones(C), prior="uniform")
    with pytest.raises(ValueError, match=r"some class a positive probability"):
        Weighting(C, prior=torch.zeros(C))
    with pytest.raises(ValueError, match=r"got 'unifrom'\. Did you mean 'uniform'"):
        Weighting(C, prior="unifrom")  # pyright: ignore[reportArgumentType]


def test_the_users_tensors_are_not_changed():
    prior, weight, targets = torch.tensor([2.0, 1.0, 1.0]), torch.ones(C), hard_labels(5, C)
    kept = prior.clone(), weight.clone(), targets.clone()
    Weighting(C, prior=prior)(targets, torch.float32)
    Weighting(C, weight=weight)(targets, torch.float32)
    assert all(torch.equal(a, b) for a, b in zip((prior, weight, targets), kept, strict=True))
