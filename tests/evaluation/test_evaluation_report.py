"""evaluate: every decision on every part against its own classifier, temperatures, notes, and records that survive JSON."""

import json
import math
from dataclasses import replace

import pytest
import torch
from batches import normal
from evaluated import C, D, Head, Plain, blobs, nearest

from ncmi import CentroidClassifier, LinearProbe, NCMIMetric
from ncmi.evaluation import Evaluation, KNNClassifier, LabelledFeatures, calibration_error, decisions, evaluate, fitted
from ncmi.evaluation.scores import places
from ncmi.evaluation.temperature import fit_temperature

NAMES = ("own", "class means", "fitted centroids", "linear probe", "knn")


def part(size, seed, spread=2.5, **settings):
    return LabelledFeatures(*blobs(size, spread, seed, **settings))


@pytest.fixture(scope="module")
def parts():
    return part(120, 1), part(50, 2), part(70, 3)


@pytest.fixture(scope="module")
def criterion():
    criterion = nearest().float()
    # Means of other samples, so that they are better than chance and not those of the training part.
    criterion.loss.start_from_class_means(*blobs(40, 2.5, 9))
    return criterion


@pytest.fixture(scope="module")
def evaluation(criterion, parts):
    criterion.train()
    result = evaluate(criterion, *parts)
    assert criterion.training
    return result


def expected_score(log_probs, targets, top=5):
    """n, top-1, top-5, likelihood and calibration of one decision, by loops."""
    right = best = 0
    likelihood = 0.0
    for row, y in zip(log_probs.tolist(), targets.tolist(), strict=True):
        order = sorted(range(len(row)), key=lambda v, row=row: -row[v])
        right, best = right + (order[0] == y), best + (y in order[:top])
        likelihood -= row[y]
    n = len(targets)
    return [n, right / n, best / n, likelihood / n, calibration_error(log_probs.exp(), targets)]


def check(score, log_probs, targets):
    found = [score.n, score.top1, score.top5, score.nll, score.ece]
    assert found == pytest.approx(expected_score(log_probs, targets), rel=1e-4, abs=1e-5)


def classifiers(criterion, train):
    return {
        "own": CentroidClassifier.from_loss(criterion.loss),
        "class means": CentroidClassifier.from_class_means(criterion.loss, [(train.features, train.targets)]),
    }


def test_centroid_decisions_equal_the_heads(evaluation, criterion, parts):
    train, validation, test = parts
    for name, classifier in classifiers(criterion, train).items():
        classifier.fit_temperature(validation.features, validation.targets)
        for part_name, rows in zip(("train", "validation", "test"), parts, strict=True):
            log_probs = classifier.predict_proba(rows.features).double().log()
            check(evaluation.decision(name).parts[part_name], log_probs, rows.targets)
        assert evaluation.decision(name).note == "temperature fitted on the validation part"
    assert evaluation.decision("class means").parts["test"].top1 == classifier.score(test.features, test.targets)
    assert 0.4 < evaluation.decision("class means").parts["test"].top1 < 1


@pytest.mark.parametrize("start", ["own", "class means"])
def test_fitted_centroids_equal_the_head_fitted_from_its_centroids_or_class_means(criterion, parts, start, monkeypatch):
    if start == "class means":
        monkeypatch.setattr(type(criterion), "centroids", None)
    train, validation, _ = parts
    held_out = (validation.features, validation.targets)
    classifier = classifiers(criterion, train)[start].fit(train.features, train.targets, held_out)
    classifier.fit_temperature(*held_out)
    found = evaluate(criterion, *parts).decision("fitted centroids")
    for part_name, rows in zip(("train", "validation", "test"), parts, strict=True):
        check(found.parts[part_name], classifier.predict_proba(rows.features).double().log(), rows.targets)
    assert found.note == f"strength {classifier.strength_:.2g}; temperature fitted on the validation part"


