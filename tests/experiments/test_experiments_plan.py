"""Plans, tables and the file of rows, from made-up rows."""

import csv
import json

import pytest
from made_up_rows import RECIPE, by_fingerprint, made_up_row

from ncmi.experiments.cells import Comparison
from ncmi.experiments.compare import check_comparison, describe
from ncmi.experiments.plan import make_plan, make_plans
from ncmi.experiments.rows import RowFile
from ncmi.experiments.statistics import paired_difference
from ncmi.experiments.table import make_table


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(RECIPE))
    return str(path)


def wanted(plan):
    return [(cell.rate, cell.seed) for cell in plan.missing]


def test_first_rates_then_seeds(recipe):
    comparison = Comparison(recipe, {"loss": ["ce"]}, 3, [0.1, 0.3, 1.0])
    plan = make_plan(comparison, {"loss": "ce"}, {})
    assert (wanted(plan), plan.chosen, plan.later) == ([(0.1, 0), (0.3, 0), (1.0, 0)], None, 2)
    rows = [
        made_up_row(comparison, "ce", rate, 0, validation=value) for rate, value in ((0.1, 0.7), (0.3, 0.8), (1.0, 0.9))
    ]
    plan = make_plan(comparison, {"loss": "ce"}, by_fingerprint(rows))
    assert (wanted(plan), plan.chosen) == ([(3.0, 0)], None), "the best rate was at the end"
    rows.append(made_up_row(comparison, "ce", 3.0, 0, failed="training diverged: it did."))
    plan = make_plan(comparison, {"loss": "ce"}, by_fingerprint(rows))
    assert (wanted(plan), plan.chosen, plan.rates) == ([(1.0, 1), (1.0, 2)], 1.0, [0.1, 0.3, 1.0, 3.0])
    assert list(plan.rows) == [0], "seed 0 is not run again"
    rows += [made_up_row(comparison, "ce", 1.0, seed) for seed in (1, 2)]
    assert make_plan(comparison, {"loss": "ce"}, by_fingerprint(rows)).finished


def test_several_seeds_choose_by_their_mean(recipe):
    comparison = Comparison(recipe, {"loss": ["ce"]}, 3, [0.1, 0.3, 1.0], rate_seeds=2)
    plan = make_plan(comparison, {"loss": "ce"}, {})
    cells = [(rate, seed) for rate in (0.1, 0.3, 1.0) for seed in (0, 1)]
    assert (wanted(plan), plan.chosen, plan.later) == (cells, None, 1)
    # At seed 0 alone 0.1 is ahead, and its next neighbour would be tried too.
    scores = {(0.1, 0): 0.9, (0.1, 1): 0.5, (0.3, 0): 0.8, (0.3, 1): 0.8}
    rows = [made_up_row(comparison, "ce", rate, seed, validation=value) for (rate, seed), value in scores.items()]
    plan = make_plan(comparison, {"loss": "ce"}, by_fingerprint(rows))
    assert (wanted(plan), plan.chosen) == ([(1.0, 0), (1.0, 1)], None), "a rate without all of its seeds has no score"
    # A rate at which a seed fails has lost, whatever the others reach, and its other seeds need not run.
    rows.append(made_up_row(comparison, "ce", 1.0, 0, failed="training diverged: far."))
    plan = make_plan(comparison, {"loss": "ce"}, by_fingerprint(rows))
    assert (wanted(plan), plan.chosen, plan.rates) == ([(0.3, 2)], 0.3, [0.1, 0.3, 1.0])
    assert (sorted(plan.trials[0.1]), sorted(plan.runs), len(plan.all_runs)) == ([0, 1], [0, 1], 4)
    rows.append(made_up_row(comparison, "ce", 0.3, 2))
    plans = make_plans(comparison, by_fingerprint(rows))
    assert plans[0].finished
    notes = "\n".join(make_table(comparison, plans).notes)
    assert "on validation in the mean of seeds 0 to 1, last epoch: ce 0.1, 0.3, 1 (failed)." in notes
    assert "Seeds 0 to 1 have chosen the rate, and count." in notes


def test_a_dry_run_lists_the_seeds_that_choose(recipe, tmp_path):
    comparison = Comparison(recipe, {"loss": ["ce"]}, 3, [0.1, 0.3], rate_seeds=2)
    file = RowFile(tmp_path / "out" / "rows.jsonl")
    file.append(made_up_row(comparison, "ce", 0.1, 1, validation=0.9))
    lines = describe(comparison, tmp_path / "out", tmp_path / "runs").splitlines()
    assert lines[:2] == ["ce · rate 0.1 · seed 0: to run", "ce · rate 0.1 · seed 1: done · validation 90.00 %"]
    assert lines[4:] == [
        "ce: then seed 2 at the best rate",
        f"cells left: 4, and more if a best rate is at the end of its grid. Rows are in {tmp_path / 'out'}.",
    ]


