"""Dry runs: each run with what it is, which are done, and how long the rest takes."""

import pytest
from experiments.reproduce.filled import fill

from ncmi.cli import main
from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce import get_item
from ncmi.experiments.reproduce.dry_run import TFLOPS, _forward_flops, describe_item
from ncmi.experiments.reproduce.item import Item, Piece, Place


def described(item, tmp_path, scale, **options):
    return describe_item(item, Place(tmp_path / item.name, tmp_path, scale), results=tmp_path / "none", **options)


def test_runs_that_are_done_and_minutes_by_them(tmp_path):
    def shares(part, factors):
        return (0.3, 0.4) if factors["loss"] in ("ce", "supcon") else None

    item, _ = fill(tmp_path, "table-cifar100", "smoke", shares)
    lines = described(item, tmp_path, "smoke").splitlines()
    assert lines[0] == "table-cifar100 at scale smoke: CIFAR-100: ten losses."
    assert lines[1] == "losses · mlp · ce · batch 64 · rate 0.1 · seed 0 · 1 epoch: done in 2 s"
    assert lines[2] == "losses · mlp · label-smoothing · batch 64 · rate 0.1 · seed 0 · 1 epoch: to run"
    assert lines[-2] == "Runs: 10, left: 7."
    assert lines[-1] == "About 0 minutes on one core for what is left, by the runs that have finished."


def test_before_the_first_run_nothing_is_known(tmp_path):
    text = described(get_item("table-ablation"), tmp_path, "small")
    assert text.endswith("How long that takes is not known yet: no run of losses has finished.")
    text = described(get_item("table-wsi"), tmp_path, "small")
    assert "Runs: 48, left: 48, and more for seeds at the best rate." in text


def test_hours_by_arithmetic(tmp_path):
    text = described(get_item("table-imagenet"), tmp_path, "full")
    assert "It needs ImageNet in the folder `imagenet`" in text
    forward = {name: _forward_flops(name, "", 224) for name in ("resnet50", "resnet101")}
    assert forward["resnet50"] == pytest.approx(8.2e9, rel=0.02), "4.1 billion multiply-adds, as is published"
    # Six losses: SupCon's two views in half the epochs cost the same.
    total = 3 * sum(forward.values()) * 1_281_167 * 1000 * 6
    hours = total / (TFLOPS * 1e12) / 3600
    assert f"About {hours:,.0f} hours of training on one GPU that sustains 10 TFLOP/s" in text
    assert f"About {hours / 10:,.0f} hours" in described(get_item("table-imagenet"), tmp_path, "full", tflops=100)
    seconds = 3 * forward["resnet50"] * 1_281_167 / (8 * TFLOPS * 1e12)
    assert seconds == pytest.approx(6 * 60 + 39, rel=0.05), "the paper's time of an epoch on eight GPUs"


def test_every_seed_of_a_single_rate_is_listed(tmp_path):
    text = described(get_item("table-cifar100"), tmp_path, "full")
    assert "Runs: 144, left: 144." in text
    assert "resnet18 · resnet18 · ncmi:preset=released · batch 64 · rate 0.1 · seed 2 · 200 epochs: to run" in text


def test_slides_depend_on_their_patches(tmp_path):
    text = described(get_item("table-wsi"), tmp_path, "full")
    assert text.endswith("How long that takes depends on the patches of your slides, and is not known before.")


def test_an_item_without_comparisons(tmp_path):
    item = Item("none", "Nothing", lambda scale: {}, lambda place: Piece("", {}), measure=lambda place: None)
    assert described(item, tmp_path, "small").splitlines()[1:] == ["Measurements, which skip what is there."]


def test_operations_are_counted_only_where_images_are_known(tmp_path):
    comparison = Comparison("digits", {"loss": ["ce"]}, 1, [0.1])
    item = Item("digits", "Digits", lambda scale: {"part": comparison}, lambda place: Piece("", {}))
    end = "is not known: operations are counted for cifar100 and folder:imagenet, not digits."
    assert described(item, tmp_path, "full").endswith(end)


def test_the_command_lists_items_and_refuses_the_rest(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce"]) == 0
    assert capsys.readouterr().out.startswith("table-cifar100           accuracy on CIFAR-100")
    assert main(["reproduce", "table-ablation", "table-wsi", "--dry-run", "--scale", "full"]) == 0
    printed = capsys.readouterr().out
    assert "table-ablation at scale full" in printed
    assert "table-wsi at scale full" in printed
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"
    assert main(["reproduce", "table-ablatoin"]) == 1
    assert "Did you mean 'table-ablation'" in capsys.readouterr().err
    assert main(["reproduce", "table-wsi", "--tflops", "0"]) == 1
    assert "--tflops must be positive and finite; got 0." in capsys.readouterr().err
