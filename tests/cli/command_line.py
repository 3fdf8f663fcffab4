"""A quick recipe, and what the tests of the command line do more than once."""

from data.official import cifar_records, images

from ncmi.training.run_folder import RunFolder

QUICK = {
    "epochs": 2,
    "batch_size": 64,
    "data": {"name": "digits", "validation": 0.2, "train_size": 256},
    "model": {"name": "mlp", "options": {"hidden": [32, 16]}},
    "decisions": ["own", "class means"],
}


def train_on(tmp_path, *overrides, recipe="digits"):
    return ["train", recipe, "--quiet", "--run-folder", tmp_path / "run", "--set", *overrides]


def copy_of(run, folder):
    """The run's config and checkpoints, as if it had been stopped."""
    copy = RunFolder(folder)
    copy.create(run.read_config(), {})
    for source, target in ((run.last, copy.last), (run.best, copy.best)):
        target.write_bytes(source.read_bytes())
    return copy


def damaged_cifar100(tmp_path):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    whole = cifar_records(images(3), [0, 1, 2], [3, 4, 5])
    (folder / "train.bin").write_bytes(whole[:-100])
    (folder / "test.bin").write_bytes(whole)
    return folder