def test_the_choice_follows_the_headline_and_never_the_test_set(recipe):
    comparison = Comparison(recipe, {"loss": ["ce"]}, 1, [0.03, 0.1, 0.3])
    rows = []
    for rate, own, probe in ((0.03, 0.9, 0.1), (0.1, 0.5, 0.6), (0.3, 0.1, 0.2)):
        row = made_up_row(comparison, "ce", rate, 0, validation=own, test=rate, headline="linear probe")
        row["decisions"]["linear probe"]["validation"]["top1"] = probe
        rows.append(row)
    assert make_plan(comparison, {"loss": "ce"}, by_fingerprint(rows)).chosen == 0.1


def test_a_loss_that_fails_everywhere_gets_its_line(recipe):
    comparison = Comparison(recipe, {"loss": ["ce", "focal"]}, 2, [0.1, 0.3])
    rows = [
        made_up_row(comparison, "focal", rate, 0, failed="training diverged | badly.")
        for rate in (0.01, 0.03, 0.1, 0.3)
    ]
    rows += [
        made_up_row(comparison, "ce", rate, seed, validation=0.5 - abs(rate - 0.1))
        for rate in (0.03, 0.1, 0.3)
        for seed in (0, 1)
    ]
    plans = make_plans(comparison, by_fingerprint(rows))
    assert all(plan.finished for plan in plans)
    table = make_table(comparison, plans)
    assert table.lines[1].failed == "training diverged | badly."
    assert "failed: training diverged \\| badly." in table.markdown().splitlines()[3]


def test_the_table_is_what_a_hand_would_compute(recipe):
    comparison = Comparison(recipe, {"loss": ["ce", "ncmi"]}, 3, [0.1])
    own = {"ce": {0: 0.5, 1: 0.6, 2: 0.7}, "ncmi": {0: 0.51, 1: 0.63, 2: 0.72}}
    probe = {"ce": {0: 0.8, 1: 0.8, 2: 0.8}, "ncmi": {0: 0.7, 1: 0.8, 2: 0.9}}
    rows = [
        made_up_row(comparison, loss, 0.1, seed, test=own[loss][seed], probe=probe[loss][seed])
        for loss in own
        for seed in own[loss]
    ]
    table = make_table(comparison, make_plans(comparison, by_fingerprint(rows)))
    # Differences 1, 3 and 2 points: mean 2, deviation 1, half width 4.303 / √3 = 2.484.
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.markdown().splitlines()[:4]]
    assert lines[0] == [
        "loss", "rate", "n", "own decision", "linear probe", "class means", "own decision − ce", "linear probe − ce",
        "seconds an epoch", "peak memory",
    ]  # fmt: skip
    assert lines[2][:7] == ["ce", "0.1", "3", "60.00 ± 10.00", "80.00 ± 0.00", "60.00 ± 10.00", "–"]
    assert lines[3] == [
        "ncmi", "0.1", "3", "62.00 ± 10.54", "80.00 ± 10.00", "62.00 ± 10.54", "+2.00 [−0.48, +4.48]",
        "0.00 [−24.84, +24.84]", "2.00", "100 MB",
    ]  # fmt: skip
    record = list(csv.DictReader(table.csv().splitlines()))[1]
    difference = paired_difference(own["ncmi"], own["ce"])
    assert float(record["own_top1_difference_low"]) == difference.low
    assert float(record["own_top1_difference_high"]) == difference.high
    assert float(record["linear_probe_top1_mean"]) == pytest.approx(0.8)


def test_without_ce_there_are_no_differences_and_one_seed_has_no_deviation(recipe):
    comparison = Comparison(recipe, {"loss": ["ncmi"]}, 1, [0.1])
    table = make_table(comparison, make_plans(comparison, by_fingerprint([made_up_row(comparison, "ncmi", 0.1, 0)])))
    assert "ce" not in table.markdown().splitlines()[0].split()
    assert "difference" not in table.csv()
    assert "± 0" not in table.markdown()
    assert "paired" not in table.markdown()


