"""Schedules: closed forms, torch's own where it has one, and no state."""

import itertools

import pytest
import torch

from ncmi.training.config import ScheduleConfig
from ncmi.training.schedule import make_schedule


def factors(config, epochs=5, steps=7):
    factor = make_schedule(config, epochs, steps)
    return [factor(step) for step in range(epochs * steps)]


def torchs(kind, steps, **settings):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = kind(optimizer, **settings)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return seen


def test_constant():
    assert factors(ScheduleConfig("constant")) == [1.0] * 35


def test_step_falls_at_its_epochs():
    found = factors(ScheduleConfig("step", milestones=[4, 2], decay=0.2))
    assert found == pytest.approx([1.0] * 14 + [0.2] * 14 + [0.04] * 7)


def test_cosine_is_torchs():
    expected = torchs(torch.optim.lr_scheduler.CosineAnnealingLR, 35, T_max=35)
    assert factors(ScheduleConfig("cosine")) == pytest.approx(expected)


@pytest.mark.parametrize("rise", [0.3, 0.1, 0.5])
def test_one_cycle_is_torchs(rise):
    settings = {"max_lr": 1.0, "total_steps": 35, "pct_start": rise, "cycle_momentum": False}
    expected = torchs(torch.optim.lr_scheduler.OneCycleLR, 35, **settings)
    assert factors(ScheduleConfig("one-cycle", rise=rise)) == pytest.approx(expected)


def test_warm_up_rises_to_the_schedule_and_is_part_of_the_epochs():
    found = factors(ScheduleConfig("cosine", warmup_epochs=2))
    assert found[:14] == pytest.approx([(step + 1) / 15 for step in range(14)])
    assert found[14] == 1.0
    assert found[-1] < 0.02
    assert all(first > second for first, second in itertools.pairwise(found[14:]))


def test_a_warm_up_longer_than_the_run_is_refused():
    with pytest.raises(ValueError, match="warmup_epochs=5 must be less than the run's epochs, 5"):
        make_schedule(ScheduleConfig("cosine", warmup_epochs=5), 5, 7)


def test_one_cycle_has_no_warm_up():
    with pytest.raises(ValueError, match="one-cycle has a rise of its own"):
        make_schedule(ScheduleConfig("one-cycle", warmup_epochs=1), 5, 7)


def test_one_step_is_enough():
    for name in ("constant", "step", "cosine", "one-cycle"):
        assert factors(ScheduleConfig(name, milestones=[0.5]), epochs=1, steps=1)[0] > 0


@pytest.mark.parametrize("milestones", [[], [2, 5], [0]])
def test_a_step_that_never_comes_is_refused(milestones):
    with pytest.raises(ValueError, match="milestones between 0 and the run's epochs, 5"):
        make_schedule(ScheduleConfig("step", milestones=milestones), 5, 7)
