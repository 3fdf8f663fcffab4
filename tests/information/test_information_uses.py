"""Uses of divergences on a trained run: numbers from the equations, and what they find on real digits."""

import pytest
import torch
from PIL import Image
from realdata import real_data

from ncmi.data import load_data
from ncmi.functional import kl_divergence
from ncmi.information import class_map, find_suspects, measure_novelty, open_run
from ncmi.information.classes import centroid_distances, similar_order
from ncmi.training.config import make_config
from ncmi.training.loop import train
from ncmi.training.run_folder import RunFolder
from ncmi.training.sources import make_source

QUICK = {
    "epochs": 4,
    "batch_size": 64,
    "data": {"name": "digits", "validation": 0.2, "flip_labels": 0.1},
    "model": {"name": "mlp", "options": {"hidden": [32, 16]}},
    "decisions": ["own"],
}


@pytest.fixture(scope="module", params=["ncmi", "ce"])
def trained(request, tmp_path_factory):
    folder = RunFolder(tmp_path_factory.mktemp("run") / request.param)
    train(make_config(QUICK, [f"loss={request.param}"]), folder, quiet=True)
    return open_run(folder.path)


def test_divergences_are_those_of_the_equation(trained):
    part = trained.features(trained.setup.source.test)
    points = trained.criterion.points(part.features.double())
    centroids = trained.centroids()
    assert centroids.exp().mean(dim=1).tolist() == pytest.approx([1.0] * 10)
    expected = kl_divergence(points.log_density.unsqueeze(1), centroids) / 16  # log-densities count D times
    torch.testing.assert_close(trained.divergences(part), expected, rtol=1e-6, atol=1e-9)
    assert trained.log_probabilities(part).exp().sum(dim=1).tolist() == pytest.approx([1.0] * len(part))


def test_wrong_labels_are_found(trained):
    found = find_suspects(trained)
    assert found.flipped is not None
    assert int(found.flipped.sum()) == 115
    for score in ("margin", "loss"):
        area, precision = found.found(score)
        assert area > 0.9
        assert precision > 0.5
    rows = found.rows()
    assert len(rows) == 1150
    assert rows[0][-1] == "yes"
    assert [row[3] for row in rows] == sorted((row[3] for row in rows), reverse=True)
    # The margin by a loop.
    part = trained.features(trained.setup.source.train)
    for place, divergences in enumerate(trained.divergences(part)[:20].tolist()):
        own = divergences.pop(int(part.targets[place]))
        assert float(found.scores["margin"][place]) == pytest.approx(own - min(divergences))


def test_scores_of_other_images(trained):
    found = measure_novelty(trained, "cifar10", real_data("cifar10"))
    inside, outside = found.scores["divergence"]
    assert (len(inside), len(outside)) == (360, 10_000)
    farther, level = (compare(outside[:, None], inside).double().mean() for compare in (torch.gt, torch.eq))
    assert found.auroc("divergence") == pytest.approx(float(farther + level / 2))
    assert len(found.rows()) == 10_360
    assert found.rows()[0][:2] == ("digits", 0)
    assert found.rows()[-1][:2] == ("cifar10", 9999)


def test_the_same_data_are_no_news(trained):
    assert measure_novelty(trained, "digits").auroc("divergence") == 0.5


def test_classes(trained):
    found = class_map(trained)
    assert found.source == ("learned q" if trained.setup.config.loss.name == "ncmi" else "class means")
    assert sorted(found.order) == list(range(10))
    assert found.distances.equal(found.distances.T)
    assert len(found.rows()) == 45
    one, other, distance, _ = found.rows()[0]
    assert distance == float(found.distances[found.distances > 0].min())
    nearest = found.nearest(2)
    assert nearest.shape == (10, 2)
    assert int(nearest[int(one), 0]) == int(other)
    assert -1 <= found.agreement() <= 1


def test_distances_of_centroids_by_a_loop():
    logits = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    probs = logits.softmax(dim=1)
    found = centroid_distances((6 * probs).log())
    for one in range(4):
        for other in range(4):
            p, q = probs[one], probs[other]
            expected = 0.5 * ((p * (p / q).log()).sum() + (q * (q / p).log()).sum())
            assert float(found[one, other]) == pytest.approx(float(expected), abs=1e-12)


def test_like_stands_beside_like():
    places = torch.tensor([0.0, 9.0, 0.1, 9.1])
    order = similar_order((places.unsqueeze(0) - places.unsqueeze(1)).abs().double())
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset({0, 2}), frozenset({1, 3})}
    assert similar_order(torch.zeros(2, 2)) == (0, 1)


def test_refusals(trained, tmp_path):
    suspects = find_suspects(trained)
    object.__setattr__(suspects, "flipped", None)
    with pytest.raises(
        ValueError, match=r"no label of this run was made wrong on purpose; train with data\.flip_labels"
    ):
        suspects.found("margin")
    assert suspects.rows()[0][-1] == ""
    found = class_map(trained)
    object.__setattr__(found, "confusions", None)
    with pytest.raises(ValueError, match="confusions need a test part"):
        found.agreement()
    assert found.rows()[0][-1] is None
    for part in ("train", "test"):
        for name in ("a", "b"):
            (tmp_path / part / name).mkdir(parents=True)
            Image.new("RGB", (9, 9)).save(tmp_path / part / name / "0.png")
    with pytest.raises(ValueError, match=r"ood: a folder of photographs has no fixed size"):
        measure_novelty(trained, f"folder:{tmp_path}")


def test_validation_and_test_labels_stay_right(trained):
    source, whole = trained.setup.source, load_data("digits")
    assert source.test.targets.equal(whole.test.targets)
    clean = open_source(flip_labels=0.0)
    assert source.validation.targets.equal(clean.validation.targets)
    assert int((source.train.targets != clean.train.targets).sum()) == 115
    assert source.flips.changed.equal((source.train.targets != clean.train.targets).nonzero().flatten())


def open_source(**changes):
    return make_source(make_config({**QUICK, "data": {**QUICK["data"], **changes}}))