def test_notes_say_what_a_reader_must_know(recipe):
    comparison = Comparison(recipe, {"loss": ["ce", "supcon", "cmic"]}, 2, [0.1, 0.3], ["batch_size=32"])
    rows = [made_up_row(comparison, "ce", 0.1 * 10**step, 0, validation=step) for step in (0, 1)]
    for rate in (0.1, 0.3, 1.0, 3.0):
        rows.append(made_up_row(comparison, "supcon", rate, 0, validation=rate, headline="linear probe"))
    rows.append(made_up_row(comparison, "supcon", 3.0, 1, failed="training diverged: far."))
    rows.append(made_up_row(comparison, "cmic", 0.1, 0, failed="training diverged: near."))
    notes = "\n".join(make_table(comparison, make_plans(comparison, by_fingerprint(rows))).notes)
    assert (
        "scale small, 1 epoch, 1150 training samples, abacus, 1 thread a run, torch 2, commits c0ffee0, decaf00-dirty."
        in notes
    )
    assert "`batch_size=32`, scale" in notes
    assert "Rates tried, chosen by accuracy on validation at seed 0, last epoch: ce 0.1, 0.3; supcon 0.1, 0.3" in notes
    assert "0.1, 0.3, 1, 3; cmic 0.1 (failed), 0.3." in notes
    assert (
        "supcon sees 2 views of each image in an epoch and gets 1 of 1 epochs: 2.00 times the images of the others."
        in notes
    )
    assert "supcon has no decision of its own and is judged by its linear probe" in notes
    assert "supcon: the best rate is still at the end of those tried." in notes
    assert "supcon, seed 1, failed: training diverged: far." in notes
    assert "separation_weight 0.1: a guess" in notes
    assert "Not finished: ce, cmic." in notes
    # √(0.5 · 0.5 / 100)
    assert (
        "over seeds alone (start, order, augmentation), on one training set and one test set. Seed 0 has chosen"
        in notes
    )
    assert "would move an accuracy by about ±5.00 points (one standard deviation). Intervals are not corrected" in notes


def test_a_dry_run_says_what_is_done(recipe, tmp_path):
    comparison = Comparison(recipe, {"loss": ["ce", "ncmi"]}, 3, [0.1, 0.3])
    file = RowFile(tmp_path / "out" / "rows.jsonl")
    for rate, value in ((0.03, None), (0.1, 0.9), (0.3, 0.8)):
        failed = "training diverged." if value is None else None
        file.append(made_up_row(comparison, "ce", rate, 0, validation=value, failed=failed))
    lines = describe(comparison, tmp_path / "out", tmp_path / "runs").splitlines()
    assert lines[0] == "ce · rate 0.03 · seed 0: failed: training diverged."
    assert lines[1] == "ce · rate 0.1 · seed 0: done · validation 90.00 %"
    assert lines[3] == "ce · rate 0.1 · seed 1: to run"
    assert lines[-2] == "ncmi: then seeds 1 to 2 at the best rate"
    assert lines[-1].startswith("cells left: 6")


def test_rates_need_something_to_be_chosen_on(recipe):
    settings = {"recipe": recipe, "factors": {"loss": ["ce"]}, "seeds": 1, "overrides": ["data.validation=0"]}
    with pytest.raises(ValueError, match=r"digits has none here. Set data.validation.* or name a single rate"):
        check_comparison(Comparison(**settings))
    check_comparison(Comparison(**settings, rates=[0.1]))
    # The same sentence, where only the rows can tell.
    comparison = Comparison(**settings, rates=[0.1, 0.3])
    row = made_up_row(comparison, "ce", 0.1, 0)
    del row["decisions"]["own"]["validation"]
    with pytest.raises(ValueError, match=r"Set data.validation"):
        make_plans(comparison, by_fingerprint([row]))
    row["headline"] = "knn"
    with pytest.raises(ValueError, match=r"ce is judged by its knn, which was not evaluated. Add it to the setting"):
        make_plans(comparison, by_fingerprint([row]))


def test_rows_survive_a_killed_writer_and_come_once(recipe, tmp_path):
    comparison = Comparison(recipe, {"loss": ["ce"]}, 2, [0.1])
    first, second = (made_up_row(comparison, "ce", 0.1, seed) for seed in (0, 1))
    file = RowFile(tmp_path / "new" / "rows.jsonl")
    assert file.rows() == {}
    file.append(first)
    with file.path.open("a") as torn:
        torn.write('{"recipe": "tor')
    assert file.rows() == by_fingerprint([first])
    file.append(second)
    file.append({**second, "rate": 7.0})
    assert file.path.read_text() == "".join(json.dumps(row) + "\n" for row in (first, second))
