"""Softmax and means inside each bag, against loops."""

import math

import torch

from ncmi.models.mil.pooling import attention_mean, bag_sums, log_attention

SIZES = [3, 1, 5]


def test_each_bag_has_its_own_softmax():
    logits = torch.randn(9, 2, dtype=torch.float64) * 3
    found = log_attention(logits, SIZES)
    start = 0
    for size in SIZES:
        for head in range(2):
            scores = logits[start : start + size, head].tolist()
            total = math.log(sum(math.exp(score) for score in scores))
            expected = torch.tensor([score - total for score in scores], dtype=torch.float64)
            torch.testing.assert_close(found[start : start + size, head], expected, rtol=1e-13, atol=1e-13)
        start += size


def test_means_are_weighted_sums():
    logits, values = torch.randn(9, 2, dtype=torch.float64), torch.randn(9, 4, dtype=torch.float64)
    weights, found = log_attention(logits, SIZES).exp(), attention_mean(logits, values, SIZES)
    assert found.shape == (3, 2, 4)
    start = 0
    for bag, size in enumerate(SIZES):
        for head in range(2):
            expected = sum(weights[place, head] * values[place] for place in range(start, start + size))
            torch.testing.assert_close(found[bag, head], expected, rtol=1e-13, atol=1e-13)
        start += size


def test_gradients():
    logits = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    values = torch.randn(9, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *x: attention_mean(*x, SIZES), (logits, values))
    assert torch.autograd.gradcheck(lambda x: bag_sums(log_attention(x, SIZES).exp()[:, 0] ** 2, SIZES), (logits,))


def test_large_bags_stay_exact():
    logits, values = torch.randn(100_000, 2) * 0.1, torch.rand(100_000, 3)
    expected = logits.double().softmax(dim=0).mT @ values.double()
    torch.testing.assert_close(attention_mean(logits, values, [100_000])[0].double(), expected, rtol=1e-5, atol=0)
    expected = logits.double().log_softmax(dim=0)
    torch.testing.assert_close(log_attention(logits, [100_000]).double(), expected, rtol=0, atol=3e-6)


def test_half_precision_weights_do_not_vanish():
    # A weight of 1 / 100,000 is below float16's smallest normal number, 6e-5.
    logits, values = (torch.rand(100_000, width).half() for width in (1, 2))
    with torch.autocast("cpu", dtype=torch.float16):
        mean = attention_mean(logits, values, [100_000])
    assert mean.dtype == torch.float32
    expected = logits.double().softmax(dim=0).mT @ values.double()
    torch.testing.assert_close(mean[0].double(), expected, rtol=1e-5, atol=0)


def test_huge_logits():
    logits = torch.tensor([[1e30], [-1e30], [0.0]])
    assert torch.equal(attention_mean(logits, torch.eye(3), [3])[0], torch.tensor([[1.0, 0.0, 0.0]]))
