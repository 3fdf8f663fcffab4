"""The items made of trainings: valid configs at every scale, and pieces that follow the rows."""

from pathlib import Path

import pytest
from experiments.reproduce.filled import fill, lines_of

from ncmi.criteria import create_criterion
from ncmi.experiments.cells import Cell
from ncmi.experiments.compare import check_comparison
from ncmi.experiments.folder import ComparisonFolder
from ncmi.experiments.reproduce import get_item
from ncmi.experiments.reproduce.ablation import loss_name
from ncmi.experiments.reproduce.item import SCALES
from ncmi.experiments.reproduce.parts import points, standing
from ncmi.experiments.take_over import take_over
from ncmi.report.drawing import style

TRAINED = ("table-cifar100", "table-imagenet", "table-wsi", "table-ablation", "figure-batch-size")
COMPARED = Path(__file__).parents[3] / "results" / "compare"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", TRAINED)
def test_comparisons_make_valid_configs(name, scale):
    for comparison in get_item(name).comparisons(scale).values():
        if len(comparison.rates) == 1:
            check_comparison(comparison)
        for group in comparison.groups:
            config = comparison.config(Cell(group, comparison.rates[0], 0))
            assert config.scale == scale
            create_criterion(config.loss.name, num_classes=100, num_features=128, **config.loss.options)
        names = {comparison.fingerprint(Cell(group, comparison.rates[0], 0)) for group in comparison.groups}
        assert len(names) == len(comparison.groups), "no run twice"


def test_the_papers_protocol():
    cifar, imagenet = (get_item(name).comparisons("full") for name in ("table-cifar100", "table-imagenet"))
    assert set(cifar) == {f"resnet{n}{part}" for n in (18, 34, 50, 101) for part in ("", "-supcon-large")}
    assert {(part.base.epochs, part.seeds) for part in cifar.values()} == {(200, 3)}
    assert {(part.base.batch_size, *part.rates) for part in cifar.values()} == {(64, 0.1), (1024, 0.5)}
    for part in imagenet.values():
        data = part.base.data
        assert (part.base.epochs, part.base.batch_size, part.rates) == (1000, 1024, [0.5])
        assert (data.train_resolution, data.test_resolution) == (224, 280)
    sizes = [part.base.batch_size for part in get_item("figure-batch-size").comparisons("full").values()]
    assert sizes == [16, 32, 64, 128, 256, 1024]


def test_the_slides_need_no_run_of_their_own(tmp_path):
    for data, comparison in get_item("table-wsi").comparisons("small").items():
        folder = ComparisonFolder(tmp_path / data)
        source = COMPARED / f"wsi-{data}" / "rows.jsonl"
        assert take_over(folder, comparison, [source]) == len(source.read_text().splitlines())
        folder.join(comparison)
        assert "Not finished" not in folder.table().markdown()


def test_cifar100_with_ncmi_ahead_and_behind(tmp_path):
    def shares(part, factors):
        if factors["loss"] == "ncmi":
            return (0.5, 0.8) if factors["model"] == "resnet18_slim" else (0.1, 0.43)
        return (0.3, 0.4) if factors["loss"] == "ce" else (0.25, 0.42)

    item, place = fill(tmp_path, "table-cifar100", "small", shares)
    text = item.piece(place).markdown
    (ce,) = lines_of(text, "CE ")
    assert ce == ["CE", "30.00", "40.00", "75.44", "30.00", "40.00", "76.42"]
    assert lines_of(text, "SupCon ")[0] == ["SupCon", "–", "42.00", "73.00", "–", "42.00", "74.53"]
    assert lines_of(text, "NCMI-CC ") == [["NCMI-CC", "50.00", "–", "76.45", "10.00", "–", "76.97"]]
    assert lines_of(text, "NCMI-LP ") == [["NCMI-LP", "–", "80.00", "76.94", "–", "43.00", "77.54"]]
    assert "- resnet18_slim: NCMI-CC (50.00) is ahead of CE (30.00), the best of the others, by 20.00 points." in text
    assert "- resnet34_slim: NCMI-CC (10.00) is behind CE (30.00), the best of the others, by 20.00 points." in text
    assert (
        "- resnet34_slim: NCMI-LP (43.00) is level with LS (42.00), the best of the others: +1.00 points, within"
        in text
    )
    assert "cannot be compared" in text
    assert "(fitted)" not in text
    assert "Not finished" not in text


def test_fitted_centroids_have_a_line_where_rows_have_them(tmp_path):
    judged = {
        "table-cifar100": "- resnet18_slim: NCMI-CC (fitted) (37.00) is level with CE (40.00)",
        "figure-batch-size": "- NCMI-CC (fitted) beside CE, LP and SupCon, LP: level at 16, 32",
    }
    for name, sentence in judged.items():
        item, place = fill(tmp_path, name, "small", lambda part, factors: (0.3, 0.4), fitted=0.37)
        text = item.piece(place).markdown
        (line,) = lines_of(text, "NCMI-CC (fitted)")
        assert "37.00" in line
        assert sentence in text, "what is fitted after training is judged beside probes"
    item, place = fill(tmp_path, "table-ablation", "small", lambda part, factors: (0.3, 0.4), fitted=0.37)
    text = item.piece(place).markdown
    assert "| CC (fitted) |" in text
    assert text.count("37.00") == 8


