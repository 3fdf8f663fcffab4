"""Tables of slides, which have several scores and a second factor; and tables where some seeds are missing."""

import csv
import json

import pytest
from made_up_rows import RECIPE, as_slides, by_fingerprint, made_up_row

from ncmi.experiments.cells import Comparison
from ncmi.experiments.compare import check_comparison
from ncmi.experiments.kinds import BAGS, IMAGES, data_kind
from ncmi.experiments.plan import make_plan, make_plans
from ncmi.experiments.statistics import paired_difference
from ncmi.experiments.table import make_table

MODELS = ["abmil", "transmil"]
F1 = {
    ("abmil", "ce"): (0.5, 0.6, 0.7), ("abmil", "ncmi"): (0.51, 0.63, 0.72),
    ("transmil", "ce"): (0.4, 0.4, 0.4), ("transmil", "ncmi"): (0.3, 0.4, 0.5),
}  # fmt: skip


@pytest.fixture
def slides(tmp_path):
    """A comparison of slides; folds are the slides' own matter, so seeds go where any data let them go."""
    path = tmp_path / "slides.yaml"
    path.write_text(json.dumps({**RECIPE, "data": {"name": "bags:made-up"}, "model": {"name": "abmil"}}))

    def make(rates, seeds=3, **settings):
        factors = {"model": MODELS, "loss": ["ce", "ncmi"]}
        return Comparison(str(path), factors, seeds, rates, **{"seed_keys": ("seed", "data.split_seed"), **settings})

    return make


def cells(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_the_kind_of_data_says_what_is_shown():
    assert data_kind("bags:tcga-lung") is BAGS
    assert data_kind("folder:/data/bags:1") is data_kind("cifar100") is data_kind("bags") is IMAGES
    assert (BAGS.seed_keys, IMAGES.seed_keys) == (("seed", "data.fold"), ("seed",))


def test_slides_are_compared_with_ce_of_the_same_model(slides):
    comparison = slides([0.1])
    rows = [
        as_slides(made_up_row(comparison, loss, 0.1, seed, model=model), own=(value, 0.9), probe=(value, 0.8))
        for (model, loss), values in F1.items()
        for seed, value in enumerate(values)
    ]
    table = make_table(comparison, make_plans(comparison, by_fingerprint(rows)))
    lines = cells(table.markdown())
    assert lines[0][:8] == [
        "model", "loss", "rate", "n", "own, macro F1", "own, macro AUC", "probe, macro F1", "probe, macro AUC",
    ]  # fmt: skip
    assert lines[0][8:] == [*(f"{title} − ce" for title in lines[0][4:8]), "seconds an epoch", "peak memory"]
    assert lines[2][:6] == ["abmil", "ce", "0.1", "3", "60.00 ± 10.00", "90.00 ± 0.00"]
    assert lines[3][8:10] == ["+2.00 [−0.48, +4.48]", "0.00 [0.00, 0.00]"]
    assert lines[5][:2] == ["transmil", "ncmi"]
    assert lines[5][8] == "0.00 [−24.84, +24.84]", "the reference is that of transmil"
    notes = "\n".join(table.notes)
    assert "macro F1 and macro AUC of the own decision and of the linear probe in %" in notes
    assert "Differences are to ce with the same model, paired by seed" in notes
    assert "900 to 902 training samples" in notes
    assert "seed k takes split k" in notes
    assert "would move" not in notes, "that is the deviation of a share, and of nothing else"
    record = list(csv.DictReader(table.csv().splitlines()))[1]
    difference = paired_difference(dict(enumerate(F1["abmil", "ncmi"])), dict(enumerate(F1["abmil", "ce"])))
    assert float(record["own_macro_f1_difference_high"]) == difference.high
    assert {"own_top1_mean", "own_balanced_accuracy_mean", "class_means_macro_auc_deviation"} <= set(record)
    assert not any("intervals" in name or "_n_" in name for name in record)


def test_the_rate_of_slides_is_chosen_by_both_scores(slides):
    comparison = slides([0.03, 0.1, 0.3], seeds=1)
    rows = [
        as_slides(made_up_row(comparison, "ce", rate, 0, validation=rate, model="abmil"), own=pair)
        for rate, pair in ((0.03, (0.6, 0.6)), (0.1, (0.5, 0.9)), (0.3, (0.65, None)))
    ]
    plan = make_plan(comparison, {"model": "abmil", "loss": "ce"}, by_fingerprint(rows))
    assert plan.chosen == 0.1
    notes = make_table(comparison, [plan]).notes
    assert any("chosen by the mean of macro F1 and macro AUC on validation at seed 0" in note for note in notes)


def test_models_of_slides_are_those_for_bags(slides):
    check_comparison(slides([0.1, 0.3], overrides=["data.validation=0"]))
    comparison = slides([0.1])
    comparison.factors["model"] = ["abmil", "timm:anything", "tranmil"]
    with pytest.raises(ValueError, match=r"Did you mean 'transmil'"):
        check_comparison(comparison)


def test_a_difference_says_how_many_seeds_it_has_if_they_are_fewer(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(RECIPE))
    comparison = Comparison(str(path), {"loss": ["ce", "ncmi"]}, 3, [0.1])
    rows = [made_up_row(comparison, "ncmi", 0.1, seed, test=0.5 + 0.1 * seed) for seed in range(3)]
    rows += [made_up_row(comparison, "ce", 0.1, seed) for seed in range(2)]
    rows.append(made_up_row(comparison, "ce", 0.1, 2, failed="training diverged: far."))
    del rows[0]["decisions"]["class means"]
    table = make_table(comparison, make_plans(comparison, by_fingerprint(rows)))
    line = cells(table.markdown())[3]
    assert line[5] == "65.00 ± 7.07 (n = 2)"
    assert line[6] == "+5.00 [−58.53, +68.53] (n = 2)"
    assert cells(table.markdown())[2][3] == "50.00 ± 0.00"
    record = list(csv.DictReader(table.csv().splitlines()))[1]
    assert (record["n"], record["own_top1_difference_n"]) == ("3", "2")


def test_seconds_are_those_of_the_fastest_run_at_any_rate(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(RECIPE))
    comparison = Comparison(str(path), {"loss": ["ce"]}, 2, [0.03, 0.1, 0.3], ["epochs=4"])
    rows = [made_up_row(comparison, "ce", rate, 0, validation=1 - abs(rate - 0.1)) for rate in (0.03, 0.1)]
    rows.append(made_up_row(comparison, "ce", 0.3, 0, failed="training diverged: far."))
    rows.append(made_up_row(comparison, "ce", 0.1, 1))
    rows[0]["seconds"] = 2.0
    table = make_table(comparison, make_plans(comparison, by_fingerprint(rows)))
    assert (table.lines[0].rate, table.lines[0].seconds) == (0.1, 0.5)
    rows[1]["peak_memory_bytes"] = rows[3]["peak_memory_bytes"] = None  # as on Windows
    assert "–" in cells(make_table(comparison, make_plans(comparison, by_fingerprint(rows))).markdown())[2][-1]
