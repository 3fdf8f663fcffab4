"""KNNClassifier against brute force: every similarity, every vote, one by one."""

import math

import pytest
import torch
from evaluated import C, D, blobs

from ncmi.evaluation import KNNClassifier, knn

K, TEMPERATURE = 5, 0.07


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def brute_force(train, labels, row, k=K, temperature=TEMPERATURE, without=None):
    """Shares of votes of one row."""
    others = [index for index in range(len(train)) if index != without]
    similarity = {index: cosine(train[index], row) for index in others}
    votes = [0.0] * C
    for index in sorted(others, key=lambda index: -similarity[index])[:k]:
        votes[labels[index]] += math.exp(similarity[index] / temperature)
    return [vote / sum(votes) for vote in votes]


def data():
    train, labels = blobs(60, spread=2.5, dtype=torch.float64)
    test, targets = blobs(30, spread=2.5, seed=7, dtype=torch.float64)
    return train, labels, test, targets


@pytest.mark.parametrize("numbers", [1, 150, 2**24])
@pytest.mark.parametrize("temperature", [TEMPERATURE, 1.0])
def test_equals_brute_force_in_any_chunks(monkeypatch, numbers, temperature):
    monkeypatch.setattr(knn, "_NUMBERS_A_CHUNK", numbers)
    train, labels, test, targets = data()
    classifier = KNNClassifier(C, D, K, temperature).fit(train, labels)
    rows, names = train.tolist(), labels.tolist()
    expected = torch.tensor(
        [brute_force(rows, names, row, temperature=temperature) for row in test.tolist()], dtype=torch.float64
    )
    torch.testing.assert_close(classifier.predict_proba(test), expected, rtol=1e-12, atol=1e-14)
    assert torch.equal(classifier.predict(test), expected.argmax(dim=1))
    assert classifier.score(test, targets) == (expected.argmax(dim=1) == targets).double().mean().item()
    assert 0.3 < classifier.score(test, targets) < 1


def test_leave_one_out_equals_brute_force(monkeypatch):
    monkeypatch.setattr(knn, "_NUMBERS_A_CHUNK", 420)  # seven rows
    train, labels, _, _ = data()
    classifier = KNNClassifier(C, D, K).fit(train, labels)
    rows, names = train.tolist(), labels.tolist()
    for indices in (None, torch.tensor([3, 59, 0])):
        votes, targets = (torch.cat(pieces) for pieces in zip(*classifier.leave_one_out(indices), strict=True))
        chosen = range(60) if indices is None else indices.tolist()
        expected = torch.tensor([brute_force(rows, names, rows[index], without=index) for index in chosen]).double()
        torch.testing.assert_close(votes / votes.sum(dim=1, keepdim=True), expected, rtol=1e-6, atol=1e-7)
        assert torch.equal(targets, labels[list(chosen)])


def test_only_directions_count_and_a_cold_vote_is_the_nearest():
    train, labels, test, _ = data()
    classifier = KNNClassifier(C, D, K, temperature=1e-4).fit(train * 1000, labels)
    nearest = KNNClassifier(C, D, 1).fit(train, labels)
    assert torch.equal(classifier.predict(test / 10), nearest.predict(test))
    assert bool(classifier.predict_proba(test).isfinite().all())


def test_a_row_of_zeros_is_far_from_all():
    train, labels, _, _ = data()
    shares = KNNClassifier(C, D, k=60).fit(train, labels).predict_proba(torch.zeros(1, D).double())
    torch.testing.assert_close(shares, torch.full((1, C), 0.25).double())


def test_half_precision_and_no_rows():
    train, labels, test, _ = data()
    classifier = KNNClassifier(C, D, K).fit(train.half(), labels)
    assert classifier.scores(test.half()).dtype == torch.float32
    assert classifier.scores(test[:0]).shape == (0, C)
    with torch.autocast("cpu", dtype=torch.float16):
        assert torch.equal(classifier.scores(test.half()), classifier.scores(test.half()).float())
    assert "60 training samples" in repr(classifier)


def test_guards():
    train, labels, test, _ = data()
    with pytest.raises(RuntimeError, match="Call fit"):
        KNNClassifier(C, D).predict(test)
    with pytest.raises(ValueError, match="k must be at least 1; got 0"):
        KNNClassifier(C, D, 0)
    with pytest.raises(ValueError, match=r"k=20 and 9 samples. Pass k=9"):
        KNNClassifier(C, D).fit(train[:9], labels[:9])
    with pytest.raises(ValueError, match=r"needs k below .* Pass k=8"):
        next(KNNClassifier(C, D, 9).fit(train[:9], labels[:9]).leave_one_out())
    with pytest.raises(ValueError, match="temperature must be positive"):
        KNNClassifier(C, D, temperature=0.0)
    with pytest.raises(ValueError, match="Pass num_features=5"):
        KNNClassifier(C, D, K).fit(train, labels).predict(test[:, :5])
    with pytest.raises(ValueError, match="num_classes must be at least 2"):
        KNNClassifier(1, D)
    with pytest.raises(ValueError, match="features must be finite"):
        KNNClassifier(C, D, K).fit(train * torch.nan, labels)
