"""The item on merged classes, from made-up run folders: what it reads and keeps; its words follow from the rows."""

from dataclasses import replace

import pytest
import torch
from experiments.reproduce.filled import lines_of

from ncmi.evaluation import Outputs
from ncmi.experiments.cells import Cell
from ncmi.experiments.reproduce.item import SCALES, Place
from ncmi.experiments.reproduce.measured import MeasuredRows
from ncmi.experiments.reproduce.merged_classes import ITEM, PART, TITLES, inside_distance, merged_groups
from ncmi.training.run_folder import RunFolder

THEOREM1, CENTROID, HARMONIC, CE = TITLES
NAMES = ["cat", "dog", "sea_ship", "truck"]
# NCMI, accuracy and shared classes of each epoch, and the class that each of the four is decided as at the end.
RUNS = {
    THEOREM1: ([0.5, 0.01], [0.4, 0.5], [1, 2], [0, 0, 2, 2]),
    CENTROID: ([0.6, 0.4], [0.4, 0.9], [1, 0], [0, 1, 2, 3]),
    HARMONIC: ([0.6, 0.2], [0.5, 1.0], [1, 0], [0, 1, 2, 3]),
    CE: ([0.7, 0.3], [0.5, 1.0], [1, 0], [0, 1, 2, 3]),
}


def made_outputs(decided, each=50):
    """Every class ``each`` times, all decided alike; class means are as far apart as their numbers."""
    place = torch.arange(4.0)
    targets = torch.arange(4).repeat_interleave(each)
    decisions = torch.tensor(decided)[targets]
    nothing = torch.zeros(0)
    distances = (place - place.unsqueeze(1)).abs()
    return Outputs("test", "own", NAMES, targets.int(), decisions.int(), nothing, distances, nothing.int(), nothing)


def made_run(folder, config, ncmi, top1, shared, decided):
    run = RunFolder(folder)
    run.create(config, {"commit": "c0ffee0"})
    for epoch, values in enumerate(zip(ncmi, top1, shared, strict=True), start=1):
        names = ("validation_ncmi", "validation_top1", "shared_classes")
        row = {"epoch": epoch, **dict(zip(names, values, strict=True)), "train_loss": 1.0}
        warning = "warning" if values[2] > 1 else None
        run.append(
            {**row, "validation_cmi": 0.001, "validation_gamma": 0.1, "decided_classes": 3.5, "warning": warning}
        )
    run.save_outputs(made_outputs(decided))
    run.write_json(run.summary, {"evaluation": {"decisions": [{"parts": {"test": {}}}]}, "headline": "own"})


@pytest.fixture
def place(tmp_path):
    said = []
    return replace(Place(tmp_path / "out", tmp_path / "runs", "smoke"), say=said.append), said


def make_runs(place, runs):
    comparison = ITEM.comparisons("smoke")[PART]
    for loss, values in runs.items():
        cell = Cell({"loss": loss}, comparison.rates[0], 0)
        made_run(place.runs / PART / comparison.cell_name(cell), comparison.config(cell), *values)


def words(place, runs):
    make_runs(place, runs)
    ITEM.measure(place)
    return ITEM.piece(place).markdown


def test_all_scales_train_the_same_four_and_validate():
    for scale in SCALES:
        (comparison,) = ITEM.comparisons(scale).values()
        assert comparison.factors == {"loss": list(TITLES)}
        assert comparison.base.data.validation > 0
        assert comparison.seeds == len(comparison.rates) == 1
    assert [bool(ITEM.needs(scale)) for scale in SCALES] == [False, True, True]


def test_rows_hold_path_and_groups_and_are_made_once(place):
    place, said = place
    make_runs(place, RUNS)
    ITEM.measure(place)
    ITEM.measure(place)
    rows = {row["loss"]: row for row in MeasuredRows(place.out).rows()}
    assert len(MeasuredRows(place.out).rows()) == len(said) == 4
    row = rows[THEOREM1]
    assert [epoch["validation_ncmi"] for epoch in row["path"]] == [0.5, 0.01]
    assert "train_loss" not in row["path"][0]
    assert (row["groups"], row["warned"], row["top1"]) == ([["cat", "dog"], ["sea_ship", "truck"]], 2, 0.5)
    assert (rows[CE]["groups"], rows[CE]["warned"], rows[CE]["inside"]) == ([], None, None)


