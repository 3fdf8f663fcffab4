import warnings

import oracle
import pytest
import torch
from batches import hard_labels, normal

from ncmi import NCMILoss, parameter_groups
from ncmi.centroids import EMACentroids, FixedCentroids, LearnedCentroids, starting_logits
from ncmi.functional import class_statistics, feature_point, simplex_point

C, D = 4, 6
KINDS = [LearnedCentroids, EMACentroids, FixedCentroids]


def test_starts():
    orthogonal = starting_logits("orthogonal", C, D, temperature=0.2)
    torch.testing.assert_close(orthogonal @ orthogonal.T, 25 * torch.eye(C), rtol=0, atol=1e-4)
    axis = starting_logits("axis", C, D, temperature=0.2)
    assert torch.equal(axis, 10 * torch.eye(C, D))
    assert torch.equal(starting_logits("uniform", C, D, temperature=0.2), torch.zeros(C, D))


def test_more_classes_than_features_start_far_apart():
    # The paper's own case c ≫ m, in which one coordinate per class is impossible.
    loss = NCMILoss(num_classes=40, num_features=8)
    xi = loss.centroids.xi.detach()
    cosines = torch.nn.functional.cosine_similarity(xi[:, None], xi[None], dim=-1).fill_diagonal_(-1)
    assert float(cosines.max()) < 0.9
    with pytest.raises(
        ValueError, match=r"num_features must be at least num_classes=40; got 8\. Use start='orthogonal'"
    ):
        LearnedCentroids(40, 8, start="axis")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("simplex", ["nsf", "softmax"])
def test_centroids_are_the_map_of_xi(kind, simplex):
    torch.manual_seed(0)
    logits = starting_logits("orthogonal", C, D, temperature=0.2).double()
    torch.manual_seed(0)
    centroids = kind(C, D, simplex=simplex).double()
    rows = [getattr(oracle, simplex)(row) for row in logits]
    torch.testing.assert_close(centroids().probs.detach(), torch.stack(rows), rtol=0, atol=1e-6)
    some = torch.tensor([2, 0])
    torch.testing.assert_close(centroids(some).probs.detach(), torch.stack(rows)[some], rtol=0, atol=1e-6)


def test_only_learned_centroids_are_parameters():
    assert [len(list(kind(C, D).parameters())) for kind in KINDS] == [1, 0, 0]
    assert [next(iter(kind(C, D).state_dict())) for kind in KINDS] == ["xi", "probs", "xi"]


def test_known_class_means_weigh_as_their_samples():
    loss = NCMILoss(C, D, "theorem1", centroids=EMACentroids(C, D, start="class_means", momentum=0.9)).double()
    features, targets = normal(400, D), torch.arange(400) % C
    loss.start_from_class_means(features, targets)
    start = loss.centroids.probs.clone()
    loss(features[:8], targets[:8])
    # 100 samples a class came with the start, of which 90 are left, and two are new.
    batch = feature_point(features[:8], features.mean(dim=0)).probs
    new = torch.stack([batch[targets[:8] == y].mean(dim=0) for y in range(C)])
    torch.testing.assert_close(loss.centroids.probs, (90 * start + 2 * new) / 92)


