"""The command line: one sentence for each thing that can go wrong."""

import importlib.util

import pytest
import torch
from command_line import QUICK, copy_of, damaged_cifar100, train_on

from ncmi.cli import main
from ncmi.training.config import make_config
from ncmi.training.run_folder import RunFolder


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
