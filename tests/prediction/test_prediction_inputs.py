"""Files as inputs: pixels as the training data had them, features of slides, and a sentence for what cannot be read."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

from ncmi.data import CenterCrop
from ncmi.export import Description
from ncmi.prediction import find_files, read_input

GREY = Description("images", (1, 8, 8), "none", ("a", "b"), "digits", "mlp", "ncmi", "learned q", 0.01, "", "0.1.0")
COLOUR = replace(GREY, shape=(3, 4, 6))
PHOTO = replace(GREY, shape=(3, 16, 16), crop="center")
BAG = replace(GREY, takes="bag", shape=(5,))
PIXELS = np.random.default_rng(0).integers(256, size=(8, 8), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "more").mkdir()
    for name in ("b.png", "more/a.PNG", ".hidden.png"):
        Image.fromarray(PIXELS).save(tmp_path / name, format="png")
    (tmp_path / "notes.txt").write_text("not an image")
    for name in ("s.h5", "more/r.hdf5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["features"] = np.arange(15, dtype=np.float16).reshape(3, 5)
    return tmp_path


def test_folders_give_what_the_model_takes(folder):
    assert find_files([folder], GREY) == [folder / "b.png", folder / "more" / "a.PNG"]
    assert find_files([folder], BAG) == [folder / "more" / "r.hdf5", folder / "s.h5"]
    assert find_files([folder / "more" / "a.PNG", folder / "b.png"], GREY)[0].name == "a.PNG"


def test_pixels_are_those_of_the_file(folder, tmp_path):
    assert read_input(folder / "b.png", GREY).equal(torch.from_numpy(PIXELS).unsqueeze(0))
    Image.fromarray(PIXELS).convert("LA").save(tmp_path / "alpha.png")
    assert read_input(tmp_path / "alpha.png", GREY).equal(torch.from_numpy(PIXELS).unsqueeze(0))
    pixels = np.random.default_rng(1).integers(256, size=(4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "colour.png")
    assert read_input(tmp_path / "colour.png", COLOUR).equal(torch.from_numpy(pixels).permute(2, 0, 1))
    image = Image.open(tmp_path / "colour.png")
    assert read_input(tmp_path / "colour.png", PHOTO).equal(CenterCrop(16)(image))


def test_a_grey_photograph_does_for_a_model_of_colours(folder):
    assert read_input(folder / "b.png", PHOTO).shape == (3, 16, 16)


def test_features_of_a_slide(folder):
    bag = read_input(folder / "s.h5", BAG)
    assert bag.dtype == torch.float32
    assert bag.equal(torch.arange(15.0).view(3, 5))


def test_what_cannot_be_found(folder):
    (folder / "empty").mkdir()
    for path, description, words in [
        ("nowhere.png", GREY, "nowhere.png is neither a file nor a folder"),
        ("empty", GREY, r"empty holds no file that this model takes \(\.jpg"),
        ("empty", BAG, r"empty holds no file that this model takes \(\.h5"),
        ("notes.txt", GREY, r"notes\.txt: this model takes images, \.jpg"),
        ("b.png", BAG, r"b\.png: this model takes slide features \(HDF5\), \.h5"),
    ]:
        with pytest.raises((FileNotFoundError, ValueError), match=words):
            find_files([folder / path], description)


def test_what_does_not_fit(folder, tmp_path):
    colour = Image.new("RGB", (8, 8))
    colour.save(tmp_path / "colour.png")
    with pytest.raises(
        ValueError, match=r"colour\.png: the image has colours or more than 8 bits \(mode RGB of Pillow\)"
    ):
        read_input(tmp_path / "colour.png", GREY)
    with pytest.raises(ValueError, match=r"colour\.png: the image has 8 × 8 pixels, and the model, .*, takes 6 × 4"):
        read_input(tmp_path / "colour.png", COLOUR)
    (tmp_path / "bad.png").write_text("no image")
    for description in (GREY, COLOUR):
        with pytest.raises(ValueError, match=r"bad\.png cannot be read as an image"):
            read_input(tmp_path / "bad.png", description)
    with pytest.raises(ValueError, match=r"s\.h5: the features must have shape \(N, 7\) .*; got \(3, 5\)"):
        read_input(folder / "s.h5", replace(BAG, shape=(7,)))
