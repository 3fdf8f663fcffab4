"""Predictions: every file once and in order, the same by every form of a model; the table; refusals."""

import csv
from dataclasses import replace

import pytest
import torch
from PIL import Image

from ncmi.data import load_data
from ncmi.export import Description
from ncmi.prediction import Model, Prediction, open_model, predict, write_csv

CLASSES = ("file", 'with "quotes"', "x, y")
DESCRIPTION = Description("images", (1, 8, 8), "none", CLASSES, "digits", "mlp", "ce", "head", 1.0, "", "0.1.0")


def by_mean(images):
    """A model whose probabilities a test can foresee."""
    mean = images.float().mean(dim=(1, 2, 3)) / 255
    scores = torch.stack([mean, 1 - mean, torch.zeros_like(mean)], dim=1)
    return scores, scores


def test_every_file_once_and_in_order(tmp_path):
    images = load_data("digits").test.images[:70]  # more than a batch
    files = []
    for number, image in enumerate(images):
        files.append(tmp_path / f"{number:02}.png")
        Image.fromarray(image[0].numpy()).save(files[-1])
    rows = list(predict(Model(by_mean, DESCRIPTION), files))
    assert [row.file for row in rows] == list(map(str, files))
    expected = by_mean(images)[1]
    torch.testing.assert_close(torch.tensor([row.probabilities for row in rows]), expected)
    write_csv(rows, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    assert header == ["file", "class", "probability", *(f"P({name})" for name in CLASSES)]
    assert [line[1] for line in lines] == [CLASSES[place] for place in expected.argmax(dim=1)]
    assert [float(line[2]) for line in lines] == pytest.approx(expected.amax(dim=1).tolist(), abs=1e-5)
    assert [float(line[4]) for line in lines] == pytest.approx(expected[:, 1].tolist(), abs=1e-5)


def test_the_line_names_the_most_probable():
    row = Prediction("slide.h5", CLASSES, (0.2, 0.3, 0.5))
    assert row.line(5) == 'slide.h5: x, y 50.0 %, with "quotes" 30.0 %, file 20.0 %'
    assert CLASSES[row.decided] == "x, y"


@pytest.mark.parametrize("output", [torch.zeros(1, 2), torch.full((1, 3), torch.nan)], ids=["classes", "NaN"])
def test_a_model_that_gives_nonsense(tmp_path, output):
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"predict: the model must give 3 finite numbers a file"):
        list(predict(Model(lambda images: (output, output), DESCRIPTION), [tmp_path / "a.png"]))


def test_a_slide_goes_alone(tmp_path):
    h5py = pytest.importorskip("h5py")
    sizes = []
    for name, count in (("a", 2), ("b", 7)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["features"] = [[1.0, 2.0]] * count

    def run(instances):
        sizes.append(len(instances))
        return (torch.full((1, 3), 1 / 3),) * 2

    model = Model(run, replace(DESCRIPTION, takes="bag", shape=(2,)))
    assert len(list(predict(model, [tmp_path / "a.h5", tmp_path / "b.h5"]))) == 2
    assert sizes == [2, 7]


def test_what_is_no_model(tmp_path):
    with pytest.raises(ValueError, match=r"MODEL must be a run folder, a \.pt2 or an \.onnx file"):
        open_model(tmp_path / "model.pt")
    with pytest.raises(FileNotFoundError, match=r"model\.onnx is not a file\. Check the path"):
        open_model(tmp_path / "model.onnx")
    with pytest.raises(FileNotFoundError, match="holds no run"):
        open_model(tmp_path)
