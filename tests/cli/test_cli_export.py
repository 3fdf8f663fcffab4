"""Export and predict: from a run to a file, and from images to classes by either."""

import csv

import pytest
import torch
from PIL import Image

from ncmi.cli import main
from ncmi.cli.export import _difference
from ncmi.data import load_data
from ncmi.export import open_pt2


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    data = load_data("digits").test
    for number in range(8):
        Image.fromarray(data.images[number, 0].numpy()).save(folder / f"{number}.png")
    return folder


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_file_predicts_what_the_run_does(capsys, run, images, tmp_path):
    assert main(["export", str(run.path), "-o", str(tmp_path / "digits.pt2")]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"{tmp_path / 'digits.pt2'}: images uint8 (B, 1, 8, 8) → scores and probabilities of 10 classes" in said.out
    assert "decision head; temperature 1 (not needed" in said.out
    assert "read again, its outputs differ from the run's own by at most " in said.out
    tables = []
    for model in (run.path, tmp_path / "digits.pt2"):
        out = tmp_path / "table.csv"
        assert main(["predict", str(model), str(images), str(images / "0.png"), "-o", str(out), "--top", "2"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 10
        assert lines[0].startswith(f"{images / '0.png'}: ")
        assert lines[0].count(" %") == 2
        tables.append(table(out))
    for own, other in zip(*tables, strict=True):
        assert own["file"] == other["file"]
        assert own["class"] == other["class"]
        assert float(own["P(3)"]) == pytest.approx(float(other["P(3)"]), abs=1e-5)


def test_by_default_the_file_is_in_the_run_folder(run, capsys):
    assert main(["export", str(run.path), "--checkpoint", "best"]) == 0
    assert (run.path / "model.pt2").is_file()
    _, description = open_pt2(run.path / "model.pt2")
    assert (description.loss, description.model, description.data) == ("ce", "mlp", "digits")


def test_a_file_that_does_something_else_is_refused(run, capsys):
    class Other(torch.nn.Module):
        def example(self, size):
            return torch.zeros(size, 1, 8, 8, dtype=torch.uint8)

        def forward(self, images):
            return (torch.full((len(images), 10), 7.0),) * 2

    main(["export", str(run.path)])
    with pytest.raises(RuntimeError, match=r"gives other outputs than the run .* Do not use the file"):
        _difference(Other(), run.path / "model.pt2")


def test_refusals(refused, run, images, tmp_path):
    assert "must name a file that ends in .pt2 or .onnx; got 'model.pt'" in refused(
        "export", run.path, "-o", "model.pt"
    )
    contradiction = refused("export", run.path, "-o", "model.pt2", "--format", "onnx")
    assert "--format onnx and the ending of 'model.pt2' contradict each other" in contradiction
    assert "holds no run" in refused("export", tmp_path)
    assert "is not a folder" in refused("export", run.path, "-o", tmp_path / "nowhere" / "model.pt2")
    assert "--top must be at least 1; got 0" in refused("predict", run.path, images, "--top", "0")
    assert "MODEL must be a run folder" in refused("predict", images / "0.png", images)
    (tmp_path / "bad.png").write_text("no image")
    assert "cannot be read as an image" in refused("predict", run.path, tmp_path / "bad.png")
