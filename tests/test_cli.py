"""The command line: instant help, exit codes, one sentence for each thing that can go wrong, and what commands print."""

import csv
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
import yaml
from data.official import cifar_records, images
from realdata import real_data

from ncmi.cli import main
from ncmi.cli.main import _COMMANDS
from ncmi.models import create_model
from ncmi.recipes import list_recipes
from ncmi.tensor_files import read_tensors
from ncmi.training.config import make_config
from ncmi.training.run_folder import RunFolder

QUICK = {
    "epochs": 2,
    "batch_size": 64,
    "data": {"name": "digits", "validation": 0.2, "train_size": 256},
    "model": {"name": "mlp", "options": {"hidden": [32, 16]}},
    "decisions": ["own", "class means"],
}
COMMANDS = ["train", "evaluate", "measure", "recipes", "doctor"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "quick.yaml"
    path.write_text(json.dumps(QUICK))  # JSON is YAML
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory, recipe):
    """A finished run with cross-entropy, whose best epoch is not its last."""
    folder = tmp_path_factory.mktemp("runs") / "ce"
    settings = ["loss=ce", "epochs=4", "schedule=constant", "optimizer.lr=0.2"]
    assert main(["train", recipe, "--quiet", "--run-folder", str(folder), "--set", *settings]) == 0
    return RunFolder(folder)


