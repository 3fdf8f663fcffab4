"""Nyström attention against loops over tokens, written from the description of the model."""

import bag_oracle
import pytest
import torch

from ncmi.models.mil.nystrom import NystromAttention, pseudoinverse


def close(found, expected):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-11)


def test_pseudoinverse():
    matrices = torch.randn(2, 4, 4, dtype=torch.float64).softmax(dim=-1)
    close(pseudoinverse(matrices), bag_oracle.inverse_loop(matrices.tolist()))
    # The start is common to all heads, so one head alone is another matter.
    alone = torch.cat([pseudoinverse(matrices[:1], steps=2), pseudoinverse(matrices[1:], steps=2)])
    assert not torch.allclose(pseudoinverse(matrices, steps=2), alone, rtol=1e-2)
    torch.testing.assert_close(pseudoinverse(matrices, steps=40) @ matrices, torch.eye(4).double().expand(2, 4, 4))


@pytest.mark.parametrize("count", [1, 3, 4, 10, 13])
def test_nystrom_attention(count):
    layer = NystromAttention(8, num_heads=2).double().eval()
    tokens = torch.randn(count, 8, dtype=torch.float64)
    found, logits = layer(tokens)
    expected, expected_logits = bag_oracle.nystrom_loop(layer, tokens.tolist())
    close(found, expected)
    close(logits, expected_logits)


def test_as_many_landmarks_as_tokens_give_the_full_attention():
    layer = NystromAttention(8, num_heads=2, num_landmarks=5).double().eval()
    torch.nn.init.zeros_(layer.convolution.weight)
    tokens = 2 * torch.randn(5, 8, dtype=torch.float64)
    q, k, v = layer.qkv(tokens).view(5, 3, 2, 4).permute(1, 2, 0, 3)
    found = layer._landmark_attention(q[None], k[None], v[None], 0.5)
    kernel = (q @ k.mT / 2).softmax(dim=-1)
    torch.testing.assert_close(found[0], kernel @ pseudoinverse(kernel) @ kernel @ v)
    logits = layer(tokens)[1]
    torch.testing.assert_close(logits.mT.softmax(dim=-1), kernel[:, 0])