def test_the_piece_says_that_classes_merged(place):
    text = words(place[0], RUNS)
    assert (
        "`theorem1` ends with an NCMI of 0.01, where `harmonic` has 0.2; it decides 50.0 % of the test set right, 50.0 points "
        "less; 2 of 4 classes share the decision of another, there 0."
    ) in text
    assert "more shared decisions: `theorem1` merged classes." in text
    assert ["theorem1", "2", "4", "0.6", "cat, dog; sea ship, truck"] in lines_of(text, "theorem1 ")
    assert ["harmonic", "0", "0", "–", "–"] in lines_of(text, "harmonic ")
    assert "![NCMI, accuracy and shared decisions over the epochs for theorem1, " in text


@pytest.mark.parametrize(
    "values",
    [
        ([0.5, 0.01], [0.4, 1.0], [1, 2], [0, 1, 2, 3]),  # as accurate
        ([0.5, 0.30], [0.4, 0.5], [1, 2], [0, 0, 2, 2]),  # NCMI higher
        ([0.5, 0.01], [0.4, 0.5], [1, 0], [0, 0, 2, 2]),  # no decision shared
        ([0.5, None], [0.4, 0.25], [3, 3], [0, 0, 0, 0]),  # all outputs one, and NCMI not known
    ],
)
def test_the_piece_does_not_claim_what_the_rows_do_not_show(place, values):
    text = words(place[0], {**RUNS, THEOREM1: values})
    assert "these runs do not show classes that merge" in text
    assert "merged classes." not in text


def test_a_difference_that_chance_explains_is_called_so(place):
    text = words(place[0], {HARMONIC: RUNS[HARMONIC], CENTROID: RUNS[CENTROID]})
    assert "0.0 points less, which chance explains" in text
    assert "every class is most often decided as a class that no other is" in text


def test_the_picture_has_three_panels_with_a_line_for_each(place):
    place, _ = place
    assert ITEM.piece(place).figures == {}
    assert "Nothing is measured yet" in ITEM.piece(place).markdown
    make_runs(place, RUNS)
    ITEM.measure(place)
    (figure,) = ITEM.piece(place).figures.values()
    assert [len(axis.get_lines()) for axis in figure.axes] == [4, 4, 4]
    assert len({line.get_color() for line in figure.axes[2].get_lines()}) == 4
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(TITLES.values())


def test_a_run_that_is_not_there_is_named(place):
    place, said = place
    make_runs(place, {HARMONIC: RUNS[HARMONIC]})
    ITEM.measure(place)
    assert len(MeasuredRows(place.out).rows()) == 1
    assert sum("has no finished run in" in line for line in said) == 3


def test_a_run_that_failed_is_named(place):
    place, said = place
    make_runs(place, {HARMONIC: RUNS[HARMONIC]})
    comparison = ITEM.comparisons("smoke")[PART]
    cell = Cell({"loss": CE}, comparison.rates[0], 0)
    config = comparison.config(cell).to_dict()
    row = {"loss": CE, "failed": "the loss is nan.", "fingerprint": comparison.fingerprint(cell)}
    place.part(PART).rows.append({**row, "config": config, "options": config["loss"]["options"]})
    ITEM.measure(place)
    assert sum("has no finished run in" in line for line in said) == 2
    assert "cross-entropy failed: the loss is nan." in ITEM.piece(place).markdown


def test_groups_are_by_the_most_frequent_decision_and_ties_are_right():
    outputs = made_outputs([0, 1, 2, 3], each=2)
    outputs.decisions[:] = torch.tensor([0, 0, 0, 1, 0, 0, 3, 3])  # the second class is decided as either
    assert merged_groups(outputs) == [[0, 2]]
    assert inside_distance(outputs) == pytest.approx(2 / (20 / 12))
    absent = replace(made_outputs([2, 1, 2, 3]), targets=torch.arange(4).repeat_interleave(50).int() % 2 * 3)
    assert merged_groups(absent) == [], "a class that no sample has is in no group"
    assert inside_distance(replace(outputs, divergences=torch.zeros(0, 0))) is None
