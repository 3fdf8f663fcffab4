"""The study of the default: margins over the better decision of cross-entropy, what intervals say, the search on validation."""

import json

from experiments.reproduce.filled import fill

from ncmi.experiments.reproduce import objective_study
from ncmi.experiments.reproduce.objective_baselines import BASELINES
from ncmi.experiments.reproduce.objective_search import HARMONIC, SEARCHES
from ncmi.experiments.reproduce.objective_study import ITEM, comparisons


def shares(part, factors):
    if part.startswith("baselines"):
        return None  # many, and of one table alone
    if part.startswith("search"):
        return 0.2, 0.25
    if factors["loss"] == "ce":
        return 0.40, 0.45
    return (0.44, 0.50) if part != "narrow" else (0.30, 0.35)


def table_after(text, title):
    lines = text[text.index(title) :].split("\n\n")[1].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_margins_are_to_the_better_decision_of_cross_entropy(tmp_path):
    item, place = fill(tmp_path, "objective-study", "small", shares, fitted=0.48)
    table = table_after(item.piece(place).markdown, "**The default against cross-entropy.**")
    (line,) = (line for line in table if line[0].startswith("CIFAR-100, 20,000 images, 15"))
    assert line[:3] == ["CIFAR-100, 20,000 images, 15 epochs, D = 128", "top-1", "5"]
    assert [cell.split()[0] for cell in line[3:6]] == ["40.00", "48.00", "45.00"], "head, fitted centroids, probe"
    assert [cell.split()[0] for cell in line[6:9]] == ["44.00", "48.00", "50.00"]
    # Fitted centroids stand against fitted ones, if those are cross-entropy's best; head and probe are for the others.
    assert [cell.split()[0] for cell in line[9:]] == ["−1.00", "0.00", "+5.00"]
    assert [line[1] for line in table if line[0].startswith("TCGA lung")] == ["macro F1", "macro AUC"]


def test_objectives_stand_beside_cross_entropy_as_far_as_they_have_run(tmp_path):
    def by_objective(part, factors):
        if factors["loss"] == "ncmi:objective=theorem1":
            return None
        return (0.42, 0.47) if factors["loss"] == HARMONIC else shares(part, factors)

    item, place = fill(tmp_path, "objective-study", "small", by_objective, fitted=0.48)
    table = {line[0]: line[1:] for line in table_after(item.piece(place).markdown, "**The objectives.**")}
    assert list(table) == ["ncmi", *(f"ncmi:objective={name}" for name in ("harmonic", "centroid", "released"))]
    assert table[HARMONIC][2:5] == ["42.00 ± 0.00", "48.00 ± 0.00", "47.00 ± 0.00"]
    assert [cell.split()[0] for cell in table[HARMONIC][5:]] == ["−3.00", "0.00", "+2.00"]


def test_a_set_without_the_default_is_left(tmp_path):
    def without_default(part, factors):
        return None if part == "narrow" and factors["loss"] == "ncmi" else shares(part, factors)

    item, place = fill(tmp_path, "objective-study", "small", without_default)
    text = item.piece(place).markdown
    table = table_after(text, "**The default against cross-entropy.**")
    assert "CIFAR-100, 10,000 images, 8 epochs, D = 64 < C" not in [line[0] for line in table]
    assert "- CIFAR-100, 10,000 images, 8 epochs, D = 64 < C\n" in text


def test_intervals_beside_zero_are_named(tmp_path):
    item, place = fill(tmp_path, "objective-study", "small", shares, fitted=0.48)
    above, below = (line for line in item.piece(place).markdown.splitlines() if line.startswith("- wholly"))
    assert "CIFAR-100, 20,000 images, 15 epochs, D = 128 (linear probe, top-1)" in above
    assert "D = 64 < C (linear probe, top-1)" in below
    assert "D = 64 < C (linear probe, top-1)" not in above


