"""``table-cifar100``: ten losses on CIFAR-100 with ResNets, by own decision and linear probe (Tab:CIFAR100Result)."""

from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce.item import HARMONIC, Item, Piece, Place, Scale
from ncmi.experiments.reproduce.methods import OWN_AND_PROBE, Method, Network, count_seeds, method_table
from ncmi.experiments.reproduce.paper_numbers import CIFAR100
from ncmi.experiments.reproduce.parts import PROBE, STANDS, paragraphs, points, read_parts, what_was_run

_LOSSES = ["ce", "label-smoothing", "anticlass", "squentropy", "square", "poly1", "supcon", "focal", "ncmi"]
_NETWORKS = ("resnet18", "resnet34", "resnet50", "resnet101")
_PUBLISHED = ["ncmi:preset=paper", "ncmi:preset=released"]  # beside the recipe's own objective
_SMALL = ["epochs=4", "data.train_size=5000", "data.validation=1000", "batch_size=32", HARMONIC]
_SMOKE = ["scale=smoke", "epochs=1", "data.train_size=256"]


def comparisons(scale: Scale) -> dict[str, Comparison]:
    """The trainings; SupCon's large batch is a part of its own."""
    if scale == "full":
        # Batch, rate and schedule of SupCon's own repository for CIFAR (HobbitLong/SupContrast, README).
        large = ["batch_size=1024", "schedule={name: cosine}"]
        parts = {}
        for network in _NETWORKS:
            recipe = f"cifar100/{network}"
            parts[network] = Comparison(recipe, {"loss": [*_LOSSES, *_PUBLISHED]}, 3, [0.1])
            parts[f"{network}-supcon-large"] = Comparison(recipe, {"loss": ["supcon"]}, 3, [0.5], large)
        return parts
    if scale == "small":
        # At batches of 128 every loss chose the rate 0.3 on validation, in results/compare/cifar100-small; these are of 32.
        recipe, rate, overrides, batch, large_rate = "cifar100/small", 0.1, _SMALL, 512, 0.3
        models = {"model": ["resnet18_slim", "resnet34_slim"]}
    else:
        recipe, rate, overrides, batch, large_rate = "digits", 0.1, _SMOKE, 128, 0.1
        models = {"model": ["mlp"]}
    large = [*overrides, f"batch_size={batch}"]
    return {
        "losses": Comparison(recipe, {**models, "loss": _LOSSES}, 1, [rate], overrides),
        "supcon-large": Comparison(recipe, {**models, "loss": ["supcon"]}, 1, [large_rate], large),
    }


def piece(place: Place) -> Piece:
    """The table, where NCMI stands, and what was run."""
    parts = read_parts(ITEM, place)
    if place.scale == "full":
        networks = [Network(name, parts[name], parts[f"{name}-supcon-large"], {}) for name in _NETWORKS]
    else:
        models = parts["losses"].comparison.factors["model"]
        networks = [Network(name, parts["losses"], parts["supcon-large"], {"model": name}) for name in models]
    return Piece(
        paragraphs(
            method_table(networks, {"top1": ""}, _paper),
            f"Top-1 in % on the test set at the last epoch, {count_seeds(networks[0].part)}. {OWN_AND_PROBE}",
            _beside_the_paper(place.scale),
            points(STANDS, [line for network in networks for line in network.standings()]),
            what_was_run(parts.values()),
        ),
        {},
    )


def _paper(network: Network, method: Method) -> list[str]:
    found = CIFAR100.get((method.loss, method.own or PROBE), {}).get(network.name.removesuffix("_slim"))
    return ["–" if found is None else f"{found:.2f}"]


def _beside_the_paper(scale: Scale) -> str:
    claim = "In the paper NCMI-LP is first and NCMI-CC second on every network."
    if scale == "full":
        return (
            f"The columns *paper* are its numbers for the same networks and schedule. {claim} Its published script reports the "
            "best test epoch, this table the last one; SupCon has half the epochs, because it sees two views of each image."
        )
    return (
        "The columns *paper* are its numbers for ResNets eight times as wide, 50,000 images, 200 epochs and three seeds. They "
        "cannot be compared with ours, which come from the networks, images and epochs named below; only the order of the "
        f"losses can. {claim} The rate is the same for every loss, 0.1 for batches of 32 at scale small: each of them chose "
        "0.3 on validation for batches of 128, in `results/compare/cifar100-small`. The large batch of SupCon has 512 images."
    )


ITEM = Item("table-cifar100", "CIFAR-100: ten losses", comparisons, piece)
