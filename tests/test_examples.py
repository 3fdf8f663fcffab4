"""The examples that need no framework: the centroids move and come back from disk."""

import torch
from programs import accuracies, example, moved

from ncmi import NCMILoss


def test_centroids_that_no_optimiser_moved_are_seen():
    for num_features in (64, 512):
        assert not moved(NCMILoss(10, num_features))


def test_bare_loop(tmp_path, capsys):
    assert moved(example("bare_loop")["main"](str(tmp_path)))
    assert min(accuracies(capsys.readouterr().out)) > 0.8


def test_scikit_learn(capsys):
    assert moved(example("with_scikit_learn")["main"]().criterion_)
    assert min(accuracies(capsys.readouterr().out)) > 0.9


def test_torchmetrics(tmp_path):
    loss, values = example("with_torchmetrics")["main"](str(tmp_path))
    assert moved(loss)
    assert set(values) == {"accuracy", "cmi", "gamma", "ncmi"}
    assert values["accuracy"] > 0.8
    assert torch.allclose(values["ncmi"], values["cmi"] / values["gamma"])