@pytest.fixture
def refused(capsys):
    """Run a command that must fail with exit code 1 and one line on stderr; returns the line."""

    def run_command(*arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 1
        errors = capsys.readouterr().err
        assert errors.startswith(f"ncmi {arguments[0]}: ")
        assert errors.endswith("\n")
        assert errors.count("\n") == 1, errors
        assert "Traceback" not in errors
        return errors

    return run_command


class Recorded:
    """Takes the place of a parser, to see which arguments a command adds."""

    def __init__(self, command):
        self.arguments = {}
        _COMMANDS[command].add_arguments(self)

    def add_argument(self, name, **settings):
        self.arguments[name] = settings


def usage(*arguments):
    """What a command that ends in the parser says, and its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def test_help_and_recipes_do_not_wait_for_torch():
    program = """
import contextlib, io, sys
from ncmi.cli import main
for arguments in [["--help"], *([name, "--help"] for name in sys.argv[1:]), ["recipes"], ["recipes", "--print", "digits"],
                  ["train", "digits", "--dry-run", "--set", "loss=ce"]]:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as printed:
        main(arguments)
    assert printed.getvalue(), arguments
    heavy = {"torch", "numpy", "torchmetrics", "sklearn", "matplotlib"} & set(sys.modules)
    assert not heavy, (arguments, heavy)
"""
    run = subprocess.run([sys.executable, "-c", program, *COMMANDS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_argument(capsys, command):
    assert usage(command, "--help") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert " ".join(_COMMANDS[command].__doc__.splitlines()[0].split()) in printed
    arguments = Recorded(command).arguments
    assert arguments
    for name, settings in arguments.items():
        assert name in printed
        assert " ".join(settings["help"].split()) in printed


def test_the_help_names_every_command(capsys):
    assert usage("--help") == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in _COMMANDS)
    assert set(COMMANDS) <= set(_COMMANDS)


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_torchrun_lets_every_option_through(command):
    """Its parser takes a beginning of its own options for an option, or for an error if it fits two, as --run would."""
    from torch.distributed.run import get_args_parser

    given = ["train", "digits"]
    for name, settings in Recorded(command).arguments.items():
        given += [name] if settings.get("action") == "store_true" else [name, "value"]
    parsed = get_args_parser().parse_args(["--nproc-per-node", "2", "-m", "ncmi", *given])
    assert parsed.training_script == "ncmi"
    assert parsed.training_script_args == given


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], 'expected "command" to be one of'),
        (["bogus"], "invalid choice: 'bogus'"),
        (["train"], "required: train.recipe"),
        (["train", "digits", "--epochs", "3"], "unrecognized arguments: --epochs"),
        (["evaluate", "runs/x", "--checkpoint", "first"], "invalid choice: 'first'"),
        (["measure", "--temperature", "warm"], "temperature"),
    ],
    ids=["nothing", "unknown command", "no recipe", "unknown option", "unknown choice", "no number"],
)
def test_wrong_usage_is_exit_code_2(capsys, arguments, words):
    assert usage(*arguments) == 2
    errors = capsys.readouterr().err
    assert words in errors
    assert "Traceback" not in errors


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cifar100/smal", "none called 'cifar100/smal'; `ncmi recipes` lists them. Did you mean cifar100/small"),
        ("cifar10", "Did you mean cifar10/resnet18 or cifar10/small?"),
        ("imagenet/resnet52", "Did you mean imagenet/resnet50 or"),
        ("missing.yaml", "recipe: there is no file missing.yaml. Check the path."),
    ],
)
def test_unknown_recipes_get_their_neighbours(refused, name, words):
    assert words in refused("train", name)
    assert words in refused("recipes", "--print", name)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("epochs: 1\nloss: [\n", "broken.yaml cannot be read as YAML in line 3."),
        ("- epochs\n", "broken.yaml must hold settings as `key: value`; got list."),
        ("\xff", "broken.yaml cannot be read as YAML"),
        ("extends: digit\n", "none called 'digit'; `ncmi recipes` lists them. Did you mean digits?"),
        ("epoch: 3\n", "broken.yaml: epoch is no setting; there are description, "),
    ],
    ids=["syntax", "list", "bytes", "base", "key"],
)
def test_a_broken_recipe_is_named(refused, tmp_path, content, words):
    path = tmp_path / "broken.yaml"
    path.write_bytes(content.encode("latin-1"))
    assert words in refused("train", path)


SETTINGS = {
    "epoch=3": "recipe digits: epoch is no setting; there are description, .* Did you mean epochs",
    "optimizer.learning=3": "optimizer.learning is no setting of optimizer; there are name, lr, ",
    "epochs": "--set: needs key=value, such as optimizer.lr=0.1; got 'epochs'.",
    "epochs=many": "recipe digits: .*epochs must be int; got many",
    "epochs=0": "epochs must be positive; got 0.",
    "loss=nmci": "loss: name must be one of .* Did you mean 'ncmi'",
    "loss.options.temprature=1": "Did you mean 'temperature'",
    "model=resnt18": "create_model: name must be one of .* Did you mean 'resnet18'",
    "model.options.hiden=[3]": "an option of 'mlp' must be one of .* Did you mean 'hidden'",
    "data=digit": "load_data: name must be one of .* Did you mean 'digits'",
    "data.options.check=false": "load_data: digits takes no option; got 'check'.",
    "data.train_size=5000": "train_size=5000 is more than the 1150 training samples of digits that remain",
    "model.init_from=nowhere.pt": "load_weights: nowhere.pt is not a file. Check the path.",
}


@pytest.mark.parametrize("override", SETTINGS)
def test_settings_that_cannot_be_meant_are_refused(refused, tmp_path, override):
    errors = refused("train", "digits", "--quiet", "--run-folder", tmp_path / "run", "--set", override)
    assert_in_order(SETTINGS[override], errors)


def assert_in_order(words, text):
    """Every piece of ``words`` between ``.*`` is in the text, one after the other."""
    place = 0
    for piece in words.split(".*"):
        found = text.find(piece.strip(), place)
        assert found >= 0, (piece, text)
        place = found + len(piece)


def train_on(tmp_path, *overrides, recipe="digits"):
    return ["train", recipe, "--quiet", "--run-folder", tmp_path / "run", "--set", *overrides]


def test_missing_data_says_what_to_fetch_and_where_to_put_it(refused, tmp_path):
    errors = refused(*train_on(tmp_path, f"data.folder={tmp_path}", recipe="cifar100/small"))
    assert f"cifar100: not found; looked in {tmp_path / 'cifar-100-binary'}, {tmp_path / 'cifar-100-python'}." in errors
    assert (
        f"Unpack cifar-100-binary.tar.gz or cifar-100-python.tar.gz (from the CIFAR home page) in {tmp_path}," in errors
    )
    errors = refused(*train_on(tmp_path, f"data.folder={tmp_path}", recipe="fashion-mnist/small"))
    assert f"plain or with the ending .gz, into {tmp_path / 'fashion-mnist'}." in errors
    assert "the package dataset-fashion-mnist brings them." in errors
    errors = refused(*train_on(tmp_path, f"data.name=folder:{tmp_path / 'pets'}", recipe="folder"))
    assert f"pets: not found; looked in {tmp_path / 'pets'}. It needs the folders train and val (or test)" in errors


def test_data_that_were_missing_do_not_leave_a_run_behind(refused, tmp_path):
    refused(*train_on(tmp_path, f"data.folder={tmp_path}", recipe="cifar100/small"))
    assert not (tmp_path / "run").exists()


def test_what_a_run_killed_in_its_first_moment_leaves_is_taken_over(tmp_path, recipe):
    folder = RunFolder(tmp_path / "run")
    folder.create(make_config(QUICK), {})
    folder.config.rename(folder.path / ".config.yaml.1234abcd.partial")
    assert not folder.exists
    assert main(["train", recipe, "--quiet", "--run-folder", str(folder.path), "--resume", "--set", "epochs=1"]) == 0
    assert folder.finished


def damaged_cifar100(tmp_path):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    whole = cifar_records(images(3), [0, 1, 2], [3, 4, 5])
    (folder / "train.bin").write_bytes(whole[:-100])
    (folder / "test.bin").write_bytes(whole)
    return folder


def test_a_truncated_data_file_is_named(refused, tmp_path):
    folder = damaged_cifar100(tmp_path)
    errors = refused(*train_on(tmp_path, f"data.folder={tmp_path}", recipe="cifar100/small"))
    assert f"{folder / 'train.bin'} is damaged or another version: expected 153,700,000 bytes, found 9,122." in errors
    unchecked = [f"data.folder={tmp_path}", "data.options.check=false"]
    errors = refused(*train_on(tmp_path, *unchecked, recipe="cifar100/small"))
    assert f"{folder / 'train.bin'} is damaged: it must be whole records of 3074 bytes; found 9,122 bytes." in errors


@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_image_is_named(refused, tmp_path, workers):
    from PIL import Image

    for part in ("train", "val"):
        for name in ("cats", "dogs"):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(4):
                Image.new("RGB", (20, 20), (60 * number, 0, 0)).save(tmp_path / part / name / f"{number}.png")
    broken = tmp_path / "train" / "dogs" / "2.png"
    broken.write_bytes(broken.read_bytes()[:40])
    settings = [f"data.name=folder:{tmp_path}", f"data.workers={workers}", "model.options.width=4", "epochs=3"]
    settings += ["batch_size=4", "data.validation=0", "data.train_resolution=16", "data.test_resolution=16"]
    assert f"{broken} cannot be read as an image" in refused(*train_on(tmp_path, *settings, recipe="folder"))


def test_a_folder_that_holds_something_is_left_alone(refused, tmp_path, run, recipe):
    errors = refused("train", recipe, "--run-folder", run.path)
    assert f"{run.path} holds a finished run. Name another folder with --run-folder, or remove this one." in errors
    RunFolder(tmp_path / "unfinished").create(make_config(QUICK), {})
    errors = refused("train", recipe, "--run-folder", tmp_path / "unfinished")
    assert "holds a run that can go on: add --resume." in errors
    errors = refused("train", recipe, "--run-folder", tmp_path / "unfinished", "--resume", "--set", "seed=3")
    assert "was started with other settings: seed was 0 and is now 3." in errors
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    errors = refused("train", recipe, "--run-folder", tmp_path / "full")
    assert "is not an empty folder. Name another one with --run-folder." in errors


def test_a_run_folder_is_gone_on_with_by_itself(refused, run, tmp_path, capsys):
    assert "is a run folder. It goes on with --resume" in refused("train", run.path)
    assert "is a run folder. It goes on with --resume" in refused("train", run.path, "--resume", "--set", "epochs=9")
    assert main(["train", str(run.path), "--resume"]) == 0
    assert "this run is finished; `ncmi evaluate" in capsys.readouterr().out
    RunFolder(tmp_path / "started").create(make_config(QUICK, ["epochs=1"]), {})
    assert main(["train", str(tmp_path / "started"), "--resume", "--quiet"]) == 0
    assert RunFolder(tmp_path / "started").finished


def copy_of(run, folder):
    """The run's config and checkpoints, as if it had been stopped."""
    copy = RunFolder(folder)
    copy.create(run.read_config(), {})
    for source, target in ((run.last, copy.last), (run.best, copy.best)):
        target.write_bytes(source.read_bytes())
    return copy


def test_a_damaged_checkpoint_is_named(refused, run, tmp_path):
    copy = copy_of(run, tmp_path / "copy")
    content = bytearray(copy.last.read_bytes())
    content[len(content) // 2] ^= 1
    for damaged in (content, content[:1000], b""):
        copy.last.write_bytes(damaged)
        assert f"checkpoint: {copy.last} is damaged" in refused("evaluate", copy.path)
        assert f"checkpoint: {copy.last} is damaged" in refused("train", copy.path, "--resume")
    copy.last.unlink()
    assert "has no checkpoint last.pt. The run was stopped before it wrote one." in refused("evaluate", copy.path)
    copy.config.write_text("[")
    assert f"{copy.config} is damaged: it cannot be read as YAML." in refused("evaluate", copy.path)


def test_evaluate_refuses_what_is_no_run_or_does_not_fit(refused, run, tmp_path):
    assert "holds no run: there is no config.yaml in it. Check the path." in refused("evaluate", tmp_path)
    assert "no setting" in refused("evaluate", run.path, "--set", "epoch=3")
    errors = refused("evaluate", run.path, "--set", "model.options.hidden=[8]")
    assert "does not fit" in errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name either --features FILE, or --model NAME with --weights FILE and --data NAME."),
        (["--features", "f.npz", "--model", "mlp"], "name either --features FILE, or --model NAME"),
        (["--model", "mlp", "--data", "digits"], "--model needs --weights too."),
        (["--model", "mlp", "--weights", "w.pt"], "--model needs --data too."),
        (["--features", "missing.npz"], "there is no file missing.npz. Check the path."),
        (["--features", "notes.txt"], "notes.txt must end in .npz"),
        (["--model", "mlp", "--weights", "w.pt", "--data", "digits"], "create_model: 'mlp' needs in_features"),
        (["--model", "resnet20", "--weights", "w.pt", "--data", "digits"], "load_weights: w.pt is not a file."),
        (
            ["--model", "resnet20", "--weights", "w.pt", "--data", "digits", "--statistics", "imagnet"],
            "Did you mean 'imagenet'",
        ),
    ],
    ids=[
        "nothing",
        "both",
        "no weights",
        "no data",
        "no file",
        "no format",
        "no width",
        "no weights file",
        "no statistics",
    ],
)
def test_measure_says_what_it_needs(refused, arguments, words):
    assert words in refused("measure", *arguments)


