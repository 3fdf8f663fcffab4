"""Nyström attention against loops over tokens, written from the description of the model."""

import bag_oracle
import pytest
import torch

from ncmi.models.mil.nystrom import NystromAttention, apply_pseudoinverse, pseudoinverse


def close(found, expected):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-11)


def test_pseudoinverse():
    matrices = torch.randn(2, 4, 4, dtype=torch.float64).softmax(dim=-1)
    close(pseudoinverse(matrices), bag_oracle.inverse_loop(matrices.tolist()))
    # The start is common to all heads, so one head alone is another matter.
    alone = torch.cat([pseudoinverse(matrices[:1], steps=2), pseudoinverse(matrices[1:], steps=2)])
    assert not torch.allclose(pseudoinverse(matrices, steps=2), alone, rtol=1e-2)
    torch.testing.assert_close(pseudoinverse(matrices, steps=40) @ matrices, torch.eye(4).double().expand(2, 4, 4))


@pytest.mark.parametrize("equal", [1, 2, 5, 6])
def test_equal_landmarks_count_once(equal):
    """As of padding: the first rows of the matrix are the same, its first columns, and the first values."""
    logits = torch.randn(3, 2, 6, 6, dtype=torch.float64)
    values = torch.randn(3, 2, 6, 4, dtype=torch.float64)
    logits[..., :equal, :], logits[..., :equal], values[..., :equal, :] = 0, 0, values[..., :1, :]
    matrices = logits.softmax(dim=-1)
    expected = [pseudoinverse(matrix) @ value for matrix, value in zip(matrices, values, strict=True)]
    torch.testing.assert_close(
        apply_pseudoinverse(matrices, values, equal), torch.stack(expected), rtol=1e-11, atol=1e-12
    )


def alone(layer, tokens):
    """What the layer makes of one sequence (n, D), without its padding."""
    padding = layer.padding(len(tokens))
    found, logits = layer(torch.nn.functional.pad(tokens, (0, 0, padding, 0))[None], [padding])
    return found[0, padding:], logits[0, padding:]


def test_sequences_of_one_length_go_together_and_what_is_left_of_them_counts_as_zero():
    layer = NystromAttention(8, num_heads=2).double().eval()
    sequences = [torch.randn(count, 8, dtype=torch.float64) for count in (5, 5, 6, 8)]
    junk = [torch.cat([torch.randn(8 - len(tokens), 8, dtype=torch.float64), tokens]) for tokens in sequences]
    starts = [8 - len(tokens) for tokens in sequences]
    found, logits = layer(torch.stack(junk), starts)
    for place, (tokens, start) in enumerate(zip(sequences, starts, strict=True)):
        for one, other in zip((found[place, start:], logits[place, start:]), alone(layer, tokens), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("count", [1, 3, 4, 10, 13])
def test_nystrom_attention(count):
    layer = NystromAttention(8, num_heads=2).double().eval()
    tokens = torch.randn(count, 8, dtype=torch.float64)
    found, logits = alone(layer, tokens)
    expected, expected_logits = bag_oracle.nystrom_loop(layer, tokens.tolist())
    close(found, expected)
    close(logits, expected_logits)


def test_as_many_landmarks_as_tokens_give_the_full_attention():
    layer = NystromAttention(8, num_heads=2, num_landmarks=5).double().eval()
    torch.nn.init.zeros_(layer.convolution.weight)
    tokens = 2 * torch.randn(5, 8, dtype=torch.float64)
    q, k, v = layer.qkv(tokens).view(5, 3, 2, 4).permute(1, 2, 0, 3)
    found = layer._landmark_attention(q[None], k[None], v[None], 0.5, [0])
    kernel = (q @ k.mT / 2).softmax(dim=-1)
    torch.testing.assert_close(found[0], kernel @ pseudoinverse(kernel) @ kernel @ v)
    logits = alone(layer, tokens)[1]
    torch.testing.assert_close(logits.mT.softmax(dim=-1), kernel[:, 0])
