import oracle
import pytest
import torch
from batches import SIZES, hard_labels, normal, soft_labels
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from ncmi.functional import (
    ClassStatistics,
    FeaturePoints,
    SimplexPoint,
    class_statistics,
    cmi,
    compact_labels,
    feature_point,
    gamma,
    merge_statistics,
    ncmi,
)

B, C, D = 9, 4, 5
LABELS = {"hard": hard_labels(B, C), "soft": soft_labels(B, C)}
WEIGHTS = {"plain": None, "weighted": torch.linspace(0.2, 3, B).double()}


def mass_of(targets, weight, num_classes=C):
    mass, _ = oracle.label_mass(targets, num_classes)
    return mass if weight is None else mass * weight[:, None]


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("labels", LABELS)
def test_sums_equal_their_definitions(labels, weight):
    targets, weight = LABELS[labels], WEIGHTS[weight]
    points = feature_point(normal(B, D))
    statistics = class_statistics(points, targets, C, weight)
    mass = mass_of(targets, weight)
    p, log_density = points.probs, points.log_density
    for y in range(C):
        assert float(statistics.counts[y]) == pytest.approx(float(sum(mass[x, y] for x in range(B))), abs=1e-12)
        prob_sum = sum(mass[x, y] * p[x] for x in range(B))
        log_sum = sum(mass[x, y] * log_density[x] for x in range(B))
        torch.testing.assert_close(statistics.prob_sum[y], prob_sum, rtol=0, atol=1e-12)
        torch.testing.assert_close(statistics.log_sum[y], log_sum, rtol=0, atol=1e-12)
    entropy = sum(mass[x, y] * (p[x] * log_density[x]).sum() for x in range(B) for y in range(C))
    torch.testing.assert_close(statistics.neg_entropy, entropy, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("labels", LABELS)
def test_cmi_gamma_and_ncmi_equal_the_equations(labels, weight):
    targets, weight = LABELS[labels], WEIGHTS[weight]
    points = feature_point(normal(B, D))
    statistics = class_statistics(points, targets, C, weight)
    mass = mass_of(targets, weight)
    expected = oracle.cmi(points.probs, mass), oracle.gamma(points.probs, mass)
    torch.testing.assert_close(cmi(statistics), expected[0], rtol=0, atol=1e-10)
    torch.testing.assert_close(gamma(statistics), expected[1], rtol=0, atol=1e-10)
    terms = ncmi(statistics)
    torch.testing.assert_close(tuple(terms), (*expected, expected[0] / expected[1]), rtol=1e-10, atol=1e-10)


def test_soft_pair_weight_is_one_minus_the_overlap():
    # Γ written with that weight, pair by pair, instead of part by part as the oracle does.
    t, points = torch.softmax(normal(B, C, seed=2), dim=1), feature_point(normal(B, D))
    p = points.probs
    s = torch.stack(oracle.class_means(p, t))
    pairs = sum((1 - t[x] @ t[z]) * oracle.cross_entropy(p[x], p[z]) for x in range(B) for z in range(B))
    entropies = sum(t[x, y] * (1 - t[z, y]) * s[y] @ s[y].log() for x in range(B) for z in range(B) for y in range(C))
    expected = (entropies + pairs) / B**2
    torch.testing.assert_close(gamma(class_statistics(points, t, C)), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(oracle.gamma(p, t), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("labels", LABELS)
def test_gradients(labels, weight):
    targets, weight = LABELS[labels], WEIGHTS[weight]
    probs = feature_point(normal(B, D)).probs.requires_grad_()
    log_density = normal(B, D, seed=1).requires_grad_()

    def sums(p, ld):
        return tuple(class_statistics(SimplexPoint(p, ld), targets, C, weight))[1:]

    assert gradcheck(sums, (probs, log_density))
    features, center = normal(B, D).requires_grad_(), normal(D, seed=2)
    for points in (feature_point, FeaturePoints):
        for simplex in ("nsf", "softmax"):

            def terms(f, points=points, simplex=simplex):
                return tuple(ncmi(class_statistics(points(f, center, 0.3, simplex), targets, C, weight)))

            assert gradcheck(terms, features)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("labels", LABELS)
def test_features_give_the_sums_of_their_points(labels, weight):
    arguments = normal(B, D), normal(D, seed=2), 0.3
    expected = class_statistics(feature_point(*arguments), LABELS[labels], C, WEIGHTS[weight])
    found = class_statistics(FeaturePoints(*arguments), LABELS[labels], C, WEIGHTS[weight])
    torch.testing.assert_close(tuple(found), tuple(expected), rtol=1e-13, atol=1e-13)


def test_an_absent_class_adds_nothing_and_keeps_gradients_finite():
    features, targets = normal(6, D).requires_grad_(), torch.tensor([0, 2, 2, 0, 2, 0])
    terms = ncmi(class_statistics(feature_point(features), targets, num_classes=5))
    renumbered = ncmi(class_statistics(feature_point(features), targets // 2, num_classes=2))
    torch.testing.assert_close(tuple(terms), tuple(renumbered))
    (gradient,) = torch.autograd.grad(terms.ncmi, features)
    assert bool(gradient.isfinite().all())


def test_equal_rows_have_no_cmi():
    features = normal(2, D)[[0, 0, 1, 1, 0]]
    terms = ncmi(class_statistics(feature_point(features), torch.tensor([0, 0, 1, 1, 0]), 2))
    assert abs(float(terms.cmi)) < 1e-15
    assert float(terms.gamma) > 1e-3


def test_float32_statistics_resolve_a_trained_network():
    # D = 2048, classes of tight clusters: CMI is about 1e-4 and must not drown in ln D = 7.6.
    targets = torch.arange(256) % 10
    features = normal(10, 2048)[targets] + 0.3 * normal(256, 2048, seed=1)
    features = features.float()
    single = ncmi(class_statistics(feature_point(features), targets, 10))
    double = ncmi(class_statistics(feature_point(features.double()), targets, 10))
    assert float(double.cmi) < 5e-4
    assert float(single.ncmi) == pytest.approx(float(double.ncmi), rel=2e-3)


@given(SIZES)
def test_cmi_and_gamma_are_never_negative(sizes):
    batch, num_classes = sizes["batch"], sizes["num_classes"]
    points = feature_point(normal(batch, sizes["num_features"], seed=sizes["seed"]))
    for targets in (hard_labels(batch, num_classes, sizes["seed"]), soft_labels(batch, num_classes, sizes["seed"])):
        terms = ncmi(class_statistics(points, targets, num_classes))
        assert float(terms.cmi) >= -1e-14
        assert float(terms.gamma) >= -1e-14


@given(SIZES)
def test_names_of_classes_and_order_of_samples_do_not_matter(sizes):
    batch, num_classes = sizes["batch"], sizes["num_classes"]
    points = feature_point(normal(batch, sizes["num_features"], seed=sizes["seed"]))
    targets = hard_labels(batch, num_classes, sizes["seed"])
    expected = tuple(ncmi(class_statistics(points, targets, num_classes)))
    names = torch.randperm(num_classes, generator=torch.Generator().manual_seed(sizes["seed"]))
    order = torch.randperm(batch, generator=torch.Generator().manual_seed(sizes["seed"]))
    renamed = tuple(ncmi(class_statistics(points, names[targets], num_classes)))
    shuffled_points = SimplexPoint(points.probs[order], points.log_density[order])
    shuffled = tuple(ncmi(class_statistics(shuffled_points, targets[order], num_classes)))
    torch.testing.assert_close(renamed, expected, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(shuffled, expected, rtol=1e-10, atol=1e-13)


@given(SIZES, st.data())
def test_merge_of_any_split_is_the_whole(sizes, data):
    batch, num_classes = sizes["batch"], sizes["num_classes"]
    points = feature_point(normal(batch, sizes["num_features"], seed=sizes["seed"]))
    targets = hard_labels(batch, num_classes, sizes["seed"])
    share = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=batch, max_size=batch)))
    merged = None
    for part in range(3):
        keep = share == part
        piece = SimplexPoint(points.probs[keep], points.log_density[keep])
        statistics = class_statistics(piece, targets[keep], num_classes)
        merged = statistics if merged is None else merge_statistics(merged, statistics)
    assert isinstance(merged, ClassStatistics)
    whole = class_statistics(points, targets, num_classes)
    torch.testing.assert_close(tuple(merged), tuple(whole), rtol=1e-12, atol=1e-12)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20))
def test_compact_labels_number_the_classes_of_the_batch(labels):
    targets = torch.tensor(labels)
    classes, rows = compact_labels(targets)
    distinct = sorted(set(labels))
    assert classes[rows].tolist() == labels
    assert classes[: len(distinct)].tolist() == distinct
    assert classes.shape == targets.shape
    assert int(rows.max()) == len(distinct) - 1