@pytest.mark.parametrize("device", ["cuda:7", "warp"])
@pytest.mark.parametrize("command", ["train", "evaluate", "doctor"])
def test_a_device_that_is_not_there_is_refused(refused, tmp_path, run, command, device):
    if device.startswith("cuda") and torch.cuda.device_count() > 7:
        pytest.skip("it is there")
    arguments = {"train": train_on(tmp_path, "epochs=1"), "evaluate": ["evaluate", run.path], "doctor": ["doctor"]}
    errors = refused(*arguments[command], "--device", device)
    assert f"device: {device!r} cannot be used here" in errors
    assert errors.endswith("Try --device cpu.\n")


@pytest.mark.parametrize(
    ("package", "override"), [("wandb", "trackers=[wandb]"), ("timm", "model=timm:resnet18")], ids=["wandb", "timm"]
)
def test_a_package_that_is_not_installed_is_named(refused, tmp_path, package, override):
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    assert f"`pip install {package}`" in refused(*train_on(tmp_path, override))
    assert not (tmp_path / "run").exists()


def test_divergence_is_a_sentence(refused, tmp_path, recipe):
    settings = ["loss=ce", "optimizer.lr=1e9", "schedule=constant"]
    errors = refused("train", recipe, "--quiet", "--run-folder", tmp_path / "run", "--set", *settings)
    assert "finite" in errors or "diverged" in errors


