"""``table-imagenet``: top-1 and top-5 of images from folders, evaluated at a higher resolution than trained (Tab:ImageNet)."""

from pathlib import Path

from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce.image_folder import write_image_folder
from ncmi.experiments.reproduce.item import HARMONIC, Item, Piece, Place, Scale
from ncmi.experiments.reproduce.methods import OWN_AND_PROBE, Method, Network, count_seeds, method_table
from ncmi.experiments.reproduce.paper_numbers import IMAGENET
from ncmi.experiments.reproduce.parts import PROBE, STANDS, paragraphs, points, read_parts, what_was_run

_LOSSES = ["ce", "label-smoothing", "focal", "supcon", "ncmi"]
_NETWORKS = ("resnet50", "resnet101")
# Sets that are written out as folders of images: name, training images, folder.
_WRITTEN = {
    "small": ("cifar100", 5_000, Path("runs", "reproduce", "images", "cifar100")),
    "smoke": ("digits", 256, Path("runs", "reproduce", "images", "digits")),
}


def comparisons(scale: Scale) -> dict[str, Comparison]:
    """The trainings; SupCon's large batch is quoted in the paper, and is not run."""
    if scale == "full":
        losses = [*_LOSSES, "ncmi:preset=paper"]
        return {name: Comparison(f"imagenet/{name}", {"loss": losses}, 1, [0.5]) for name in _NETWORKS}
    model, train, test, epochs = ("resnet10_slim", 32, 40, 8) if scale == "small" else ("resnet8_slim", 8, 10, 1)
    overrides = [
        f"scale={scale}", f"data.name=folder:{_WRITTEN[scale][2].as_posix()}", f"data.train_resolution={train}",
        f"data.test_resolution={test}", "data.validation=0", "data.workers=0", f"model={model}", f"epochs={epochs}",
        "schedule={name: one-cycle}", "engine.deterministic=true", "engine.channels_last=false",
    ]  # fmt: skip
    overrides += [HARMONIC] if scale == "small" else []
    return {"losses": Comparison("folder", {"loss": _LOSSES}, 1, [0.3], overrides)}


def prepare(place: Place) -> None:
    """Write the images that the recipe reads."""
    if place.scale in _WRITTEN:
        name, train_size, path = _WRITTEN[place.scale]
        write_image_folder(path, name, train_size)


def needs(scale: Scale) -> list[str]:
    """Data that must be there."""
    if scale == "full":
        return ["It needs ImageNet in the folder `imagenet`, with `train` and `val` and one folder a class below them."]
    name, train_size, path = _WRITTEN[scale]
    return [f"{train_size:,} training images and the test images of {name} are written to {path}, once."]


def piece(place: Place) -> Piece:
    """The table, where NCMI stands, and what was run."""
    parts = read_parts(ITEM, place)
    if place.scale == "full":
        networks = [Network(name, parts[name], None, {}) for name in _NETWORKS]
    else:
        networks = [Network(parts["losses"].comparison.base.model.name, parts["losses"], None, {})]
    data = networks[0].part.comparison.base.data
    return Piece(
        paragraphs(
            method_table(networks, {"top1": "top-1", "top5": "top-5"}, _paper),
            f"In % on the test images at the last epoch, {count_seeds(networks[0].part)}; trained at {data.train_resolution} "
            f"pixels, evaluated at {data.test_resolution}. {OWN_AND_PROBE}",
            _beside_the_paper(place.scale),
            points(STANDS, [line for network in networks for line in network.standings()]),
            what_was_run(parts.values()),
        ),
        {},
    )


def _paper(network: Network, method: Method) -> list[str]:
    name = network.name if network.name in _NETWORKS else _NETWORKS[0]
    found = IMAGENET.get((method.loss, method.own or PROBE), {}).get(name)
    return ["–", "–"] if found is None else [f"{share:.2f}" for share in found]


def _beside_the_paper(scale: Scale) -> str:
    claim = "In the paper NCMI-CC is first by top-1 on both networks, NCMI-LP second."
    if scale == "full":
        return (
            f"The columns *paper* are its numbers for the same networks, epochs and resolutions. {claim} SupCon has half the "
            "epochs, because it sees two views of each image; its line with a large batch is quoted there from its authors."
        )
    return (
        "The columns *paper* are its numbers for ResNet-50 on ImageNet: a thousand classes, 1.28 million images, 1000 epochs, "
        "224 pixels in training and 280 in evaluation. They cannot be compared with ours, which come from another set of small "
        "images read from folders in the same way, and from the network and epochs named below; only the order of the losses "
        f"can. {claim} The rate is 0.3 for every loss and was not chosen here."
    )


ITEM = Item(
    "table-imagenet",
    "ImageNet: top-1 and top-5, at another resolution",
    comparisons,
    piece,
    needs=needs,
    prepare=prepare,
)