def set_validation(place, part, scores):
    """Change the validation score of some losses in the rows of a part, and spoil their test scores."""
    path = place.part(part).rows.path
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if row["loss"] in scores:
            own = row["decisions"]["own"]
            own["validation"] |= dict.fromkeys(("top1", "macro_f1", "macro_auc"), scores[row["loss"]])
            own["test"] |= dict.fromkeys(("top1", "macro_f1", "macro_auc"), 0.0)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_search_is_ranked_by_validation_alone_over_all_sets(tmp_path):
    item, place = fill(tmp_path, "objective-study", "small", shares)
    for part in SEARCHES:
        set_validation(place, part, {f"{HARMONIC}:exponent=16": 0.8, HARMONIC: 0.7, f"{HARMONIC}:exponent=4": 0.7})
    set_validation(place, "search", {f"{HARMONIC}:exponent=16": 0.1})
    table = table_after(item.piece(place).markdown, "**The search.**")
    ranks = {line[0]: line[1] for line in table}
    # `harmonic` with its own exponent and with 4 are second and third in four sets and first and second in the fifth.
    assert ranks[HARMONIC] == ranks[f"{HARMONIC}:exponent=4"] == f"{(4 * 2.5 + 1.5) / 5:.1f}"
    assert ranks[f"{HARMONIC}:exponent=16"] == f"{(4 * 1 + len(table)) / 5:.1f}"
    assert [line[1] for line in table] == sorted(ranks.values(), key=float)
    (line,) = (line for line in table if line[0] == f"{HARMONIC}:exponent=16")
    assert line[2:4] == ["10.00 ± 0.00", "80.00 ± 0.00"]


def test_finalists_are_compared_by_validation_where_both_have_run(tmp_path):
    def without_harmonic_on_digits(part, factors):
        return None if part == "digits" and "harmonic" in factors["loss"] else shares(part, factors)

    item, place = fill(tmp_path, "objective-study", "small", without_harmonic_on_digits)
    set_validation(place, "tcga-lung", {"ncmi": 0.6, HARMONIC: 0.7})
    set_validation(place, "cifar100", {"ncmi": 0.5, HARMONIC: 0.4})
    set_validation(place, "fashion-mnist", {"ncmi": 0.5, HARMONIC: 0.4})
    text = item.piece(place).markdown
    table = {line[0]: line[1:] for line in table_after(text, "**The finalists.**")}
    assert table["TCGA lung bags, ten splits"][:4] == ["10", "60.00 ± 0.00", "70.00 ± 0.00", "+10.00 [+10.00, +10.00]"]
    assert "digits, MLP" not in table
    # The first where both are equal, as on breast.
    assert f"Ahead: ncmi on {len(table) - 1}, {HARMONIC} on 1 of {len(table)}." in text


def test_a_setting_that_lacks_a_set_is_not_ranked(tmp_path):
    def without_softmax_on_digits(part, factors):
        return None if part == "search-digits" and "softmax" in factors["loss"] else shares(part, factors)

    item, place = fill(tmp_path, "objective-study", "small", without_softmax_on_digits)
    names = [line[0] for line in table_after(item.piece(place).markdown, "**The search.**")]
    assert HARMONIC in names
    assert f"{HARMONIC}:simplex=softmax" not in names


def test_rates_of_centroids_stand_beside_the_rule(tmp_path):
    item, place = fill(tmp_path, "objective-study", "small", shares)
    table = table_after(item.piece(place).markdown, "**ξ's rate.**")
    assert sorted(line[0] for line in table) == ["ξ's rate 0.1", "ξ's rate 0.3", "ξ's rate 1, the rule", "ξ's rate 3"]


def test_rates_of_centroids_in_a_longer_training_stand_beside_the_rule(tmp_path):
    item, place = fill(tmp_path, "objective-study", "small", shares)
    text = item.piece(place).markdown
    table = text[text.index("**ξ's rate in a longer training.**") :].split("\n\n")[1].splitlines()[2:]
    titles = [line.split("|")[1].strip() for line in table]
    assert sorted(titles) == ["ξ's rate 0.1", "ξ's rate 1, the rule", "ξ's rate 3"]
    assert all(line.split("|")[2].strip() == "1" for line in table), "the one seed that all of them have"


