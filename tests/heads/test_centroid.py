"""CentroidClassifier against loops: scores, class means over batches and ranks, and the temperature of its probabilities."""

import copy
import math
import pickle

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from ranks import spawn
from torch import nn

from ncmi import CentroidClassifier, NCMILoss
from ncmi.centroids import LearnedCentroids
from ncmi.functional import simplex_point, to_log_probs

C, D, N = 4, 6, 29


def data(spread=1.0, dtype=torch.float32, size=N):
    generator = torch.Generator().manual_seed(5)
    targets = torch.arange(size) % C
    means = torch.randn(C, D, generator=generator)
    features = 2 * means[targets] + spread * torch.randn(size, D, generator=generator) + 0.7
    return features.to(dtype), targets


def trained_loss(**settings):
    torch.manual_seed(0)
    loss = NCMILoss(C, D, **settings)
    loss(*data())
    return loss


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def loop_points(features, center, temperature=0.2):
    points = []
    for row in (features.double() - center.double()).tolist():
        norm = math.sqrt(sum(z * z for z in row))
        sigmoid = [1 / (1 + math.exp(-z / (norm * temperature))) for z in row]
        points.append([value / sum(sigmoid) for value in sigmoid])
    return points


def loop_means(points, targets):
    means = []
    for y in range(C):
        own = [p for p, v in zip(points, targets.tolist(), strict=True) if v == y]
        means.append([sum(p[j] for p in own) / len(own) for j in range(D)])
    return means


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12), (torch.float16, 1e-6)])
def test_scores_are_minus_the_divergences(dtype, tolerance):
    loss = trained_loss().to(torch.promote_types(dtype, torch.float32))
    features = data(dtype=dtype)[0]
    scores = CentroidClassifier.from_loss(loss)(features)
    sigmoid = torch.sigmoid(loss.centroids.xi.detach().double())
    centroids = (sigmoid / sigmoid.sum(dim=1, keepdim=True)).tolist()
    expected = [[-kl(p, q) for q in centroids] for p in loop_points(features, loss.center.mean)]
    assert scores.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(scores.double(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=tolerance)


def test_decides_separable_classes():
    features, targets = data(spread=0.05)
    classifier = CentroidClassifier.from_class_means(trained_loss(), [(features, targets)])
    assert torch.equal(classifier.predict(features), targets)
    assert classifier.score(features, targets) == 1.0
    assert classifier.score(features, (targets + 1) % C) == 0.0
    top = classifier.top_k(features, k=3)
    assert top.shape == (N, 3)
    assert torch.equal(top[:, 0], targets)
    assert torch.equal(top, classifier(features).argsort(dim=1, descending=True)[:, :3])


def test_class_means_equal_loops_in_any_batches():
    loss = trained_loss()
    features, targets = data()
    targets[3] = -100
    keep = targets != -100
    means = loop_means(loop_points(features[keep], loss.center.mean), targets[keep])
    expected = (torch.tensor(means, dtype=torch.float64) * D).log()
    for size in (1, 8, N):
        batches = zip(features.split(size), targets.split(size), strict=True)
        classifier = CentroidClassifier.from_class_means(loss, batches)
        torch.testing.assert_close(classifier.log_density.double(), expected, rtol=0, atol=1e-6)
    soft = F.one_hot(targets[keep], C).double()
    classifier = CentroidClassifier.from_class_means(loss, [(features[keep], soft)])
    torch.testing.assert_close(classifier.log_density.double(), expected, rtol=0, atol=1e-6)
    assert classifier.source == "class means"


def test_class_means_of_a_model_leave_it_as_it_was():
    loss = trained_loss()
    features, targets = data()
    model = nn.Sequential(nn.BatchNorm1d(D), nn.Dropout(0.5), nn.BatchNorm1d(D))
    model[2].eval()
    before = copy.deepcopy(model.state_dict())
    expected = CentroidClassifier.from_class_means(loss, [(copy.deepcopy(model).eval()(features), targets)])
    for callable_model in (model, model.forward):
        found = CentroidClassifier.from_class_means(loss, [(features, targets)], callable_model)
        assert torch.equal(found.log_density, expected.log_density)
        assert [module.training for module in model.modules()] == [True, True, True, False]
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, before[name])
    doubled = CentroidClassifier.from_class_means(loss, [(features / 2, targets)], lambda inputs: 2 * inputs)
    assert torch.equal(
        doubled.log_density, CentroidClassifier.from_class_means(loss, [(features, targets)]).log_density
    )


