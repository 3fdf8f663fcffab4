"""The examples with other frameworks: the centroids move, agree between processes, and come back from disk."""

import pytest
import torch
from programs import EXAMPLES, ROOT, accuracies, example, moved, printed_by

from ncmi import NCMILoss

pytestmark = pytest.mark.integrations


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # Lightning's, of torch's trees
@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning")
@pytest.mark.filterwarnings("ignore:.*The number of training batches:UserWarning")
def test_lightning(tmp_path, capsys):
    module = example("with_lightning")["main"](str(tmp_path))
    assert moved(module.loss)
    saved = torch.load(tmp_path / "digits.ckpt", weights_only=True)
    assert saved["state_dict"]["loss.centroids.xi"].equal(module.loss.centroids.xi)
    assert min(accuracies(capsys.readouterr().out)) > 0.8


def test_lightning_in_two_processes(tmp_path):
    printed = printed_by(EXAMPLES / "with_lightning.py", 2, tmp_path)
    assert "2 process(es), whose centroids differ by 0.0" in printed
    assert min(accuracies(printed)) > 0.8
    saved = torch.load(tmp_path / "digits.ckpt", weights_only=True)
    loss = NCMILoss(10, 64)
    loss.load_state_dict({key[5:]: value for key, value in saved["state_dict"].items() if key.startswith("loss.")})
    assert moved(loss)


def test_accelerate(tmp_path, capsys):
    loss = example("with_accelerate")["main"](str(tmp_path))
    assert moved(loss)
    saved = torch.load(tmp_path / "custom_checkpoint_0.pkl", weights_only=True)
    assert saved["centroids.xi"].equal(loss.centroids.xi)
    assert min(accuracies(capsys.readouterr().out)) > 0.8


def test_accelerate_in_two_processes(tmp_path):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    printed = printed_by(*launcher, EXAMPLES / "with_accelerate.py", tmp_path)
    assert "2 process(es), whose centroids differ by 0.0" in printed
    assert min(accuracies(printed)) > 0.8


def test_skorch(tmp_path, capsys):
    net = example("with_skorch")["main"](str(tmp_path))
    assert moved(net.criterion_)
    groups = net.optimizer_.param_groups
    assert [group["lr"] for group in groups] == [1.0, 0.3]
    assert groups[0]["params"][0] is net.criterion_.centroids.xi
    assert min(accuracies(capsys.readouterr().out)) > 0.8


def test_metric_learning(tmp_path):
    loss, precision = example("with_metric_learning")["main"](str(tmp_path))
    assert moved(loss)
    assert precision > 0.8


def test_hub_mixin(tmp_path):
    model, restored = example("with_hub_mixin")["main"](str(tmp_path))
    assert moved(restored.loss)
    assert restored.loss.centroids.xi.equal(model.loss.centroids.xi)
    assert restored.loss.center.mean.equal(model.loss.center.mean)
    assert {path.name for path in tmp_path.iterdir()} >= {"model.safetensors", "config.json"}


# torchvision refers to operators that its own library defines. Where that library does not fit the build of torch, the import
# fails for lack of them, and so does whatever imports torchvision: timm, and torchmetrics if torchvision is there.
TIMM = """
import runpy, sys, torch
try:
    import torchvision
except RuntimeError:
    operators = torch.library.Library("torchvision", "DEF")
    operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
loss = runpy.run_path(sys.argv[1])["main"](sys.argv[2])
torch.save(loss.state_dict(), sys.argv[3])
"""


def test_timm_beside_the_environment(tmp_path):
    # For that reason torchvision stays out of the environment; --no-deps: what else timm needs is there.
    packages = tmp_path / "packages"
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--constraint", ROOT / "constraints.txt")
    printed_by(*pip, "--target", packages, "timm", "torchvision")
    printed = printed_by("-c", TIMM, EXAMPLES / "with_timm.py", tmp_path, tmp_path / "loss.pt", path=(packages,))
    assert printed.startswith("512 features")
    assert min(accuracies(printed)) > 0.8
    loss = NCMILoss(10, 512)
    loss.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
    assert moved(loss)
