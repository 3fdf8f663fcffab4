"""Optimiser steps are counted, forward passes are not."""

import copy

import torch
from torch import nn

from ncmi.models.mil.updates import UpdateCounter


def change(layer, size=1e-4):
    with torch.no_grad():
        layer.weight.add_(torch.randn_like(layer.weight).sign() * size)


def test_steps_are_counted_once():
    layer = nn.Linear(64, 64)
    counter = UpdateCounter(layer)
    assert not counter(layer)
    for number in range(1, 4):
        change(layer)
        assert counter(layer)
        assert not counter(layer)
        assert int(counter.steps) == number


def test_steps_of_the_end_of_a_cosine_are_seen():
    layer = nn.Linear(256, 256)
    counter = UpdateCounter(layer)
    counter(layer)
    change(layer, 1e-7)
    assert counter(layer)


def test_optimisers_that_write_past_autograd_are_seen():
    layer = nn.Linear(8, 8)
    counter = UpdateCounter(layer)
    counter(layer)
    layer.bias.detach().mul_(2)
    assert counter(layer)


def test_evaluation_counts_nothing():
    layer = nn.Linear(8, 8)
    counter = UpdateCounter(layer)
    counter(layer)
    change(layer)
    assert not counter.eval()(layer)
    assert int(counter.steps) == 0
    assert counter.train()(layer)


def test_a_resumed_counter_counts_on():
    layer = nn.Linear(8, 8)
    counter = UpdateCounter(layer)
    counter(layer)
    change(layer)
    counter(layer)
    other = UpdateCounter(layer)
    other.load_state_dict(copy.deepcopy(counter.state_dict()))
    assert not other(layer)
    change(layer)
    assert other(layer)
    assert int(other.steps) == 2


def test_half_precision_does_not_reach_the_sums():
    layer = nn.Linear(64, 64)
    counter = UpdateCounter(layer).bfloat16()
    assert counter.sums.dtype == torch.float32
    counter(layer.bfloat16())
    assert not counter(layer)
    change(layer, 1e-2)
    assert counter(layer)


def test_a_module_without_parameters():
    module = nn.Identity()
    assert not UpdateCounter(module)(module)
