"""The loop: golden losses, what every option does, and what a run leaves behind."""

import os
import subprocess
import sys

import pytest
import torch
from quick_runs import QUICK, command, same, start, weights

from ncmi.training.config import make_config
from ncmi.training.run_folder import RunFolder

# The loss of the first 20 steps, as torch 2.13 computes it.
GOLDEN = {
    "ncmi": [
        5.283993, 5.291191, 5.407799, 5.273638, 4.39466, 4.429604, 4.544598, 4.54319, 3.898103, 4.150672,
        4.280619, 4.006904, 4.012009, 3.44649, 3.770924, 3.586895, 3.706744, 3.855657, 2.744261, 2.882484,
    ],
    "ce": [
        2.628507, 2.611505, 2.518013, 2.55146, 2.4807, 2.422784, 2.275911, 2.356571, 2.341048, 2.222913,
        2.217777, 2.279914, 2.251122, 2.160676, 2.136108, 2.086905, 2.036341, 2.059165, 2.110728, 2.134635,
    ],
}  # fmt: skip


def test_a_run_leaves_everything_behind(tmp_path):
    summary = start(tmp_path / "run", "trackers=[tensorboard]")
    folder = RunFolder(tmp_path / "run")
    names = {path.name for path in folder.path.iterdir()}
    assert names == {
        "config.yaml", "environment.json", "log.jsonl", "summary.json", "outputs.pt", "curves.svg",
        "weights.safetensors", "checkpoints", "tensorboard",
    }  # fmt: skip
    assert {path.name for path in (folder.path / "checkpoints").iterdir()} == {"last.pt", "best.pt"}
    assert folder.read_config() == make_config(QUICK, ["trackers=[tensorboard]"])
    rows = folder.rows()
    assert [row["epoch"] for row in rows] == [1, 2]
    assert set(rows[0]) >= {
        "lr", "train_loss", "train_accuracy", "validation_loss", "validation_top1", "validation_top5", "validation_cmi",
        "validation_gamma", "validation_ncmi", "shared_classes", "decided_classes", "output_entropy", "seconds",
    }  # fmt: skip
    assert summary == folder.read_json(folder.summary)
    assert summary["steps"] == 2 * (1150 // 64)
    assert summary["last"] == rows[-1]
    assert set(summary["evaluation"]["decisions"][0]["parts"]) == {"train", "validation", "test"}
    assert rows[-1]["validation_loss"] < rows[0]["validation_loss"]


@pytest.mark.parametrize("loss", GOLDEN)
def test_the_first_20_losses_are_golden(tmp_path, monkeypatch, loss):
    from ncmi.training import loop

    seen = []

    def step_and_remember(run, batch, look, step=loop.step):
        values = step(run, batch, look)
        seen.append(values["loss"])
        return values

    monkeypatch.setattr(loop, "step", step_and_remember)
    start(tmp_path / "run", f"loss={loss}")
    assert seen[:20] == pytest.approx(GOLDEN[loss], rel=1e-4)


def test_seeds_repeat_and_differ(tmp_path):
    for name, override in {"a": "seed=0", "b": "seed=0", "c": "seed=1"}.items():
        start(tmp_path / name, override)
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert not same(weights(tmp_path / "a"), weights(tmp_path / "c"))


@pytest.mark.parametrize(
    "overrides",
    [
        ["optimizer=adamw", "optimizer.lr=0.01"],
        ["optimizer.nesterov=true", "schedule=step", "schedule.milestones=[1]", "schedule.warmup_epochs=0.5"],
        ["optimizer.micro_batch=20"],
        ["engine.precision=float64"],
        ["engine.precision=fp16", "optimizer.clip_norm=1"],
        ["engine.channels_last=true", "model=resnet8_slim", "data.train_size=256", "epochs=1"],
        ["engine.ema=0.99"],
        ["data.validation=0"],
        ["engine.deterministic=false", "data.train_size=40"],
        ["loss=ncmi", "loss.options.objective=theorem1"],
        ["loss=supcon", "model=resnet8_slim", "data.train_size=128", "engine.channels_last=true", "epochs=1"],
        ["loss=cmic"],
        ["loss=contrastive-center"],
        ["loss=ncmi", "loss.options.preset=released", "data.train_size=400"],
        ["loss=ncmi", "loss.options.centroids_start=class_means"],
    ],
    ids=lambda overrides: overrides[-1],
)
def test_every_option_trains(tmp_path, overrides):
    summary = start(tmp_path / "run", *overrides)
    assert summary["last"]["train_loss"] > 0
    for tensor in weights(tmp_path / "run").values():
        assert bool(tensor.isfinite().all())


def test_the_decision_that_a_loss_is_judged_by_is_always_evaluated(tmp_path):
    for loss, headline in {"supcon": "linear probe", "ce": "own"}.items():
        summary = start(tmp_path / loss, f"loss={loss}", "decisions=[class means]", "epochs=1", "data.train_size=100")
        assert summary["headline"] == headline
        assert [row["name"] for row in summary["evaluation"]["decisions"]] == ["class means", headline]


def test_bf16_and_compiled_runs_agree_with_float32(tmp_path):
    summaries = {"float32": start(tmp_path / "float32")}
    for name, override in {"bf16": "engine.precision=bf16", "compiled": "engine.compile=true"}.items():
        # Some processors announce bfloat16 instructions that they then refuse.
        environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
        subprocess.run(command(tmp_path / name, override), env=environment, check=True, capture_output=True)
        summaries[name] = RunFolder(tmp_path / name).read_json(tmp_path / name / "summary.json")
    losses = {name: summary["last"]["train_loss"] for name, summary in summaries.items()}
    assert losses["compiled"] == pytest.approx(losses["float32"], rel=1e-3)
    # Among samples a loss of the first epochs is steep: rounded features reach it by every rival.
    assert losses["bf16"] == pytest.approx(losses["float32"], rel=0.15)
    assert losses["bf16"] != losses["float32"]


def test_frozen_networks_keep_their_weights(tmp_path):
    start(tmp_path / "first", "loss=ce")
    start(
        tmp_path / "second", f"model.init_from={tmp_path / 'first' / 'weights.safetensors'}", "optimizer.backbone_lr=0",
        "loss.options.centroids_start=class_means", "seed=7",
    )  # fmt: skip
    first, second = weights(tmp_path / "first"), weights(tmp_path / "second")
    shared = [name for name in second if name.startswith("network.")]
    assert shared
    assert all(torch.equal(first[name], second[name]) for name in shared)
    top1 = [
        RunFolder(tmp_path / name).read_json(tmp_path / name / "summary.json")["evaluation"]["decisions"][0]["parts"][
            "test"
        ]["top1"]
        for name in ("first", "second")
    ]
    assert top1[1] > top1[0] - 0.2


def test_averages_start_after_the_centroids(tmp_path):
    overrides = ["engine.ema=0.9", "loss.options.centroids_start=class_means", "data.validation=0"]
    summary = start(tmp_path / "run", *overrides)
    assert summary["evaluation"]["decisions"][0]["parts"]["test"]["top1"] > 0.5


def test_weights_to_start_from_are_read_once(tmp_path):
    start(tmp_path / "first")
    file = tmp_path / "first" / "weights.safetensors"
    start(tmp_path / "second", f"model.init_from={file}", "epochs=1")
    file.unlink()
    folder = RunFolder(tmp_path / "second")
    folder.summary.unlink()
    start(folder.path, f"model.init_from={file}", "epochs=1", resume=True)


def test_large_seeds_work(tmp_path):
    start(tmp_path / "run", "seed=2026111523", "epochs=1", "data.train_size=128")
    with pytest.raises(ValueError, match=r"seed must lie in \[0, 2\^31\)"):
        start(tmp_path / "other", "seed=20261115230000")


def test_a_network_of_ones_own_trains(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(
        "from torch import nn\n"
        "def flat(width):\n"
        "    module = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())\n"
        "    module.num_features = width\n"
        "    return module\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    start(tmp_path / "run", "model=my_networks:flat", "model.options.width=12", "epochs=1")
    assert "network.body.1.weight" in weights(tmp_path / "run")
    with pytest.raises(ValueError, match=r"'my_networks:missing' must be package.module:function"):
        start(tmp_path / "other", "model=my_networks:missing")


def test_adamw_decays_matrices_alone(tmp_path):
    from ncmi.training.build import make_optimizer, make_task
    from ncmi.training.sources import make_source

    config = make_config(QUICK, ["optimizer=adamw", "optimizer.weight_decay=0.1", "loss=ce"])
    task = make_task(config, make_source(config), initialize=True)
    for group in make_optimizer(config, task).param_groups:
        for parameter in group["params"]:
            assert group["weight_decay"] == (0.1 if parameter.ndim > 1 else 0.0)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["schedule=step"], "step needs milestones"),
        (["schedule=step", "schedule.milestones=[1, 9]"], r"got \[1.0, 9.0\]"),
        (["engine.compile=true", "optimizer.micro_batch=2"], "do not go together"),
        (["optimizer.nesterov=true", "optimizer.momentum=0"], "nesterov needs a momentum"),
        (["loss.options.preset=paper", "loss.options.temperature=1"], "leave out temperature, or the preset"),
        (["data.train_size=5"], "5 of 10 classes of digits have no training sample"),
        (["data.crop=8"], "out of sight"),
        (["loss=supcon", "data.crop=0"], r"supcon compares 2 views of each image, which are equal .*Set data.crop"),
        (["model.options.hidden=3"], "'mlp' cannot be built with the options"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_work_is_refused_and_leaves_no_folder(tmp_path, overrides, sentence):
    with pytest.raises(ValueError, match=sentence):
        start(tmp_path / "run", *overrides)
    assert not (tmp_path / "run").exists()


def test_nothing_to_train_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing is left to train"):
        start(tmp_path / "run", "optimizer.backbone_lr=0", "loss.options.centroids=fixed")


def test_more_samples_than_there_are_is_refused(tmp_path):
    with pytest.raises(ValueError, match="train_size=5000 is more than the 1150 training samples of digits"):
        start(tmp_path / "run", "data.train_size=5000")