def test_batch_sizes_stand_in_order_with_the_distance_of_their_ends(tmp_path):
    def by_size(part, factors):
        grows = {"batch-16": 0.01, "batch-1024": 0.03, "batch-1024-steps": 0.05}.get(part, 0.02)
        found = shares(part, factors)
        return found and tuple(share + grows for share in found)

    item, place = fill(tmp_path, "objective-study", "small", by_size)
    text = item.piece(place).markdown
    table = table_after(text, "**Batch sizes, `ncmi`.**")
    assert [line[0] for line in table] == ["16", "64", "128", "256", "1024", "1024"]
    assert [line[1] for line in table] == ["15"] * 5 + ["130"]
    assert table[0][4:] == ["41.00 ± 0.00", "46.00 ± 0.00", "45.00 ± 0.00", "51.00 ± 0.00"]
    assert (
        "moves by 2.00 points, between batches of 16 and 1024; the largest standard deviation over seeds is 0.00"
        in text
    )


def test_as_many_steps_in_large_batches_as_in_small_ones():
    runs = comparisons("small")
    many, few = runs["batch-1024-steps"].base, runs["fashion-mnist"].base
    size = few.data.train_size
    assert size is not None
    assert size // many.batch_size * many.epochs == size // few.batch_size * few.epochs


def test_one_batch_size_is_no_comparison(tmp_path):
    def one_size(part, factors):
        return None if part.startswith("batch-") and factors["loss"] != "ce" else shares(part, factors)

    item, place = fill(tmp_path, "objective-study", "small", one_size)
    assert "Batch sizes" not in item.piece(place).markdown


def test_every_loss_stands_beside_the_default_on_every_set(tmp_path):
    def by_loss(part, factors):
        if not part.startswith("baselines"):
            return None
        own, probe = {"ce": (0.40, 0.45), "ncmi": (0.44, 0.44)}.get(factors["loss"], (0.30, 0.35))
        return (None, probe) if factors["loss"] == "supcon" else (own, probe)

    item, place = fill(tmp_path, "objective-study", "small", by_loss)
    text = item.piece(place).markdown
    section = text[text.index("**Every baseline.**") :].split("\n\n")
    own, probe = (
        {
            line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
            for line in table.splitlines()[2:]
        }
        for table in section[1:3]
    )
    assert own["ncmi"] == ["1.0", *["44.00 ± 0.00"] * 5]
    assert own["ce"][0] == "2.0"
    assert "supcon" not in own, "it has no decision of its own"
    assert probe["ce"][0] == "1.0"
    assert probe["supcon"][1:] == [*["35.00 ± 0.00"] * 3, "–", "–"], "bags have one view"
    verdicts = [line for line in section[4].splitlines() if line.startswith("- ")]
    losses = len(comparisons("small")["baselines-digits"].groups)
    # By own decisions all but the default and SupCon; by the probe all but the default and cross-entropy, on bags but SupCon.
    assert verdicts[0] == f"- wholly above zero {5 * (losses - 2) + 3 * (losses - 2) + 2 * (losses - 3)} times;"
    assert verdicts[1].startswith("- wholly below zero 5 times: CIFAR-100, linear probe, ce −1.00 [−1.00, −1.00]; ")


def test_baselines_wait_for_the_default(tmp_path):
    def without(part, factors):
        wanted = part.startswith("baselines") and (part, factors["loss"]) != ("baselines-digits", "ncmi")
        return (0.4, 0.4) if wanted else None

    item, place = fill(tmp_path, "objective-study", "small", without)
    assert "Every baseline" not in item.piece(place).markdown
    assert all(comparison.seeds >= 3 for name, comparison in comparisons("small").items() if name in BASELINES)


def test_what_has_not_run_is_said(tmp_path):
    item, place = fill(tmp_path, "objective-study", "small", lambda part, factors: None)
    text = item.piece(place).markdown
    assert "wholly above zero: none." in text
    assert "- CIFAR-100, 20,000 images, 15 epochs, D = 128\n" in text
    assert "- the search, CIFAR-100\n" in text
    assert "| set" not in text
    assert "The search" not in text
    assert "Batch sizes" not in text
    assert "longer training" not in text


def test_every_part_of_the_page_has_trainings():
    assert set(objective_study._SETS) < set(comparisons("small")) == set(comparisons("full"))
    assert all(comparison.base for comparison in comparisons("small").values())
    assert set(comparisons("smoke")) == {"digits"}
    assert ITEM.needs("small")
    assert not ITEM.needs("smoke")
