"""What training asks of every bag model: one bag, groups, gradients, precisions, state."""

import copy
import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ncmi.models.mil import BagModel, BagOutput, Bags, create_bag_model, list_bag_models

SMALL = {name: {} if "clam" in name else {"num_features": 16} for name in list_bag_models()}
SMALL["asmil"] = {"num_features": 16, "num_tokens": 3, "num_dropped": 1}
# A constant added to all logits, and the projection of a query that starts at zero.
WITHOUT_EFFECT = ("score.bias", "key_projection.bias", "summary.query_projection.weight")
LENGTHS = (5, 1, 9, 12)


def model(name, in_features=6):
    torch.manual_seed(1)
    return create_bag_model(name, in_features, **SMALL[name])


def bags(dtype=torch.float32):
    return [torch.randn(length, 6, dtype=dtype) for length in LENGTHS]


def loss(output):
    """Something that every part of the output takes part in."""
    places = torch.arange(output.features.shape[-1], dtype=output.features.dtype)
    return (output.features * places.sin()).sum() + output.auxiliary


@pytest.mark.parametrize("name", list_bag_models())
def test_one_bag_and_a_group(name):
    network = model(name)
    assert isinstance(network, BagModel)
    assert network.training
    assert network.in_features == 6
    one = network(torch.randn(7, 6))
    assert isinstance(one, BagOutput)
    assert one.features.shape == (network.num_features,)
    heads = one.attention.shape[1]
    assert one.attention.shape == (7, heads)
    assert one.auxiliary.shape == ()
    group = network(Bags.pack(bags()))
    assert group.features.shape == (4, network.num_features)
    assert group.attention.shape == (sum(LENGTHS), heads)
    assert group.auxiliary.shape == ()
    assert bool(one.auxiliary != 0) == (name in ("aem", "asmil"))


@pytest.mark.parametrize("name", list_bag_models())
def test_a_group_equals_its_bags_one_by_one(name):
    network, instances = model(name).double().eval(), bags(torch.float64)
    packed = Bags.pack(instances)
    packed.instances.requires_grad_(True)
    group = network(packed)
    loss(group).backward()
    gradients = {key: value.grad for key, value in network.named_parameters() if value.grad is not None}
    network.zero_grad(set_to_none=True)
    singles = [bag.requires_grad_(True) for bag in instances]
    outputs = [network(bag) for bag in singles]
    # The auxiliary term of a group is the mean of its bags'.
    sum(loss(one._replace(auxiliary=one.auxiliary / len(outputs))) for one in outputs).backward()

    def close(one, other):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)

    close(group.features, torch.stack([one.features for one in outputs]))
    close(group.attention, torch.cat([one.attention for one in outputs]))
    close(group.auxiliary, torch.stack([one.auxiliary for one in outputs]).mean())
    close(packed.instances.grad, torch.cat([bag.grad for bag in singles]))
    singly = {key: value.grad for key, value in network.named_parameters() if value.grad is not None}
    assert gradients.keys() == singly.keys()
    for key, value in singly.items():
        torch.testing.assert_close(gradients[key], value, rtol=1e-12, atol=1e-11, msg=key)


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_lengths(lengths):
    network = model("abmil").double()
    instances = [torch.randn(length, 6, dtype=torch.float64) for length in lengths]
    group = network(Bags.pack(instances)).features
    torch.testing.assert_close(group, torch.stack([network(bag).features for bag in instances]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", list_bag_models())
def test_unpadded_bags_are_the_bags(name):
    network, instances = model(name).eval(), bags()
    padded = torch.nn.utils.rnn.pad_sequence(instances, batch_first=True)
    mask = torch.arange(padded.shape[1]) < torch.tensor(LENGTHS).unsqueeze(1)
    for one, other in zip(network(Bags.unpad(padded, mask)), network(Bags.pack(instances)), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", [name for name in list_bag_models() if name != "transmil"])
def test_the_order_of_instances_does_not_matter(name):
    network, bag = model(name).double().eval(), torch.randn(9, 6, dtype=torch.float64)
    order = torch.randperm(9)
    straight, mixed = network(bag), network(bag[order])
    torch.testing.assert_close(mixed.features, straight.features)
    torch.testing.assert_close(mixed.attention, straight.attention[order])


@pytest.mark.parametrize("name", list_bag_models())
def test_half_precision_from_disk_is_cast(name):
    network, bag = model(name).eval(), torch.randn(9, 6).half()
    output = network(bag)
    assert all(value.dtype == torch.float32 for value in output)
    assert torch.equal(output.features, network(bag.float()).features)
    double = network.double()(bag)
    assert all(value.dtype == torch.float64 for value in double)
    torch.testing.assert_close(output.features.double(), double.features, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", list_bag_models())
def test_autocast(name):
    network, bag = model(name).eval(), torch.randn(9, 6)
    # float16, because virtual machines claim bfloat16 tiles that they may not execute.
    with torch.autocast("cpu", dtype=torch.float16):
        output = network(bag)
        loss(output._replace(features=output.features.float())).backward()
    torch.testing.assert_close(output.features.float(), network(bag).features, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", list_bag_models())
def test_every_parameter_gets_a_gradient(name):
    network = model(name)
    loss(network(Bags.pack(bags()))).backward()
    for key, parameter in network.named_parameters():
        if key.startswith("anchor."):
            assert not parameter.requires_grad, key
        else:
            assert parameter.grad is not None, key
            assert bool(parameter.grad.any()) or key.endswith(WITHOUT_EFFECT), key


@pytest.mark.parametrize("name", list_bag_models())
def test_evaluation_changes_no_state_and_draws_nothing(name):
    network, packed = model(name).eval(), Bags.pack(bags())
    before, random = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    first, second = network(packed), network(packed)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    for key, value in network.state_dict().items():
        assert torch.equal(value, before[key]), key


@pytest.mark.parametrize("name", list_bag_models())
def test_state_comes_back_and_copies_are_whole(name):
    network, bag = model(name), torch.randn(9, 6)
    network(bag)
    stored = io.BytesIO()
    torch.save(network.state_dict(), stored)
    stored.seek(0)
    other = create_bag_model(name, 6, **SMALL[name])
    other.load_state_dict(torch.load(stored, weights_only=True))
    expected = network.eval()(bag)
    for twin in (other.eval(), copy.deepcopy(network)):
        assert all(torch.equal(one, two) for one, two in zip(twin(bag), expected, strict=True))


@pytest.mark.parametrize("name", list_bag_models())
def test_one_graph(name):
    network, bag = model(name).eval(), torch.randn(9, 6)
    torch._dynamo.reset()
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(bag).features, network(bag).features)


@pytest.mark.parametrize("name", list_bag_models())
def test_a_few_steps_lower_a_loss(name):
    network = model(name)
    head = torch.nn.Linear(network.num_features, 2)
    parameters = [value for value in network.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW([*parameters, *head.parameters()], lr=3e-3)
    packed, targets = Bags.pack([bag + 2 * (i % 2) for i, bag in enumerate(bags())]), torch.tensor([0, 1, 0, 1])
    losses = []
    for _ in range(30):
        output = network(packed)
        value = torch.nn.functional.cross_entropy(head(output.features), targets)
        optimizer.zero_grad()
        (value + output.auxiliary).backward()
        optimizer.step()
        losses.append(float(value.detach()))
    assert losses[-1] < 0.5 * losses[0]
