"""NCMIMetric against double loops over pairs, whatever the batches, the ranks and the number type."""

import copy
import math
import pickle

import pytest
import torch
import torch.distributed as dist
from ranks import spawn
from torch import nn
from torchmetrics import MetricCollection

from ncmi import NCMILoss, NCMIMetric
from ncmi.functional import class_statistics, feature_point, ncmi, to_log_probs

C, D, N = 4, 6, 23


def data(dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    targets = torch.randint(C, (N,), generator=generator)
    means = torch.randn(C, D, generator=generator, dtype=torch.float64)
    features = means[targets] + torch.randn(N, D, generator=generator, dtype=torch.float64) + 1.5
    return features.to(dtype), targets


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def loops(features, targets, center=None, temperature=0.2, simplex="nsf"):
    """Eqs. 5–8, sample by sample and pair by pair; ``targets`` are weights (N, C)."""
    points = []
    for row in features.double().tolist():
        row = [f - c for f, c in zip(row, [0.0] * D if center is None else center.tolist(), strict=True)]
        norm = math.sqrt(sum(z * z for z in row))
        logits = [z / (norm * temperature) for z in row]
        squashed = [1 / (1 + math.exp(-a)) if simplex == "nsf" else math.exp(a) for a in logits]
        points.append([value / sum(squashed) for value in squashed])
    share = targets.double().tolist() if targets.is_floating_point() else nn.functional.one_hot(targets, C).tolist()
    samples = [(p, y, share[x][y]) for x, p in enumerate(points) for y in range(C) if share[x][y] > 0]
    total = sum(weight for _, _, weight in samples)
    mean = {
        y: [sum(w * p[j] for p, v, w in samples if v == y) / sum(w for _, v, w in samples if v == y) for j in range(D)]
        for y in {y for _, y, _ in samples}
    }
    cmi = sum(w * kl(p, mean[y]) for p, y, w in samples) / total
    gamma = sum(w * u * kl(mean[y], p) for _, y, w in samples for p, v, u in samples if y != v) / total**2
    return {"cmi": cmi, "gamma": gamma, "ncmi": cmi / gamma}


def assert_equal(values, expected, rtol=1e-10):
    assert set(values) == {"cmi", "gamma", "ncmi"}
    for name, value in values.items():
        assert value.dtype == torch.float64
        assert value.shape == ()
        assert value.item() == pytest.approx(float(expected[name]), rel=rtol)


@pytest.mark.parametrize("simplex", ["nsf", "softmax"])
@pytest.mark.parametrize("centred", [False, True])
def test_equals_loops_over_pairs(simplex, centred):
    features, targets = data()
    center = features.mean(dim=0) if centred else None
    metric = NCMIMetric(C, D, center=center, temperature=0.5, simplex=simplex)
    metric.update(features, targets)
    assert_equal(metric.compute(), loops(features, targets, center, 0.5, simplex))


def test_soft_labels_equal_loops():
    features, _ = data()
    targets = torch.rand(N, C, generator=torch.Generator().manual_seed(1), dtype=torch.float64).softmax(dim=1)
    metric = NCMIMetric(C, D)
    for part in range(0, N, 10):
        metric.update(features[part : part + 10], targets[part : part + 10])
    assert_equal(metric.compute(), loops(features, targets))


@pytest.mark.parametrize("size", [1, 2, 7, 22, 23])
def test_any_split_into_batches_equals_the_whole(size):
    features, targets = data()
    metric = NCMIMetric(C, D)
    for rows, labels in zip(features.split(size), targets.split(size), strict=True):
        metric.update(rows, labels)
    metric.update(features[:0], targets[:0])
    assert_equal(metric.compute(), loops(features, targets))
    whole = ncmi(class_statistics(feature_point(features), targets, C))
    assert_equal(metric.compute(), whole._asdict())


def test_keeps_its_sums_in_place():
    features, targets = data()
    metric = NCMIMetric(C, D)
    addresses = [metric.metric_state[name].data_ptr() for name in ("counts", "prob_sum", "log_sum", "neg_entropy")]
    metric.update(features, targets)
    metric.update(features, torch.nn.functional.one_hot(targets, C).double())
    assert addresses == [getattr(metric, name).data_ptr() for name in ("counts", "prob_sum", "log_sum", "neg_entropy")]
    assert set(metric.metric_state) == {"counts", "prob_sum", "log_sum", "neg_entropy"}


def test_log_probs_give_the_same_values_as_features():
    features, targets = data()
    metric = NCMIMetric(C, D, inputs="log_probs")
    metric.update(to_log_probs(features), targets)
    assert_equal(metric.compute(), loops(features, targets))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_low_precision_inputs_are_summed_in_float64(dtype):
    features, targets = data(dtype)
    metric = NCMIMetric(C, D)
    metric.update(features, targets)
    assert_equal(metric.compute(), loops(features, targets))


def test_ignored_samples_count_nothing():
    features, targets = data()
    marked = targets.clone()
    marked[::5] = 255
    keep = marked != 255
    metric = NCMIMetric(C, D, ignore_index=255)
    metric.update(features, marked.to(torch.uint8))
    assert metric.counts.sum() == keep.sum()
    assert_equal(metric.compute(), loops(features[keep], targets[keep]))


def test_forward_returns_the_batch_and_keeps_the_whole():
    features, targets = data()
    metric = NCMIMetric(C, D)
    assert_equal(metric(features[:12].requires_grad_(), targets[:12]), loops(features[:12], targets[:12]))
    metric(features[12:], targets[12:])
    assert_equal(metric.compute(), loops(features, targets))
    assert not metric.prob_sum.requires_grad


def test_from_loss_reads_the_centre_live():
    features, targets = data(torch.float32)
    loss = NCMILoss(C, D, temperature=0.3, simplex="softmax", ignore_index=-1)
    metric = NCMIMetric.from_loss(loss)
    loss(features, targets)
    metric.update(features, targets)
    expected = loops(features, targets, loss.center.mean.double(), 0.3, "softmax")
    assert_equal(metric.compute(), expected)
    assert metric.ignore_index == -1
    assert not metric.state_dict()
    assert not list(metric.parameters())


def test_clones_read_the_same_loss_and_copied_networks_their_own():
    features, targets = data(torch.float32)
    loss = NCMILoss(C, D)
    metric = NCMIMetric.from_loss(loss)
    network = nn.ModuleDict({"loss": loss, "metric": metric})
    clone, copied = metric.clone(), copy.deepcopy(network)
    loss(features, targets)
    clone.update(features, targets)
    assert_equal(clone.compute(), loops(features, targets, loss.center.mean.double()))
    copied["metric"].update(features, targets)
    assert_equal(copied["metric"].compute(), loops(features, targets))


def test_without_a_centre_from_loss_subtracts_nothing():
    features, targets = data()
    metric = NCMIMetric.from_loss(NCMILoss(C, D, center="none"))
    metric.update(features, targets)
    assert_equal(metric.compute(), loops(features, targets))


@pytest.mark.parametrize("build", [lambda: NCMIMetric(C, D), lambda: NCMIMetric.from_loss(NCMILoss(C, D))])
def test_pickle_clone_and_reset(build):
    features, targets = data()
    metric = build()
    metric.update(features[:10], targets[:10])
    for twin in (pickle.loads(pickle.dumps(metric)), metric.clone()):
        twin.update(features[10:], targets[10:])
        assert_equal(twin.compute(), loops(features, targets))
    assert metric.counts.sum() == 10
    metric.reset()
    metric.update(features, targets)
    assert_equal(metric.compute(), loops(features, targets))


def test_merge_state_adds():
    features, targets = data()
    first, second = NCMIMetric(C, D), NCMIMetric(C, D)
    first.update(features[:5], targets[:5])
    second.update(features[5:], targets[5:])
    first.merge_state(second)
    assert_equal(first.compute(), loops(features, targets))


def test_metric_collection_lists_the_three_names():
    features, targets = data()
    collection = MetricCollection({"fit": NCMIMetric(C, D), "twin": NCMIMetric(C, D)}, prefix="epoch_")
    collection.update(features, targets)
    values = collection.compute()
    assert set(values) == {f"epoch_{owner}_{name}" for owner in ("fit", "twin") for name in ("cmi", "gamma", "ncmi")}
    single = MetricCollection([NCMIMetric(C, D)])
    single.update(features, targets)
    assert_equal(single.compute(), loops(features, targets))


def test_stays_float64_inside_a_half_precision_network():
    features, targets = data()
    network = nn.ModuleDict({"metric": NCMIMetric(C, D, center=features.mean(dim=0)), "layer": nn.Linear(2, 2)})
    network.half()
    network.to(torch.bfloat16)
    metric = network["metric"]
    metric.update(features, targets)
    assert_equal(metric.compute(), loops(features, targets, features.mean(dim=0)))
    assert NCMIMetric(C, D).set_dtype(torch.float32).prob_sum.dtype == torch.float32


def run_rank(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    features, targets = data()
    metric = NCMIMetric(C, D)
    own = slice(0, 4) if rank == 0 else slice(4, N)
    metric.update(features[own], targets[own])
    values = metric.compute()
    assert metric.counts.sum() == len(targets[own])  # the rank's own sums are back after the exchange
    torch.save(values, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_with_uneven_shards_equal_one(tmp_path):
    spawn(run_rank, str(tmp_path))
    expected = loops(*data())
    for rank in range(2):
        assert_equal(torch.load(tmp_path / f"{rank}.pt"), expected)


@pytest.mark.parametrize(("label", "seen"), [(2, 1), (-100, 0)])
def test_fewer_than_two_classes_have_no_ncmi(label, seen):
    metric = NCMIMetric(C, D)
    metric.update(data()[0], torch.full((N,), label))
    with pytest.warns(UserWarning, match=f"two or more classes and has seen {seen}; call update"):
        values = metric.compute()
    assert values["ncmi"].isnan()


def test_a_one_class_batch_leaves_the_running_sums_alone():
    features, targets = data()
    metric = NCMIMetric(C, D)
    metric.update(features, targets)
    with pytest.warns(UserWarning, match="has seen 1"):
        metric(features[:2], torch.zeros(2).long())
    expected = loops(torch.cat([features, features[:2]]), torch.cat([targets, torch.zeros(2).long()]))
    assert_equal(metric.compute(), expected)


def test_compute_before_update_warns_as_torchmetrics_does():
    with pytest.warns(UserWarning, match="before the ``update``"):
        values = NCMIMetric(C, D).compute()
    assert all(value.isnan() for value in values.values())


def test_collapsed_features_have_no_ncmi():
    metric = NCMIMetric(C, D)
    metric.update(data()[0][:1].expand(N, D), data()[1])
    with pytest.warns(UserWarning, match="all outputs are the same distribution"):
        values = metric.compute()
    assert values["ncmi"].isnan()
    assert values["gamma"].abs() < 1e-12


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "sentence"),
    [
        ((C, D), {"inputs": "log_prob"}, ValueError, "Did you mean 'log_probs'"),
        ((C, D), {"simplex": "sigmoid"}, ValueError, "simplex must be one of"),
        ((C, D), {"temperature": 0.0}, ValueError, "temperature must be positive"),
        ((C, D), {"center": torch.zeros(D + 1)}, ValueError, r"center must have shape \(6,\); got \(7,\)"),
        ((1, D), {}, ValueError, "num_classes must be at least 2"),
        ((C, D), {"reduction": "mean"}, ValueError, "Unexpected keyword arguments"),
    ],
)
def test_wrong_settings_are_sentences(arguments, settings, error, sentence):
    with pytest.raises(error, match=sentence):
        NCMIMetric(*arguments, **settings)


@pytest.mark.parametrize(
    ("inputs", "targets", "error", "sentence"),
    [
        (torch.zeros(3, D + 1), torch.zeros(3).long(), ValueError, "Pass num_features=7"),
        (torch.full((3, D), torch.nan), torch.zeros(3).long(), ValueError, "must be finite"),
        (torch.zeros(3, D), torch.full((3,), C), ValueError, r"must lie in \[0, 3\]"),
        (torch.zeros(3, D), torch.ones(3, C), ValueError, "sum to one"),
        (torch.zeros(3, D).long(), torch.zeros(3).long(), TypeError, "must be real numbers"),
    ],
)
def test_wrong_batches_are_sentences(inputs, targets, error, sentence):
    with pytest.raises(error, match=sentence):
        NCMIMetric(C, D).update(inputs, targets)


def test_unnormalised_log_probs_are_a_sentence():
    features, targets = data()
    with pytest.raises(ValueError, match="exponentials sum to one; got a row that sums to"):
        NCMIMetric(C, D, inputs="log_probs").update(features, targets)
