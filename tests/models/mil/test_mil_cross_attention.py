"""One query's attention without keys and values, against the usual computation with them."""

import bag_oracle
import torch

from ncmi.models.mil import Bags, CrossAttentionMIL


def network():
    model = CrossAttentionMIL(5, 6, num_heads=3).double().eval()
    torch.nn.init.normal_(model.block.query)  # its start is so small that a wrong product with it would not show
    return model


def test_against_a_loop():
    model, bag = network(), torch.randn(4, 5, dtype=torch.float64)
    hidden = [bag_oracle.relu(bag_oracle.linear(model.projection, row)) for row in bag.tolist()]
    answer, logits = bag_oracle.query_attention(model.block, hidden)
    output = model(bag)
    torch.testing.assert_close(output.features, torch.tensor(answer, dtype=torch.float64), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(output.attention, torch.tensor(logits, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    assert torch.equal(model.attention_logits(bag, [4]), output.attention)


def test_packed_equals_padded_with_a_mask():
    model = network()
    bags = [torch.randn(length, 5, dtype=torch.float64) for length in (3, 7, 1)]
    rows, mask = bag_oracle.padded(bags)
    features, logits = bag_oracle.padded_query_attention(model.block, model.projection(rows).relu(), mask)
    features.sin().sum().backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    output = model(Bags.pack(bags))
    torch.testing.assert_close(output.features, features, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(output.attention, logits[mask], rtol=1e-12, atol=1e-12)
    output.features.sin().sum().backward()
    for name, parameter in model.named_parameters():
        other = torch.zeros_like(parameter) if expected[name] is None else expected[name]
        torch.testing.assert_close(parameter.grad, other, rtol=1e-11, atol=1e-12, msg=name)


def test_a_bag_leaves_little_behind():
    # No keys and values: per instance, its features, its projection and a few numbers for each head.
    model, bag = CrossAttentionMIL(64, 64), torch.randn(500, 64)
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(bag)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert sum(kept.values()) < 500 * (64 + 64 + 4 * 8) + 2 * parameters