def test_probe_and_neighbours_equal_the_heads(evaluation, parts):
    train, *_ = parts
    probe = LinearProbe(C, D).fit(train.features, train.targets)
    knn = KNNClassifier(C, D).fit(train.features, train.targets)
    for part_name, rows in zip(("train", "validation", "test"), parts, strict=True):
        log_probs = probe(rows.features).double().log_softmax(dim=1).detach()
        check(evaluation.decision("linear probe").parts[part_name], log_probs, rows.targets)
        score = evaluation.decision("knn").parts[part_name]
        if part_name != "train":
            assert score.top1 == knn.score(rows.features, rows.targets)
            assert score.ece == pytest.approx(
                calibration_error(knn.predict_proba(rows.features), rows.targets), abs=1e-6
            )
    votes, targets = (torch.cat(pieces) for pieces in zip(*knn.leave_one_out(), strict=True))
    assert evaluation.decision("knn").parts["train"].top1 == (votes.argmax(dim=1) == targets).double().mean().item()
    assert evaluation.decision("knn").note == "train by leave-one-out"


def test_information_equals_the_metric(evaluation, criterion, parts):
    for name, rows in zip(("train", "validation", "test"), parts, strict=True):
        metric = NCMIMetric.from_loss(criterion.loss)
        metric.update(rows.features, rows.targets)
        found = evaluation.information[name]
        assert found.n == len(rows)
        for field, value in metric.compute().items():
            assert getattr(found, field) == pytest.approx(float(value), rel=1e-9)


def test_rows_name_their_source_and_take_time(evaluation):
    assert [row.name for row in evaluation.decisions] == list(NAMES)
    sources = [row.source for row in evaluation.decisions]
    assert sources == ["learned q", "class means", "fitted centroids", "linear probe", "20 nearest neighbours"]
    assert all(row.seconds > 0 for row in evaluation.decisions)


def test_without_validation_the_temperature_is_that_of_train(criterion, parts):
    train, _, test = parts
    found = evaluate(criterion, train, None, test, decisions=["own", "own"])
    assert [row.name for row in found.decisions] == ["own"]
    assert found.decision("own").note == "temperature fitted on the train part"
    classifier = classifiers(criterion, train)["own"].fit_temperature(train.features, train.targets)
    check(found.decision("own").parts["test"], classifier.predict_proba(test.features).double().log(), test.targets)
    assert sorted(found.information) == ["test", "train"]


def test_logits_need_no_temperature(parts):
    torch.manual_seed(0)
    head, (train, validation, test) = Head(), parts
    found = evaluate(head, train, validation, test, decisions=("own", "class means"))
    assert found.decision("own").note == ""
    assert found.decision("own").source == "head"
    check(found.decision("own").parts["test"], head.scores(test.features).double().log_softmax(1), test.targets)
    assert "validation part" in found.decision("class means").note


def test_many_classes_have_a_top_five_and_a_vote_for_no_one_is_never_in_it():
    train, test = (part(240, seed, spread=4.0, num_classes=12) for seed in (1, 2))
    found = evaluate(Plain(normal(12, D).float()), train, None, test)
    for row in found.decisions:
        assert row.parts["test"].top1 < row.parts["test"].top5 < 1
    knn = KNNClassifier(12, D).fit(train.features, train.targets)
    votes = knn.scores(test.features)
    best = votes.topk(5, dim=1)
    hit = ((best.indices == test.targets.unsqueeze(1)) & (best.values > 0)).any(dim=1)
    assert found.decision("knn").parts["test"].top5 == hit.double().mean().item()
    assert found.decision("knn").parts["test"].nll is None  # some right class has no vote


def test_places_by_loops():
    scores = torch.tensor([[1.0, 2.0, 2.0], [-math.inf, 0.0, -math.inf], [0.0, 0.0, 0.0]])
    targets = torch.tensor([2, 2, 1])
    assert places(scores, targets).tolist() == [1, 3, 1]


def test_large_sets_are_fitted_on_a_part_and_say_so(monkeypatch, criterion, parts):
    monkeypatch.setattr(decisions, "_FITTED_NUMBERS", 60 * D)
    monkeypatch.setattr(decisions, "_LEAVE_ONE_OUT", 40)
    monkeypatch.setattr(fitted, "_TEMPERATURE_NUMBERS", 20 * C)
    found = evaluate(criterion, *parts)
    assert found.decision("linear probe").note == "fitted on a stratified part, 60 of 120 training samples"
    assert found.decision("linear probe").parts["train"].n == 120
    assert found.decision("fitted centroids").note.startswith(
        "fitted on a stratified part, 60 of 120 training samples; "
    )
    assert "train on a stratified part, 40 of 120 samples" in found.decision("knn").note
    assert found.decision("knn").parts["train"].n == 40
    assert found.decision("own").note == "temperature fitted on the validation part (20 of 50 samples)"