def test_a_traceback_is_there_for_who_asks(monkeypatch):
    monkeypatch.setenv("NCMI_TRACEBACK", "1")
    with pytest.raises(ValueError, match="none called 'nothing'"):
        main(["train", "nothing"])


# --- what stops a command ----------------------------------------------------------------------------------------------


def send_when(condition, number):
    """Send this process a signal as soon as something holds; the main thread gets it."""

    def watch():
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.01)
        if condition():
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_training_with_a_line_and_its_exit_code(tmp_path, capsys, recipe, number, code):
    folder = tmp_path / "run"
    thread = send_when((folder / "checkpoints" / "last.pt").is_file, number)
    assert main(["train", recipe, "--quiet", "--run-folder", str(folder), "--set", "epochs=2000"]) == code
    thread.join()
    errors = capsys.readouterr().err
    assert errors.startswith("stopped in epoch ")
    assert errors.endswith(f"and saved. Go on with `ncmi train {folder} --resume`.\n")
    assert errors.count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
def test_an_interrupt_of_any_command_is_exit_code_130(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.yaml")  # reading it waits for a writer, who never comes
    started = time.monotonic()
    thread = send_when(lambda: time.monotonic() > started + 0.2, signal.SIGINT)
    assert main(["recipes", "--print", str(tmp_path / "pipe.yaml")]) == 130
    thread.join()
    assert capsys.readouterr().err == ""


def test_a_reader_that_has_seen_enough_is_no_error():
    with subprocess.Popen(
        [sys.executable, "-m", "ncmi", "recipes"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


# --- what commands print -----------------------------------------------------------------------------------------------


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


# --- measure -----------------------------------------------------------------------------------------------------------


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


# --- doctor --------------------------------------------------------------------------------------------------------------


def test_doctor_names_a_damaged_file(capsys, tmp_path):
    damaged_cifar100(tmp_path)
    assert main(["doctor", "--no-timing", "--data-dir", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "  device: " in printed
    assert f"  cifar100: found in {tmp_path / 'cifar-100-binary'}." in printed
    assert "    train.bin: expected 153,700,000 bytes, found 9,122" in printed
    assert f"  cifar10: not found; looked in {tmp_path / 'cifar-10-batches-bin'}" in printed
    assert "  not installed: " in printed
    assert "expected time" not in printed


def test_doctor_times_the_recipes_whose_data_are_there(capsys, tmp_path):
    assert main(["doctor", "--data-dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "  digits: found." in printed
    times = printed.partition("expected time of training")[2].splitlines()[1:]
    assert any(line.startswith("  digits: ") and line.endswith((" minutes", " seconds")) for line in times)
    assert "  cifar100/small: its data are not there" in times
    assert not any("resnet101" in line for line in times), "full recipes take days"


# --- --init-from ---------------------------------------------------------------------------------------------------------


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