def test_ema_centroids_equal_a_loop_of_decayed_counted_means():
    centroids = EMACentroids(C, D, momentum=0.7).double()
    means, counts = list(centroids.probs.clone()), [0.0] * C
    for step in range(8):
        points = feature_point(normal(5, D, seed=step))
        targets = hard_labels(5, C - 1 if step < 5 else C, seed=step)  # class 3 is absent at first
        centroids.update(class_statistics(points, targets, C), None)
        for y in range(C):
            own = points.probs[targets == y]
            if len(own):
                total = 0.7 * counts[y] + len(own)
                means[y] = (0.7 * counts[y] * means[y] + own.sum(dim=0)) / total
                counts[y] = total
        torch.testing.assert_close(centroids.probs, torch.stack(means), rtol=0, atol=1e-12)
    point = centroids()
    torch.testing.assert_close(point.probs, torch.stack(means), rtol=0, atol=1e-12)
    torch.testing.assert_close(point.log_density, (D * torch.stack(means)).log(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("objective", ["theorem1", "centroid", "released", "harmonic", "rivals"])
def test_loss_moves_ema_centroids_in_training_only(objective):
    loss = NCMILoss(C, D, objective, centroids="ema", center="none").double()
    start = loss.centroids().probs.clone()
    features, targets = normal(6, D), torch.tensor([0, 1, 1, 2, 0, 1])
    loss.eval()
    loss(features, targets)
    assert torch.equal(loss.centroids().probs, start)
    loss.train()
    loss(features, targets)
    p = feature_point(features).probs
    expected = torch.stack([p[targets == y].mean(dim=0) for y in range(3)] + [start[3]])
    torch.testing.assert_close(loss.centroids().probs, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("targets", [[7, 3, 7, 9], [0, 3, 7, 9], [0, 0, 0, 5]])
def test_compact_rows_do_not_disturb_class_0(targets):
    # With more classes than samples, spare rows of the statistics point to class 0.
    targets = torch.tensor(targets)
    loss = NCMILoss(50, 64, "theorem1", centroids="ema", center="none").double()
    start, features = loss.centroids().probs.clone(), normal(4, 64)
    loss(features, targets)
    p, after = feature_point(features).probs, loss.centroids().probs
    for y in range(50):
        own = p[targets == y]
        if len(own):
            torch.testing.assert_close(after[y], own.mean(dim=0), rtol=0, atol=1e-12)
        else:
            assert torch.equal(after[y], start[y])


def centroids_gradient(objective, sparse, num_classes=30):
    torch.manual_seed(1)
    centroids = LearnedCentroids(num_classes, 40, sparse=sparse).double()
    loss = NCMILoss(num_classes, 40, objective, centroids=centroids).double()
    loss(normal(8, 40), torch.tensor([4, 4, 20, 7, 20, 29, 7, 4])).backward()
    assert centroids.xi.grad is not None
    return centroids


@pytest.mark.parametrize("objective", ["theorem1", "centroid"])
def test_sparse_gradient_equals_the_dense_one_and_touches_the_batch_only(objective):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="NCMILoss: the objective's denominator")
        sparse, dense = centroids_gradient(objective, True), centroids_gradient(objective, False)
    assert sparse.xi.grad.is_sparse
    assert not dense.xi.grad.is_sparse
    torch.testing.assert_close(sparse.xi.grad.to_dense(), dense.xi.grad)
    assert set(sparse.xi.grad.coalesce().indices().flatten().tolist()) <= {0, 4, 7, 20, 29}
    before = sparse.xi.detach().clone()
    torch.optim.SGD([sparse.xi], lr=1.0).step()
    moved = (sparse.xi.detach() != before).any(dim=1).nonzero().flatten().tolist()
    assert moved == [4, 7, 20, 29]


@pytest.mark.parametrize("kind", KINDS)
def test_class_means_start(kind):
    loss = NCMILoss(C, D, centroids=kind(C, D, start="class_means")).double()
    features, targets = normal(20, D) + 1, torch.arange(20) % C
    with pytest.raises(RuntimeError, match=r"Call loss\.start_from_class_means\(features, targets\)"):
        loss(features, targets)
    loss.start_from_class_means(features, targets)
    center = features.mean(dim=0)
    p = feature_point(features, center).probs
    expected = torch.stack([p[targets == y].mean(dim=0) for y in range(C)])
    torch.testing.assert_close(loss.centroids().probs.detach(), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(loss.center.mean, center)
    assert bool(loss(features, targets).isfinite())


def test_class_means_start_leaves_ignored_samples_out():
    features, targets = normal(9, D), torch.tensor([0, 1, 2, 3, -100, 0, 1, 2, -100])
    losses = [NCMILoss(C, D, centroids="fixed").double() for _ in range(2)]
    keep = targets >= 0
    losses[0].start_from_class_means(features, targets)
    losses[1].start_from_class_means(features[keep], targets[keep])
    torch.testing.assert_close(losses[0].state_dict(), losses[1].state_dict())


def test_class_means_start_needs_every_class_and_changes_nothing_without():
    loss = NCMILoss(C, D)
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    with pytest.raises(ValueError, match=r"needs samples of every class.*none of \[2, 3\]"):
        loss.start_from_class_means(normal(6, D).float(), torch.tensor([0, 1, 0, 1, 0, 1]))
    assert all(torch.equal(value, before[name]) for name, value in loss.state_dict().items())


def test_class_means_start_takes_the_largest_share_of_a_soft_label():
    features, targets = normal(12, D), torch.arange(12) % C
    soft = 0.7 * oracle.one_hot(targets, C) + 0.3 / C
    losses = [NCMILoss(C, D, centroids="fixed").double() for _ in range(2)]
    losses[0].start_from_class_means(features, targets)
    losses[1].start_from_class_means(features, soft)
    torch.testing.assert_close(losses[0].state_dict(), losses[1].state_dict())


def train(loss, optimizer=None, steps=150):
    features, targets = normal(6, D, dtype=torch.float32), hard_labels(6, C)
    for _ in range(steps):
        loss.zero_grad()
        loss(features, targets).backward()
        if optimizer:
            optimizer.step()


def test_centroids_that_never_move_are_reported_once():
    loss = NCMILoss(C, D)
    with pytest.warns(
        UserWarning, match=r"no optimiser has moved them in 100 training steps.*parameter_groups"
    ) as seen:
        train(loss, steps=250)
    assert len(seen) == 1


def test_centroids_that_move_are_not_reported():
    loss, model = NCMILoss(C, D), torch.nn.Linear(2, 2)
    train(loss, torch.optim.SGD(parameter_groups(model, loss, lr=0.1)))


@pytest.mark.parametrize("settings", [{"fused": True}, {"foreach": True}, {"foreach": False}])
def test_no_kind_of_optimiser_is_overlooked(settings):
    for simplex in ("nsf", "softmax"):
        loss = NCMILoss(C, D, simplex=simplex)
        train(loss, torch.optim.SGD(loss.parameters(), lr=0.1, **settings))


def test_centroids_that_should_not_move_are_not_reported():
    frozen = NCMILoss(C, D)
    frozen.centroids.xi.requires_grad_(False)
    features = normal(6, D, dtype=torch.float32).requires_grad_()
    for loss in (frozen, NCMILoss(C, D, centroids="fixed"), NCMILoss(C, D, centroids="ema"), NCMILoss(C, D).eval()):
        for _ in range(120):
            loss(features, hard_labels(6, C))


def test_tiny_temperature_keeps_tracked_means_finite():
    loss = NCMILoss(C, D, centroids="ema", temperature=0.002)
    features = normal(8, D, dtype=torch.float32).requires_grad_()
    for _ in range(3):
        value = loss(features, hard_labels(8, C))
        value.backward()
    assert bool(value.isfinite())
    assert bool(features.grad.isfinite().all())


def test_bad_settings_get_a_sentence():
    with pytest.raises(ValueError, match=r"got 'ortogonal'\. Did you mean 'orthogonal'"):
        LearnedCentroids(C, D, start="ortogonal")
    with pytest.raises(ValueError, match=r"EMACentroids: momentum must lie in \[0, 1\)"):
        EMACentroids(C, D, momentum=1.0)
    with pytest.raises(ValueError, match=r"got 'learnt'\. Did you mean 'learned'"):
        NCMILoss(C, D, centroids="learnt")
    with pytest.raises(ValueError, match=r"centroids must be 4 × 6 with simplex='nsf'; got 4 × 7"):
        NCMILoss(C, D, centroids=LearnedCentroids(C, 7))
    with pytest.raises(ValueError, match=r"simplex='softmax'"):
        NCMILoss(C, D, centroids=LearnedCentroids(C, D, simplex="softmax"))
    assert torch.equal(simplex_point(torch.zeros(1, 4)).probs, torch.full((1, 4), 0.25))
