"""The command line: what commands print and write."""

import csv
import json

import numpy as np
import pytest
import torch
import yaml
from command_line import copy_of, damaged_cifar100
from realdata import real_data
from training.bag_sets import make_npz

from ncmi.cli import main
from ncmi.models import create_model
from ncmi.recipes import list_recipes
from ncmi.tensor_files import read_tensors
from ncmi.training.config import make_config
from ncmi.training.run_folder import RunFolder


def test_recipes_are_listed_with_their_description(capsys):
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list_recipes()
    assert all(line.endswith(".") and len(line.split()) > 3 for line in lines)


def test_a_dry_run_prints_the_whole_config_and_trains_nothing(capsys, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    assert (
        main(["train", "cifar100/small", "--dry-run", "--set", "loss=ce", "optimizer.lr=0.2", "--set", "seed=3"]) == 0
    )
    config = make_config(yaml.safe_load(capsys.readouterr().out))
    assert (config.loss.name, config.optimizer.lr, config.seed, config.model.name) == ("ce", 0.2, 3, "resnet10_slim")
    assert list(tmp_path.iterdir()) == []
    assert main(["train", str(run.path), "--resume", "--dry-run"]) == 0
    assert make_config(yaml.safe_load(capsys.readouterr().out)) == run.read_config()


def test_a_run_has_a_folder_by_default(capsys, tmp_path, monkeypatch, recipe):
    monkeypatch.chdir(tmp_path)
    assert main(["train", recipe, "--set", "epochs=1", "seed=4"]) == 0
    folder = RunFolder("runs/quick-ncmi-seed4")
    assert folder.finished
    printed = capsys.readouterr()
    assert "digits · mlp · ncmi · 1 epoch · seed 4" in printed.out
    assert "epoch 1/1 · loss " in printed.out
    assert "| learned q " in printed.out
    assert f"s an epoch. Curves, weights and numbers are in {folder.path}." in printed.out
    assert printed.err == ""


def timeless(evaluation):
    for row in evaluation["decisions"]:
        row.pop("seconds")
    return {key: value for key, value in evaluation.items() if key not in ("checkpoint", "overrides")}


def test_evaluate_repeats_the_numbers_of_the_summary(capsys, run):
    assert main(["evaluate", str(run.path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["checkpoint"] == "last"
    assert printed == run.read_json(run.path / "evaluation-last.json")
    assert timeless(printed) == timeless(run.read_json(run.summary)["evaluation"])
    assert set(printed["information"]) == {"train", "validation", "test"}
    assert [row["name"] for row in printed["decisions"]] == ["own", "class means"]
    assert main(["evaluate", str(run.path), "--set", "decisions=[own, knn]"]) == 0
    table = capsys.readouterr().out
    top1 = printed["decisions"][0]["parts"]["test"]["top1"]
    assert f"| head                  |      {100 * top1:.2f} |" in table
    assert "nearest neighbours" in table


def test_evaluate_writes_the_outputs_of_an_older_run_again(capsys, run, tmp_path):
    copy = copy_of(run, tmp_path / "copy")
    assert main(["evaluate", str(copy.path), "--checkpoint", "best"]) == 0
    assert main(["evaluate", str(copy.path), "--set", "decisions=[own]"]) == 0
    assert not copy.outputs.exists(), "the headline is the last epoch under the run's own config"
    assert main(["evaluate", str(copy.path)]) == 0
    assert copy.outputs.read_bytes() == run.outputs.read_bytes()


def test_evaluate_takes_the_best_epoch(capsys, run, tmp_path):
    rows = [row["validation_top1"] for row in run.rows()]
    copy = copy_of(run, tmp_path / "copy")
    # So that the two differ whatever the epochs were: the best is the run's last, and the last is untrained.
    content = read_tensors(copy.last, "test")
    content["task"] = {name: torch.zeros_like(tensor) for name, tensor in content["task"].items()}
    torch.save(content, copy.last)
    found = {}
    for which in ("best", "last"):
        assert main(["evaluate", str(copy.path), "--checkpoint", which, "--json"]) == 0
        evaluation = json.loads(capsys.readouterr().out)
        assert evaluation["checkpoint"] == which
        assert (copy.path / f"evaluation-{which}.json").is_file()
        found[which] = evaluation["decisions"][0]["parts"]["validation"]["top1"]
    assert found["best"] == pytest.approx(max(rows))
    assert found["last"] < 0.2


@pytest.fixture
def feature_files(tmp_path):
    """The same features, well apart, as npz and csv; and others of the same classes."""
    generator = np.random.default_rng(0)
    targets = np.arange(60) % 3
    features = (4 * np.eye(3, 8)[targets] + generator.normal(size=(60, 8))).astype(np.float32)
    np.savez(tmp_path / "a.npz", features=features, targets=targets)
    np.savez(tmp_path / "b.npz", x=features[::-1] + 0.1, y=targets[::-1])
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"f{column}" for column in range(8)), "label"])
        writer.writerows([*map(repr, row.tolist()), target] for row, target in zip(features, targets, strict=True))
    return tmp_path


def measured(capsys, *arguments):
    assert main(["measure", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_measure_reads_npz_and_csv_alike(capsys, feature_files):
    files = [feature_files / "a.npz", feature_files / "a.csv"]
    first, second = (measured(capsys, "--features", file)["measured"][0] for file in files)
    assert first.pop("name") == str(files[0])
    assert second.pop("name") == str(files[1])
    assert first == pytest.approx(second)
    assert (first["samples"], first["num_classes"], first["num_features"]) == (60, 3, 8)
    assert first["ncmi"] == pytest.approx(first["cmi"] / first["gamma"])
    assert first["centroid_accuracy"] > 0.9
    assert main(["measure", "--features", str(files[0])]) == 0
    printed = capsys.readouterr().out
    assert (
        f"{files[0]}: 60 samples, CMI {first['cmi']:.6g}, Γ {first['gamma']:.6g}, NCMI {first['ncmi']:.6g}" in printed
    )
    assert f"Centre and class means are those of {files[0]}." in printed
    softer = measured(capsys, "--features", files[0], "--temperature", 1, "--simplex", "softmax", "--center", "none")
    assert softer["measured"][0]["ncmi"] != pytest.approx(first["ncmi"], rel=1e-3)


def test_measure_decides_a_second_file_by_the_means_of_the_first(capsys, feature_files, refused):
    keys = ["--features-key", "x", "--targets-key", "y"]
    (alone,) = measured(capsys, "--features", feature_files / "b.npz", *keys)["measured"]
    np.savez(feature_files / "c.npz", x=np.eye(3, 8), y=np.arange(3))
    first, second = measured(
        capsys, "--features", feature_files / "c.npz", "--test-features", feature_files / "b.npz", *keys
    )["measured"]
    assert (first["samples"], second["samples"]) == (3, 60)
    assert second["cmi"] != pytest.approx(alone["cmi"], rel=1e-3), "the centre is that of the first"
    assert second["centroid_accuracy"] > 0.8
    errors = refused("measure", "--features", feature_files / "b.npz")
    assert "b.npz has no 'features'; it holds 'x', 'y'" in errors


def test_measure_takes_a_network_of_our_own(capsys, run):
    options = ["--model", "mlp", "--model-options", "{in_features: 64, hidden: [32, 16]}", "--data", "digits"]
    found = measured(capsys, *options, "--weights", run.weights, "--part", "both")
    assert [row["name"] for row in found["measured"]] == ["train", "test"]
    assert [row["samples"] for row in found["measured"]] == [1437, 360]
    assert found["measured"][1]["centroid_accuracy"] > 0.7
    assert found["head_accuracy"] is None, "the head of a run belongs to its loss"


def test_measure_the_published_resnet20_on_the_real_test_set(capsys):
    weights = real_data("resnets") / "cifar10_resnets" / "resnet20.pt"
    where = ["--data", "cifar10", "--data-dir", real_data("cifar10"), "--statistics", "imagenet"]
    found = measured(capsys, "--model", "resnet20", "--weights", weights, *where)
    assert found["measured"][0]["samples"] == 10_000
    assert found["head_accuracy"] == pytest.approx(0.9173, abs=2e-4)
    assert 0.9 < found["measured"][0]["centroid_accuracy"] < 0.93


def test_doctor_names_a_damaged_file(capsys, tmp_path):
    damaged_cifar100(tmp_path)
    assert main(["doctor", "--no-timing", "--data-dir", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "  device: " in printed
    assert f"  cifar100: found in {tmp_path / 'cifar-100-binary'}." in printed
    assert "    train.bin: expected 153,700,000 bytes, found 9,122" in printed
    assert f"  cifar10: not found; looked in {tmp_path / 'cifar-10-batches-bin'}" in printed
    assert "  not installed: " in printed
    assert f"\nbags\n  tcga-lung: not found; looked for {tmp_path / 'tcga_lung'}. Put " in printed
    assert "expected time" not in printed


def test_doctor_times_the_recipes_whose_data_are_there(capsys, tmp_path):
    make_npz(tmp_path / "mil" / "musk1.npz")
    assert main(["doctor", "--data-dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "  digits: found." in printed
    times = printed.partition("expected time of training")[2].splitlines()[1:]
    assert any(line.startswith("  digits: ") and line.endswith((" minutes", " seconds")) for line in times)
    assert any(line.startswith("  mil/musk1: ") and line.endswith((" minutes", " seconds")) for line in times)
    assert f"  musk1: found in {tmp_path / 'mil' / 'musk1.npz'} (layout npz)." in printed
    assert {"  cifar100/small: its data are not there", "  mil/fox: its data are not there"} <= set(times)
    assert not any("resnet101" in line for line in times), "full recipes take days"


def test_an_ncmi_run_starts_from_the_weights_of_a_cross_entropy_run(tmp_path, run, recipe):
    # A name that YAML would read as something else.
    weights = tmp_path / "weights: first #1.safetensors"
    weights.write_bytes(run.weights.read_bytes())
    settings = ["optimizer.backbone_lr=0", "loss.options.centroids_start=class_means", "epochs=1"]
    command = ["train", recipe, "--quiet", "--run-folder", str(tmp_path / "run"), "--init-from", str(weights)]
    assert main([*command, "--set", *settings]) == 0
    first, second = (read_tensors(path, "test") for path in (run.weights, tmp_path / "run" / "weights.safetensors"))
    shared = [name for name in second if name.startswith("network.")]
    assert shared
    assert all(torch.equal(first[name], second[name]) for name in shared)
    assert RunFolder(tmp_path / "run").read_config().model.init_from == str(weights)


def test_a_run_starts_from_a_file_with_torchvisions_names(tmp_path, refused):
    network = create_model("resnet18", num_classes=7, width=4)
    torch.save(network.state_dict(), tmp_path / "resnet18.pth")
    assert "fc.weight" in network.state_dict()
    settings = [
        "data=digits",
        "data.validation=0",
        "data.train_size=64",
        "batch_size=32",
        "epochs=1",
        "decisions=[own]",
    ]
    settings += ["optimizer.lr=1e-9", "optimizer.weight_decay=0", "schedule.warmup_epochs=0"]
    settings += ["model.options.width=4", "model.options.in_channels=1", "engine.channels_last=false"]
    command = ["train", "folder", "--quiet", "--init-from", str(tmp_path / "resnet18.pth")]
    errors = refused(*command, "--run-folder", tmp_path / "grey", "--set", *settings)
    assert "does not fit ResNet: conv1.weight (4, 3, 7, 7) instead of (4, 1, 7, 7)" in errors
    grey = create_model("resnet18", num_classes=7, width=4, in_channels=1)
    torch.save({"state_dict": grey.state_dict(), "epoch": 90}, tmp_path / "resnet18.pth")
    assert main([*command, "--run-folder", str(tmp_path / "run"), "--set", *settings]) == 0
    trained = read_tensors(tmp_path / "run" / "weights.safetensors", "test")
    for name, tensor in grey.named_parameters():
        if not name.startswith("fc."):
            torch.testing.assert_close(trained[f"network.{name}"], tensor.detach(), atol=1e-6, rtol=0)
    errors = refused(
        "train", "digits", "--init-from", tmp_path / "resnet18.pth", "--run-folder", tmp_path / "other", "--quiet"
    )
    assert "holds no tensor with a name of the model" in errors
