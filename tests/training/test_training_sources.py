"""What a run learns from, in which order."""

import torch
from made_data import make_images

from ncmi.recipes import read_recipe
from ncmi.training.config import make_config
from ncmi.training.sources import make_source


def test_validation_samples_of_a_folder_are_mixed(tmp_path):
    make_images(tmp_path)
    settings = [f"data.name=folder:{tmp_path}", "data.validation=0.5"]
    source, again = (make_source(make_config(read_recipe("folder"), settings)) for _ in range(2))
    assert bool((source.train.targets.diff() >= 0).all()), "on the disk they come class by class"
    targets = source.validation.targets
    assert targets.bincount().tolist() == [4, 4, 4]
    assert not bool((targets.diff() >= 0).all())
    for path, target in zip(source.validation.paths, targets.tolist(), strict=True):
        assert source.class_names[target] in str(path)
    assert source.validation.paths == again.validation.paths, "the same order in every run"
    assert torch.equal(targets, again.validation.targets)
