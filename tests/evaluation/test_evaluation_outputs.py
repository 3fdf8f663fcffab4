"""outputs_of: what a decision said of each test sample agrees with the table, stays small, and survives its file."""

import math

import pytest
import torch
from evaluated import C, D, blobs, nearest

from ncmi.evaluation import LabelledFeatures, Outputs, evaluate, outputs, outputs_of
from ncmi.evaluation.calibration import confidence_error
from ncmi.tensor_files import read_tensors, save_checkpoint

NAMES = tuple(f"class {y}" for y in range(C))


@pytest.fixture(scope="module")
def parts():
    sizes = {"train": (120, 1), "validation": (50, 2), "test": (70, 3)}
    return {name: LabelledFeatures(*blobs(size, 2.5, seed)) for name, (size, seed) in sizes.items()}


@pytest.fixture(scope="module")
def criterion():
    criterion = nearest().float()
    criterion.loss.start_from_class_means(*blobs(40, 2.5, 9))
    return criterion


@pytest.mark.parametrize("decision", ["own", "class means", "linear probe"])
def test_accuracy_and_calibration_are_those_of_the_table(criterion, parts, decision):
    found = outputs_of(criterion, parts, decision, NAMES)
    row = evaluate(criterion, **parts, decisions=[decision]).decision(decision)
    right = found.decisions == found.targets
    assert found.decision == row.source
    assert right.double().mean().item() == pytest.approx(row.parts["test"].top1)
    assert confidence_error(found.confidences, right) == pytest.approx(row.parts["test"].ece, abs=1e-6)
    assert (found.part, found.class_names) == ("test", list(NAMES))
    assert (found.targets == parts["test"].targets).all()


def test_divergences_against_a_loop(criterion, parts):
    found = outputs_of(criterion, parts, "own", NAMES).divergences
    probs = criterion.points(parts["train"].features.double()).probs
    means = [probs[parts["train"].targets == y].mean(dim=0).tolist() for y in range(C)]
    for u in range(C):
        for v in range(C):
            expected = sum(p * math.log(p / q) for p, q in zip(means[u], means[v], strict=True))
            assert float(found[u, v]) == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_a_class_without_training_samples_has_no_distance(criterion, parts):
    kept = (parts["train"].targets != 2).nonzero().flatten()
    found = outputs_of(criterion, {**parts, "train": parts["train"].rows(kept)}, "own", NAMES).divergences
    unknown = torch.zeros(C, C, dtype=torch.bool)
    unknown[2], unknown[:, 2] = True, True
    assert found.isnan().equal(unknown)


def test_the_sample_is_stratified_and_bounded(criterion, parts, monkeypatch):
    assert len(outputs_of(criterion, parts, "own", NAMES).sample) == 70
    monkeypatch.setattr(outputs, "_SAMPLE", 20)
    found = outputs_of(criterion, parts, "own", NAMES)
    assert found.features.shape == (20, D)
    assert found.features.dtype == torch.float16
    assert found.targets[found.sample].bincount().tolist() == [5] * C
    monkeypatch.setattr(outputs, "_SAMPLE_NUMBERS", 8 * D)
    assert len(outputs_of(criterion, parts, "own", NAMES).sample) == 8


@pytest.mark.parametrize("scale", [1e8, 1e-12, 0.0])
def test_features_of_any_size_fit_half_precision(criterion, parts, scale):
    test = LabelledFeatures(scale * parts["test"].features, parts["test"].targets)
    found = outputs_of(criterion, {**parts, "test": test}, "own", NAMES).features
    assert found.isfinite().all()
    assert float(found.abs().amax()) == (1.0 if scale else 0.0)


def test_very_many_classes_have_no_divergences(criterion, parts, monkeypatch):
    monkeypatch.setattr(outputs, "_DIVERGENCE_CLASSES", C - 1)
    assert outputs_of(criterion, parts, "own", NAMES).divergences.shape == (0, 0)


def test_validation_stands_in_for_a_missing_test_part(criterion, parts):
    two = {name: parts[name] for name in ("train", "validation")}
    found = outputs_of(criterion, two, "own", NAMES)
    assert (found.part, len(found.targets)) == ("validation", 50)
    assert outputs_of(criterion, {"train": parts["train"]}, "own", NAMES) is None


def test_outputs_survive_their_file(criterion, parts, tmp_path):
    found = outputs_of(criterion, parts, "own", NAMES)
    save_checkpoint(tmp_path / "outputs.pt", found.to_dict())
    again = Outputs.from_dict(read_tensors(tmp_path / "outputs.pt", "test"))
    for name, value in found.to_dict().items():
        other = getattr(again, name)
        assert value.equal(other) if isinstance(value, torch.Tensor) else value == other, name


@pytest.mark.parametrize("record", [{}, [], {"part": "test"}])
def test_other_records_are_refused(record):
    with pytest.raises(ValueError, match="needs a record that to_dict made"):
        Outputs.from_dict(record)
