"""TransMIL against loops over tokens, written from the description of the model; what it keeps in memory."""

import math

import bag_oracle
import pytest
import torch

from ncmi.models.mil import Bags, TransMIL
from ncmi.models.mil.transmil import PyramidPositions


def positions_loop(layer, tokens):
    side = math.isqrt(len(tokens))
    out = [list(row) for row in tokens]
    for convolution in layer.convolutions:
        reach = convolution.kernel_size[0] // 2
        weights, biases = convolution.weight.tolist(), convolution.bias.tolist()
        for y in range(side):
            for x in range(side):
                for channel in range(len(tokens[0])):
                    total = biases[channel]
                    for dy in range(-reach, reach + 1):
                        for dx in range(-reach, reach + 1):
                            if 0 <= y + dy < side and 0 <= x + dx < side:
                                weight = weights[channel][0][dy + reach][dx + reach]
                                total += weight * tokens[(y + dy) * side + x + dx][channel]
                    out[y * side + x][channel] += total
    return out


def transmil_loop(model, bag):
    hidden = [bag_oracle.relu(bag_oracle.linear(model.projection, row)) for row in bag.tolist()]
    side = math.ceil(math.sqrt(len(hidden)))
    tokens = [model.class_token.tolist(), *hidden, *hidden[: side * side - len(hidden)]]

    def layer(part, tokens):
        update, logits = bag_oracle.nystrom_loop(
            part.attention, [bag_oracle.layer_norm(part.norm, row) for row in tokens]
        )
        return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(tokens, update, strict=True)], logits

    tokens, _ = layer(model.first, tokens)
    tokens = [tokens[0], *positions_loop(model.positions, tokens[1:])]
    tokens, logits = layer(model.second, tokens)
    return bag_oracle.layer_norm(model.norm, tokens[0]), logits[1 : len(hidden) + 1]


def close(found, expected):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-11)


def test_positions():
    layer, tokens = PyramidPositions(3).double(), torch.randn(16, 3, dtype=torch.float64)
    close(layer(tokens[None])[0], positions_loop(layer, tokens.tolist()))


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_against_a_loop(count):
    model, bag = TransMIL(5, 8, num_heads=2).double().eval(), torch.randn(count, 5, dtype=torch.float64)
    features, logits = transmil_loop(model, bag)
    output = model(bag)
    close(output.features, features)
    close(output.attention, logits)


def test_a_group_is_taken_together_where_sequences_are_equally_long():
    """8 landmarks: squares of 1, 2 and 4 instances make 8 tokens, 9 make 16, and 17 make 32."""
    model = TransMIL(5, 16, num_heads=2)
    sizes = [17, 4, 1, 9, 2, 4]
    assert list(model._equally_long(sizes)) == [[2, 1, 4, 5], [3], [0]]
    assert list(model._equally_long([4096] * 5)) == [[0], [1], [2], [3], [4]], "large bags one by one"


def test_gradients():
    model = TransMIL(3, 4, num_heads=2, dropout=0.0).double()
    bag = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: model(x)[:2], (bag,))


def test_the_order_of_the_instances_matters():
    model, bag = TransMIL(5, 8).eval(), torch.randn(9, 5)
    assert not torch.allclose(model(bag).features, model(bag.flip(0)).features, rtol=1e-3)


def step(model, bags):
    torch.manual_seed(3)
    model.zero_grad()
    output = model(bags)
    (output.features.sin().sum() + output.attention.sum()).backward()
    return output, [parameter.grad for parameter in model.parameters()]


def test_checkpointing_changes_nothing():
    bags = Bags.pack([torch.randn(length, 5) for length in (9, 4)])
    model = TransMIL(5, 16, dropout=0.3)
    plain = step(model, bags)
    model.checkpoint = True
    again = step(model, bags)
    for one, other in zip((*plain[0], *plain[1]), (*again[0], *again[1]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def kept(model, bag):
    """Numbers that a forward pass keeps for the backward pass, and the largest tensor among them."""
    sizes = {}

    def keep(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(bag)
    return sum(sizes.values()), max(sizes.values())


def test_memory():
    model, bag = TransMIL(32, 64), torch.randn(2400, 32)
    tokens = 2432  # 49² and the class token, padded to a multiple of 32
    total, largest = kept(model, bag)
    # Queries, keys and values are the largest; a kernel of 8 heads × tokens × 32 landmarks would be larger.
    assert largest == 3 * 64 * tokens
    model.checkpoint = True
    assert kept(model, bag)[0] < 0.4 * total