def test_few_training_samples(criterion):
    train = part(9, 1, spread=0.1)
    found = evaluate(criterion, train, decisions=["knn"])
    assert found.decision("knn").source == "8 nearest neighbours"
    assert "k = 8, all that 9 training samples have" in found.decision("knn").note
    with pytest.raises(ValueError, match="two or more training samples"):
        evaluate(criterion, part(1, 1), decisions=["knn"])


def test_a_separated_or_collapsed_fit_of_the_temperature_is_a_note(criterion):
    found = evaluate(criterion, part(40, 1, spread=0.01), decisions=["class means"]).decision("class means")
    assert "no minimum: all decided right" in found.note
    assert found.parts["train"].top1 == 1
    same = LabelledFeatures(torch.ones(8, D), torch.arange(8) % C)
    found = evaluate(Plain(torch.eye(D)[:C]), same, decisions=["class means"])
    assert "all scores are equal" in found.decision("class means").note
    assert found.information["train"].ncmi is None
    assert "NCMI has no value (Γ is zero)" in found.table()
    assert fit_temperature(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64)).value == 1


def test_records_survive_json(evaluation):
    text = json.dumps(evaluation.to_dict(), allow_nan=False)
    assert Evaluation.from_dict(json.loads(text)) == evaluation
    assert Evaluation.from_dict({**json.loads(text), "checkpoint": "last"}) == evaluation
    for wrong in ({}, {**evaluation.to_dict(), "decisions": [{"name": "own"}]}, {"decisions": 3}):
        with pytest.raises(ValueError, match="from_dict needs a record that to_dict made"):
            Evaluation.from_dict(wrong)


def test_table(evaluation):
    assert "top-5" not in evaluation.table(), "all classes are among the five best"
    lines = replace(evaluation, num_classes=6).table().splitlines()
    assert lines[0].split("|")[1:-1][0].strip() == "decision (%)"
    assert [cell.strip() for cell in lines[0].split("|")[2:-1]] == [
        "test top-1",
        "test top-5",
        "test ECE",
        "validation top-1",
        "train top-1",
    ]
    assert len({len(line) for line in lines[:7]}) == 1
    for line, row in zip(lines[2:7], evaluation.decisions, strict=True):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        test = row.parts["test"]
        numbers = [test.top1, test.top5, test.ece, row.parts["validation"].top1, row.parts["train"].top1]
        assert cells == [row.source, *(f"{100 * number:.2f}" for number in numbers)]
    assert [line.split(":")[0] for line in lines[8:11]] == ["test", "validation", "train"]
    assert "20 nearest neighbours: train by leave-one-out" in lines


def test_guards(evaluation, criterion, parts):
    train, validation, _ = parts
    with pytest.raises(ValueError, match="Did you mean 'linear probe'"):
        evaluate(criterion, train, decisions=["linear prob"])
    with pytest.raises(ValueError, match="a decision must be one of 'own'"):
        evaluation.decision("nobody")
    with pytest.raises(ValueError, match=r"evaluate, validation part: features must have shape \(B, 6\)"):
        evaluate(criterion, train, LabelledFeatures(validation.features[:, :5], validation.targets))
    with pytest.raises(ValueError, match=r"evaluate, train part: targets must lie in \[0, 3\]"):
        evaluate(criterion, LabelledFeatures(train.features, train.targets + 1))
    with pytest.raises(ValueError, match="no labelled sample"):
        evaluate(criterion, train, LabelledFeatures(torch.zeros(0, D), torch.zeros(0, dtype=torch.int64)))
    few = train.rows((train.targets != 2).nonzero().flatten())
    with pytest.raises(ValueError, match=r"none of \[2\]"):
        evaluate(criterion, few)
    assert evaluate(criterion, few, decisions=["own", "linear probe", "knn"]).num_classes == C