def test_a_failing_batch_gives_the_modes_back():
    model = nn.Linear(D, D + 1)
    with pytest.raises(ValueError, match="Pass num_features=7"):
        CentroidClassifier.from_class_means(trained_loss(), [data()], model)
    assert model.training


def run_rank(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    features, targets = data()
    loss = trained_loss().eval()
    loss.load_state_dict(torch.load(f"{folder}/loss.pt"))
    own = slice(0, 3) if rank == 0 else slice(3, N)  # neither has to hold every class
    classifier = CentroidClassifier.from_class_means(loss, [(features[own], targets[own])])
    torch.save(classifier.log_density, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_class_means_over_two_processes_equal_one(tmp_path):
    loss = trained_loss()
    torch.save(loss.state_dict(), tmp_path / "loss.pt")
    spawn(run_rank, str(tmp_path))
    expected = CentroidClassifier.from_class_means(loss, [data()]).log_density
    for rank in range(2):
        torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt"), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "source"),
    [({}, "learned q"), ({"centroids": "ema"}, "tracked class means"), ({"centroids": "fixed"}, "fixed q")],
)
def test_from_loss_is_a_snapshot_that_names_its_source(settings, source):
    loss = trained_loss(**settings)
    features, targets = data()
    classifier = CentroidClassifier.from_loss(loss)
    scores = classifier(features)
    assert classifier.source == source
    assert repr(source) in repr(classifier)
    with torch.no_grad():
        next(iter(loss.centroids.state_dict().values())).add_(torch.rand(C, D))
        loss(features + 5, targets)
    assert torch.equal(classifier(features), scores)
    assert not list(classifier.parameters())


def test_maps_as_the_loss_does():
    loss = trained_loss(center="none", simplex="softmax", temperature=0.7)
    features = data()[0]
    classifier = CentroidClassifier.from_loss(loss)
    assert torch.equal(classifier.center, torch.zeros(D))
    assert (classifier.temperature, classifier.simplex) == (0.7, "softmax")
    log_probs = to_log_probs(features.double(), None, 0.7, "softmax")
    log_q = simplex_point(loss.centroids.xi.detach().double(), "softmax").log_probs
    expected = (log_probs.exp()[:, None] * (log_q - log_probs[:, None])).sum(dim=-1)
    torch.testing.assert_close(classifier(features).double(), expected, rtol=0, atol=1e-6)


def nll(scores, targets, temperature):
    return float(F.cross_entropy(scores.double() / temperature, targets))


def test_temperature_is_the_optimum_of_a_grid_search():
    features, targets = data(spread=3.0, size=300)
    classifier = CentroidClassifier.from_class_means(trained_loss(), [(features, targets)])
    scores = classifier(features)
    fitted = float(classifier.fit_temperature(features, targets).score_temperature)
    grid = torch.logspace(-4, 3, 2001, dtype=torch.float64).tolist()
    best = min(grid, key=lambda temperature: nll(scores, targets, temperature))
    assert fitted == pytest.approx(best, rel=0.01)
    assert nll(scores, targets, fitted) <= nll(scores, targets, best) + 1e-12
    assert nll(scores, targets, fitted) < nll(scores, targets, 1.0) - 0.01
    assert nll(scores, targets, fitted) <= min(nll(scores, targets, fitted * (1 + step)) for step in (-1e-3, 1e-3))


def test_probabilities_sum_to_one_and_keep_the_decision():
    features, targets = data(spread=3.0, size=300)
    classifier = CentroidClassifier.from_class_means(trained_loss(), [(features, targets)])
    probs = classifier.fit_temperature(features, targets).predict_proba(features)
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(300))
    assert torch.equal(probs.argmax(dim=1), classifier.predict(features))
    expected = (classifier(features) / classifier.score_temperature).softmax(dim=1)
    assert torch.equal(probs, expected)


@pytest.mark.parametrize("shift", [0, 1])
def test_a_temperature_without_an_optimum_warns_and_stays_finite(shift):
    features, targets = data(spread=0.01)
    classifier = CentroidClassifier.from_class_means(trained_loss(), [(features, targets)])
    with pytest.warns(UserWarning, match="no minimum at a finite, positive temperature"):
        classifier.fit_temperature(features, classifier(features).argsort(dim=1)[:, -1 if shift == 0 else 0])
    probs = classifier.predict_proba(features)
    assert bool(probs.isfinite().all())
    assert bool((probs.amax(dim=1) > 0.99).all()) == (shift == 0)


