"""``table-cifar100``: ten losses on CIFAR-100 with ResNets, by own decision and linear probe (Tab:CIFAR100Result)."""

from typing import NamedTuple

from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce.item import Item, Piece, Place, Scale
from ncmi.experiments.reproduce.paper_numbers import CIFAR100
from ncmi.experiments.reproduce.parts import FITTED, PROBE, Part, mean, paragraphs, read_parts, standing
from ncmi.experiments.table import markdown_table

LARGE = "supcon, large batch"
_LOSSES = ["ce", "label-smoothing", "anticlass", "squentropy", "square", "poly1", "supcon", "focal", "ncmi"]
_NETWORKS = ("resnet18", "resnet34", "resnet50", "resnet101")
# Of the published script and of the text; the recipe's own is harmonic.
_PUBLISHED = ["ncmi:preset=paper", "ncmi:preset=released"]
# The rate that every loss chose on validation in results/compare/cifar100-small.
_SMALL_RATE = 0.3
_SMALL = ["epochs=5", "data.train_size=5000", "data.validation=0"]
_SMOKE = ["scale=smoke", "epochs=1", "data.train_size=256"]


class Method(NamedTuple):
    """A line of the table.

    Args:
        title: as the paper has it.
        loss: as a comparison has it; ``LARGE`` for the part of that name.
        own: the decision in the column of own decisions, if any.
        probe: whether the linear probe is shown.
    """

    title: str
    loss: str
    own: str | None = "own"
    probe: bool = True


METHODS = (
    Method("CE", "ce"),
    Method("LS", "label-smoothing"),
    Method("AntiClass", "anticlass"),
    Method("Squentropy", "squentropy"),
    Method("SquareLoss", "square"),
    Method("PolyLoss", "poly1"),
    Method("SupCon", "supcon", None),
    Method("SupCon (large batch)", LARGE, None),
    Method("Focal Loss", "focal"),
    Method("NCMI-CC", "ncmi", "own", probe=False),
    Method("NCMI-CC (fitted)", "ncmi", FITTED, probe=False),
    Method("NCMI-LP", "ncmi", None),
    Method("NCMI-CC, preset paper", "ncmi:preset=paper", "own", probe=False),
    Method("NCMI-LP, preset paper", "ncmi:preset=paper", None),
    Method("NCMI-CC, preset released", "ncmi:preset=released", "own", probe=False),
    Method("NCMI-LP, preset released", "ncmi:preset=released", None),
)


def comparisons(scale: Scale) -> dict[str, Comparison]:
    """The trainings; SupCon's large batch is a part of its own."""
    if scale == "full":
        # Batch and rate of SupCon's own repository for CIFAR (HobbitLong/SupContrast, README): 1024 and 0.5, cosine.
        large = ["batch_size=1024", "schedule={name: cosine}"]
        parts = {}
        for network in _NETWORKS:
            recipe = f"cifar100/{network}"
            parts[network] = Comparison(recipe, {"loss": [*_LOSSES, *_PUBLISHED]}, 3, [0.1])
            parts[f"{network}-supcon-large"] = Comparison(recipe, {"loss": ["supcon"]}, 3, [0.5], large)
        return parts
    if scale == "small":
        recipe, rate, overrides, batch = "cifar100/small", _SMALL_RATE, _SMALL, 512
        models = {"model": ["resnet18_slim", "resnet34_slim"]}
    else:
        recipe, rate, overrides, batch = "digits", 0.1, _SMOKE, 128
        models = {"model": ["mlp"]}
    return {
        "losses": Comparison(recipe, {**models, "loss": _LOSSES}, 1, [rate], overrides),
        "supcon-large": Comparison(
            recipe, {**models, "loss": ["supcon"]}, 1, [rate], [*overrides, f"batch_size={batch}"]
        ),
    }


class _Network(NamedTuple):
    """Where a network's rows are."""

    name: str
    part: Part
    large: Part
    factors: dict[str, str]

    def cell(self, method: Method, decision: str | None) -> str:
        if decision is None:
            return "–"
        part, loss = (self.large, "supcon") if method.loss == LARGE else (self.part, method.loss)
        return part.cell(decision, "top1", **self.factors, loss=loss)

    def share(self, method: Method, decision: str) -> float | None:
        part, loss = (self.large, "supcon") if method.loss == LARGE else (self.part, method.loss)
        return mean(part.spread(decision, "top1", **self.factors, loss=loss))

    def paper(self, method: Method) -> str:
        found = CIFAR100.get((method.loss, method.own or PROBE), {}).get(self.name.removesuffix("_slim"))
        return "–" if found is None else f"{found:.2f}"


def piece(place: Place) -> Piece:
    """The table, where NCMI stands, and what was run."""
    parts = read_parts(ITEM, place)
    if place.scale == "full":
        networks = [_Network(name, parts[name], parts[f"{name}-supcon-large"], {}) for name in _NETWORKS]
    else:
        models = parts["losses"].comparison.factors["model"]
        networks = [_Network(name, parts["losses"], parts["supcon-large"], {"model": name}) for name in models]
    header = ["method"]
    for network in networks:
        header += [f"{network.name}, own", "LP", "paper"]
    body = []
    for method in METHODS:
        cells = [method.title]
        for network in networks:
            probe = PROBE if method.probe else None
            cells += [network.cell(method, method.own), network.cell(method, probe), network.paper(method)]
        if any(cell != "–" for cell in cells[1:]):
            body.append(cells)
    return Piece(
        paragraphs(
            markdown_table(header, body),
            f"Top-1 in % on the test set at the last epoch, {_seeds(networks[0].part)}. *Own* is the head of a loss that has "
            "one and the nearest centroid (CC) for NCMI, with its default objective `harmonic` unless a preset is named; LP "
            "is a linear probe on frozen features.",
            _beside_the_paper(place.scale),
            [line for network in networks for line in _standings(network)],
            [note for part in parts.values() for note in part.notes()],
        ),
        {},
    )


def _standings(network: _Network) -> list[str | None]:
    """NCMI among the other losses, by own decision and by linear probe."""
    others = [method for method in METHODS if not method.loss.startswith("ncmi")]
    owns = {method.title: network.share(method, "own") for method in others if method.own}
    probes = {method.title: network.share(method, PROBE) for method in others}
    found = []
    for method in METHODS:
        if method.loss.startswith("ncmi"):
            rivals = owns if method.own else probes
            value = network.share(method, method.own or PROBE)
            sentence = standing(method.title, value, rivals, network.part.samples)
            found.append(sentence and f"{network.name}: {sentence}")
    return found


def _seeds(part: Part) -> str:
    seeds = part.comparison.seeds
    return "one seed" if seeds == 1 else f"mean ± standard deviation over {seeds} seeds"


def _beside_the_paper(scale: Scale) -> str:
    if scale == "full":
        return (
            "The columns *paper* are its numbers for the same networks and schedule. Accuracy there is from the published "
            "script's best test epoch, here from the last one; SupCon sees two views in half the epochs."
        )
    return (
        "The columns *paper* are its numbers for ResNets four times as wide, 50,000 images and 200 epochs, three seeds. They "
        "cannot be compared with ours, which come from the networks, images and epochs named below; only the order of the "
        "losses can. There NCMI-LP is first and NCMI-CC second on every network. The rate is 0.3 for every loss: each chose it "
        "on validation in `results/compare/cifar100-small`."
    )


ITEM = Item("table-cifar100", "CIFAR-100: ten losses", comparisons, piece)
