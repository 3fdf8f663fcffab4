"""Exported files: outputs of the module to 1e-5 for any number of images and any size of bag, and refusals."""

import io
import sys
from functools import partial

import pytest
import torch
from torch import nn

from ncmi import CentroidClassifier, NCMILoss
from ncmi.data import load_data
from ncmi.export import BagClassifier, Description, ImageClassifier, open_onnx, open_pt2, write_onnx, write_pt2
from ncmi.models import create_model
from ncmi.models.mil import create_bag_model

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
FORMATS = {"pt2": (write_pt2, open_pt2), "onnx": (write_onnx, open_onnx)}


def describe(takes, shape, classes):
    return Description(takes, shape, "none", classes, "data", "network", "ncmi", "learned q", 0.01, "made up", "0.1.0")


def centroids(num_classes, network, features):
    """A decision whose centre has moved, as after training."""
    loss = NCMILoss(num_classes, network.num_features)
    loss(features, torch.arange(len(features)) % num_classes)
    return CentroidClassifier.from_loss(loss)


def image_model():
    """A network with batch normalisation, on real pixels."""
    torch.manual_seed(0)
    network = create_model("resnet8_slim", in_channels=1)
    pixels = load_data("digits").test.images
    decision = centroids(10, network, network(pixels[:40] / 255))
    classifier = ImageClassifier(network, decision, 0.01, shape=(1, 8, 8), mean=(0.3,), std=(0.4,))
    names = tuple(f"Ziffer „{number}“" for number in range(10))
    return classifier, describe("images", (1, 8, 8), names), [pixels[:size] for size in (1, 2, 50)]


def bag_model():
    torch.manual_seed(0)
    network = create_bag_model("abmil", 24, num_features=16)
    bags = [torch.randn(size, 24) for size in (1, 2, 300)]
    decision = centroids(2, network, torch.stack([network(bag).features for bag in bags]))
    return BagClassifier(network, decision, 0.01), describe("bag", (24,), ("benign", "tumour")), bags


MODELS = {"images": image_model, "bag": bag_model}


@pytest.fixture(scope="module", params=[(model, ending) for model in MODELS for ending in FORMATS], ids="-".join)
def exported(request, tmp_path_factory):
    model, ending = request.param
    classifier, description, inputs = MODELS[model]()
    path = tmp_path_factory.mktemp("export") / f"model.{ending}"
    FORMATS[ending][0](classifier, description, path)
    return classifier, description, inputs, path


def check_onnx(path, classifier):
    """A file that ONNX's own checker lets pass, with names for people."""
    import onnx

    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == [classifier.input_name]
    assert [value.name for value in model.graph.output] == ["scores", "probabilities"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == classifier.size_name


def test_outputs_of_the_module_for_any_size(exported):
    classifier, description, inputs, path = exported
    run, read = FORMATS[path.suffix[1:]][1](path)
    assert read == description
    for given in inputs:
        for own, other in zip(classifier(given), run(given), strict=True):
            torch.testing.assert_close(other, own, rtol=0, atol=1e-5)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    if path.suffix == ".onnx":
        check_onnx(path, classifier)


def test_a_cut_file_is_refused(exported, tmp_path):
    path = exported[-1]
    cut = tmp_path / path.name
    for content in (path.read_bytes()[: path.stat().st_size // 2], b"", b"something else"):
        cut.write_bytes(content)
        with pytest.raises(ValueError, match=rf"{path.name} is damaged, or no .*\. Export the run again"):
            FORMATS[path.suffix[1:]][1](cut)


def test_a_changed_byte_is_seen(tmp_path):
    classifier, description, _ = bag_model()
    path = tmp_path / "model.pt2"
    write_pt2(classifier, description, path)
    content = bytearray(path.read_bytes())
    weight = classifier.decision.log_density.numpy().tobytes()[:64]
    content[content.index(weight) + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged"):
        open_pt2(path)


def test_a_file_without_a_description_is_refused(tmp_path):
    path = tmp_path / "model.pt2"
    file = io.BytesIO()
    torch.export.save(torch.export.export(nn.Linear(3, 2), (torch.zeros(2, 3),)), file)
    path.write_bytes(file.getvalue())
    with pytest.raises(ValueError, match=r"model\.pt2 holds no description"):
        open_pt2(path)


def test_a_network_that_depends_on_the_size_is_refused(tmp_path):
    network = create_bag_model("transmil", 24, num_features=16)
    classifier = BagClassifier(network, nn.Linear(16, 2))
    with pytest.raises(ValueError, match=r"export: TransMIL cannot be written as one graph .* takes the run folder"):
        write_pt2(classifier, describe("bag", (24,), ("a", "b")), tmp_path / "model.pt2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    classifier, description, _ = bag_model()
    path = tmp_path / "model.onnx"
    use = partial(open_onnx, path) if package == "onnxruntime" else partial(write_onnx, classifier, description, path)
    with pytest.raises(ImportError, match=rf"need the package {package}, .*`pip install 'ncmi\[export\]'`"):
        use()