def test_state_dict_pickle_and_deepcopy():
    features, targets = data(spread=3.0)
    classifier = CentroidClassifier.from_class_means(trained_loss(), [(features, targets)])
    classifier.fit_temperature(features, targets)
    loaded = CentroidClassifier.from_loss(NCMILoss(C, D))
    loaded.load_state_dict(classifier.state_dict())
    for twin in (loaded, pickle.loads(pickle.dumps(classifier)), copy.deepcopy(classifier)):
        assert torch.equal(twin.predict_proba(features), classifier.predict_proba(features))
    assert pickle.loads(pickle.dumps(classifier)).source == "class means"


def test_autocast_changes_nothing():
    features = data()[0]
    classifier = CentroidClassifier.from_loss(trained_loss())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = classifier(features)
    assert torch.equal(inside, classifier(features))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_last_stage_of_an_exported_and_of_a_compiled_pipeline():
    pipeline = nn.Sequential(nn.Linear(3, D), CentroidClassifier.from_loss(trained_loss())).eval()
    inputs = torch.randn(5, 3)
    with torch.no_grad():
        batch = torch.export.Dim("batch", min=2)
        exported = torch.export.export(pipeline, (inputs,), dynamic_shapes=({0: batch},)).module()
        compiled = torch.compile(pipeline, fullgraph=True, backend="eager")
        for program in (exported, compiled):
            torch.testing.assert_close(program(inputs), pipeline(inputs), rtol=0, atol=1e-6)
        assert exported(torch.randn(9, 3)).shape == (9, C)


def test_scores_have_a_gradient():
    features = data(dtype=torch.float64)[0][:3].requires_grad_()
    classifier = CentroidClassifier.from_loss(trained_loss()).double()
    assert torch.autograd.gradcheck(classifier, (features,))


def test_missing_class_is_named():
    features, targets = data()
    with pytest.raises(ValueError, match=r"samples of every class; none of \[2\]\."):
        CentroidClassifier.from_class_means(trained_loss(), [(features[targets != 2], targets[targets != 2])])
    with pytest.raises(ValueError, match="and others"):
        CentroidClassifier.from_class_means(NCMILoss(12, D), [])


def test_what_is_not_ready_names_the_remedy():
    classifier = CentroidClassifier.from_loss(trained_loss())
    with pytest.raises(RuntimeError, match="Call fit_temperature"):
        classifier.predict_proba(data()[0])
    with pytest.raises(TypeError, match="centroids must stay float32"):
        classifier.half()(data()[0])
    with pytest.raises(RuntimeError, match="start_from_class_means"):
        CentroidClassifier.from_loss(NCMILoss(C, D, centroids=LearnedCentroids(C, D, "class_means")))
    with pytest.raises(ValueError, match="all centroids are equal"):
        CentroidClassifier(torch.zeros(C, D)).fit_temperature(*data())


@pytest.mark.parametrize(
    ("log_density", "settings", "sentence"),
    [
        (torch.zeros(D), {}, "shape \\(C, D\\)"),
        (torch.zeros(1, D), {}, "num_classes must be at least 2"),
        (torch.ones(C, D), {}, "rows that sum to 2.718"),
        (torch.full((C, D), -torch.inf), {}, "without zeros"),
        (torch.zeros(C, D), {"center": torch.zeros(D - 1)}, r"center must have shape \(6,\)"),
        (torch.zeros(C, D), {"temperature": -1.0}, "temperature must be positive"),
        (torch.zeros(C, D), {"simplex": "nfs"}, "Did you mean 'nsf'"),
    ],
)
def test_wrong_settings_are_sentences(log_density, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        CentroidClassifier(log_density, **settings)


def test_wrong_inputs_are_sentences():
    classifier = CentroidClassifier.from_loss(trained_loss())
    features, targets = data()
    with pytest.raises(ValueError, match="Pass num_features=5"):
        classifier(features[:, :5])
    with pytest.raises(ValueError, match=r"k must lie in \[1, 4\]; got 5"):
        classifier.top_k(features, k=5)
    with pytest.raises(TypeError, match="targets must be class indices"):
        classifier.score(features, F.one_hot(targets, C).double())
    with pytest.raises(ValueError, match="no labelled sample"):
        classifier.score(features, torch.full_like(targets, -100))
