"""Numbers behind the charts: against loops, in the corners, and bounded for very many classes."""

import json

import pytest
import torch
from made_outputs import made_outputs

from ncmi.evaluation.calibration import confidence_error
from ncmi.report import figures
from ncmi.report.figures import calibration_chart, curve_charts, embed, look_inside
from ncmi.report.records import RunRecord, read_runs


def run_with(outputs):
    return RunRecord("made", None, {}, outputs=outputs)


def test_confusion_against_a_loop(runs):
    (run,) = read_runs([runs.ncmi])
    inside = look_inside(run.outputs)
    names, size = run.outputs.class_names, 10
    expected = {}
    for target, decision in zip(run.outputs.targets.tolist(), run.outputs.decisions.tolist(), strict=True):
        pair = names[target], names[decision]
        expected[pair] = expected.get(pair, 0) + 1
    for i, row in enumerate(inside.names):
        for j, column in enumerate(inside.names):
            assert inside.confusion["values"][i * size + j] == expected.get((row, column), 0)
            assert (inside.confusion["levels"][i * size + j] == "0") == ((row, column) not in expected)
    assert {each.name: each.right for each in inside.accuracies} == {
        name: expected.get((name, name), 0) for name in names
    }
    shares = [each.right / each.count for each in inside.accuracies]
    assert shares == sorted(shares)
    counts = [pair.count for pair in inside.confused]
    assert counts == sorted(counts, reverse=True)
    assert all(expected[pair.first, pair.second] == pair.count for pair in inside.confused)


def test_classes_that_are_alike_stand_side_by_side():
    # Classes 0, 2, 4 are near each other, and 1, 3, 5.
    place = torch.tensor([0.0, 10.0, 0.1, 10.1, 0.2, 10.2])
    inside = look_inside(made_outputs(6, divergences=(place - place.unsqueeze(1)).abs()))
    groups = [int(name[-1]) % 2 for name in inside.names]
    assert groups in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])
    nearest = inside.nearest[0]
    assert (int(nearest.first[-1]) - int(nearest.second[-1])) % 2 == 0
    divergences = [pair.divergence for pair in inside.nearest]
    assert divergences == sorted(divergences)
    closest = [
        int(level) for level, value in zip(inside.distances["levels"], inside.distances["values"], strict=True) if value
    ]
    assert max(closest) == 8


def test_a_pair_of_the_nearest_counts_mistakes_in_both_directions():
    inside = look_inside(made_outputs(2))
    assert [(pair.count, pair.divergence) for pair in inside.nearest] == [(2, 1.0)]
    assert [pair.count for pair in inside.confused] == [1, 1]
    assert inside.distances["levels"] == "0880", "both directions have one shade"


def test_without_distances_classes_are_ordered_by_confusion():
    outputs = made_outputs(5, divergences=torch.zeros(0, 0))
    inside = look_inside(outputs)
    assert sorted(inside.names) == sorted(outputs.class_names)
    assert (inside.distances, inside.nearest) == (None, [])


def test_a_class_without_distance_keeps_the_others():
    divergences = made_outputs(4).divergences
    divergences[1], divergences[:, 1] = torch.nan, torch.nan
    inside = look_inside(made_outputs(4, divergences=divergences))
    assert None in inside.distances["values"]
    assert len(inside.nearest) == 3
    json.dumps(inside.distances, allow_nan=False)


def test_very_many_classes_show_those_with_most_mistakes(monkeypatch):
    monkeypatch.setattr(figures, "_MOST_CLASSES", 4)
    outputs = made_outputs(9)
    outputs.decisions[outputs.targets >= 5] = 0
    inside = look_inside(outputs)
    assert sorted(inside.names) == ["class 5", "class 6", "class 7", "class 8"]
    assert all(each == (each.name, 0, 10) for each in inside.accuracies)
    points = embed(outputs, inside.names)
    assert len(points) == 40
    assert {point[3] for point in points} == {-1}, "decided for a class that is not shown"


def test_one_class_and_no_sample_of_a_class():
    inside = look_inside(made_outputs(1))
    assert (inside.names, inside.nearest, inside.distances) == (["class 0"], [], None)
    outputs = made_outputs(3, names=["a", "b", "c", "never seen"], divergences=torch.rand(4, 4))
    assert [each.name for each in look_inside(outputs).accuracies] == ["a", "b", "c"]


def test_calibration_is_that_of_the_outputs(runs):
    records = read_runs([runs.old, runs.ncmi])
    chart = calibration_chart(records)
    (series,) = chart["series"]
    assert series["run"] == 1
    outputs = records[1].outputs
    right = outputs.decisions == outputs.targets
    assert series["error"] == confidence_error(outputs.confidences, right)
    assert sum(point[2] for point in series["points"]) == len(right)
    weighted = sum(point[1] * point[2] for point in series["points"]) / len(right)
    assert weighted == pytest.approx(100 * right.double().mean().item(), abs=1e-2)
    assert calibration_chart([records[0]]) is None


def test_curves_of_two_runs(runs):
    records = read_runs([runs.ncmi, runs.stopped])
    charts = {chart["title"]: chart for chart in curve_charts(records)}
    accuracy = charts["accuracy, %"]
    assert accuracy["keys"] == ["validation, top-1", "training batches"]
    kinds = [(series["run"], series["dashed"]) for series in accuracy["series"]]
    assert kinds == [(0, False), (0, True), (1, False), (1, True)]
    assert accuracy["series"][0]["points"][-1][1] == pytest.approx(
        100 * records[0].rows[-1]["validation_top1"], rel=1e-4
    )
    assert charts["learning rate"]["keys"] == []
    assert curve_charts([RunRecord("empty", None, {})]) == []


def test_tsne_repeats_and_tells_classes_apart():
    outputs = made_outputs(3, each=20)
    outputs.features[:] = 0.02 * outputs.features + torch.eye(8, dtype=torch.float16)[outputs.targets.long()]
    points = embed(outputs, outputs.class_names)
    assert points == embed(outputs, outputs.class_names)
    assert [point[2] for point in points] == outputs.targets.tolist()
    assert [point[3] for point in points] == outputs.decisions.tolist()
    places = torch.tensor(points)[:, :2]
    assert float(places.min()) == 0.0
    assert float(places.max()) == 1.0
    near = torch.cdist(places, places).fill_diagonal_(torch.inf).argmin(dim=1)
    assert (outputs.targets[near] == outputs.targets).double().mean() > 0.9


@pytest.mark.parametrize("width", [1, 2])
def test_tsne_of_narrow_features(width):
    assert len(embed(made_outputs(2, width=width), ["class 0", "class 1"])) == 20


def test_tsne_of_nothing_to_spread():
    assert embed(made_outputs(2, each=2), ["class 0", "class 1"]) is None
    assert embed(made_outputs(3, features=torch.ones(30, 8).half()), ["class 0", "class 1", "class 2"]) is None