def test_imagenet_has_two_scores(tmp_path):
    item, place = fill(tmp_path, "table-imagenet", "small", lambda part, factors: (0.3, 0.4))
    text = item.piece(place).markdown
    (ce,) = lines_of(text, "CE ")
    assert ce == ["CE", "30.00", "100.00", "40.00", "100.00", "76.24", "92.42"]
    assert "trained at 32 pixels, evaluated at 40" in text
    (large,) = lines_of(text, "SupCon (large batch)")
    assert large[1:] == ["–"] * 4 + ["78.70", "94.30"]


def test_slides_say_which_differences_are_clear(tmp_path):
    def shares(part, factors):
        return (0.8, 0.7) if (factors["model"], factors["loss"]) == ("abmil", "ncmi") else (0.6, 0.75)

    item, place = fill(tmp_path, "table-wsi", "small", shares)
    text = item.piece(place).markdown
    probe = "macro F1 is higher with NCMI for 0 of 4 models; intervals that leave out zero: 0 higher, 1 lower"
    assert f"- tcga-lung, linear probe: {probe}." in text
    own = "macro AUC is higher with NCMI for 1 of 4 models; intervals that leave out zero: 1 higher, 0 lower"
    assert own in text
    assert lines_of(text, "tcga-lung | abmil")[0][-2:] == ["52.2 / 85.3", "68.0 / 86.6"]


def test_the_ablation_says_what_leaving_out_costs(tmp_path):
    paper = {"nsf": {"ema": 0.5, "none": 0.4}, "softmax": {"ema": 0.01, "none": 0.02}}

    def shares(part, factors):
        for simplex, centers in paper.items():
            for center, value in centers.items():
                if factors["loss"] == loss_name("harmonic", simplex, center):
                    return value, 0.6
        return (0.3, 0.3) if factors["loss"] == loss_name("released", "nsf", "ema") else (0.35, 0.3)

    item, place = fill(tmp_path, "table-ablation", "small", shares)
    text = item.piece(place).markdown
    assert "- harmonic: leaving out the centre costs 10.00 points (CC, 50.00 to 40.00)." in text
    assert "- harmonic: leaving out NSF costs 49.00 points (CC, 50.00 to 1.00); it comes to nothing." in text
    assert "- harmonic: the order of the lines by CC is the paper's." in text
    assert "- released: leaving out both gains 5.00 points (CC, 30.00 to 35.00)." in text
    assert "- released: the order of the lines by CC is not the paper's." in text


def test_the_figure_of_batch_sizes(tmp_path):
    def shares(part, factors):
        return None if part == "batch-1024" else ({"ncmi": 0.5}.get(factors["loss"], 0.3), int(part[6:]) / 1000)

    item, place = fill(tmp_path, "figure-batch-size", "small", shares)
    with style():
        piece = item.piece(place)
    (axis,) = piece.figures["batch-size"].axes
    drawn = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines}
    assert list(drawn) == ["CE", "CE, LP", "SupCon, LP", "NCMI-CC", "NCMI-LP"]
    assert drawn["SupCon, LP"] == ([16, 32, 64, 128, 256], pytest.approx([1.6, 3.2, 6.4, 12.8, 25.6]))
    assert "](batch-size.svg)" in piece.markdown
    assert "0.0375, 0.075, 0.15, 0.3, 0.6, 1." in piece.markdown
    assert "- NCMI-CC beside CE: ahead at 16, 32, 64, 128, 256." in piece.markdown
    assert "- NCMI-LP beside CE, LP and SupCon, LP: level at 16, 32, 64, 128, 256." in piece.markdown
    assert "- SupCon, LP is best at 256; at 16 it is 24.00 points lower." in piece.markdown
    assert "- CE is best at 16, the smallest." in piece.markdown
    assert "Not finished: ce, supcon, ncmi." in piece.markdown
    assert piece.markdown.count("scale small, 5 epochs, 1150 training samples") == 1


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", TRAINED)
def test_a_piece_of_no_rows_says_so(tmp_path, name, scale):
    item, place = fill(tmp_path, name, scale, lambda part, factors: None)
    with style():
        text = item.piece(place).markdown
    assert "Not finished: " in text
    assert "NCMI stands" not in text


def test_failed_runs_are_named(tmp_path):
    from experiments.made_up_rows import made_up_row

    item, place = fill(tmp_path, "table-ablation", "small", lambda part, factors: None)
    (comparison,) = item.comparisons("small").values()
    loss = loss_name("released", "softmax", "none")
    place.part("losses").rows.append(made_up_row(comparison, loss, 0.3, 0, failed="training diverged."))
    assert f"- {loss}: failed, training diverged." in item.piece(place).markdown


def test_standings_need_both_sides():
    assert standing("NCMI-CC", None, {"CE": 0.3}, 100) is None
    assert standing("NCMI-CC", 0.3, {"CE": None}, 100) is None
    assert points("Title:", []) == ""
