import torch
from torch import nn

from ncmi import NCMILoss, parameter_groups


def test_centroids_get_their_own_rate_and_no_decay():
    model, loss = nn.Linear(3, 6), NCMILoss(4, 6)
    network, centroids = parameter_groups(model, loss, lr=0.3, weight_decay=0.01, centroid_lr=2.0)
    assert [p is q for p, q in zip(network["params"], model.parameters(), strict=True)] == [True, True]
    assert (network["lr"], network["weight_decay"]) == (0.3, 0.01)
    assert centroids["params"][0] is loss.centroids.xi
    assert (centroids["lr"], centroids["weight_decay"]) == (2.0, 0.0)


def test_a_loss_inside_the_model_is_not_counted_twice():
    loss = NCMILoss(4, 6)
    model = nn.ModuleDict({"net": nn.Linear(3, 6), "loss": loss})
    network, centroids = parameter_groups(model, loss, lr=0.1)
    assert len(network["params"]) == 2
    assert len(centroids["params"]) == 1
    torch.optim.AdamW([network, centroids])  # refuses a parameter in two groups


def test_nothing_to_learn_adds_no_group():
    model = nn.Linear(3, 6)
    model.bias.requires_grad_(False)
    groups = parameter_groups(model, NCMILoss(4, 6, centroids="fixed"), lr=0.1)
    assert len(groups) == 1
    assert groups[0]["params"] == [model.weight]
    frozen = NCMILoss(4, 6)
    frozen.centroids.xi.requires_grad_(False)
    assert len(parameter_groups(model, frozen, lr=0.1)) == 1


def test_one_backward_moves_network_and_centroids():
    model, loss = nn.Linear(3, 6), NCMILoss(4, 6)
    optimizer = torch.optim.SGD(parameter_groups(model, loss, lr=0.1), momentum=0.9)
    before = [p.detach().clone() for p in (*model.parameters(), *loss.parameters())]
    loss(model(torch.randn(8, 3)), torch.arange(8) % 4).backward()
    optimizer.step()
    after = (*model.parameters(), *loss.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
