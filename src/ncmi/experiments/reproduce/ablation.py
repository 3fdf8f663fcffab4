"""``table-ablation``: NCMI with and without its map to the simplex and its centre (Tab:ablation)."""

from ncmi.experiments.cells import Comparison
from ncmi.experiments.reproduce.item import Item, Piece, Place, Scale
from ncmi.experiments.reproduce.paper_numbers import ABLATION
from ncmi.experiments.reproduce.parts import FITTED, PROBE, Part, mean, paragraphs, points, read_parts, what_was_run
from ncmi.experiments.table import markdown_table

# Options of the loss. The published script's are written out, because a preset takes no others beside it.
_OBJECTIVES = {
    "harmonic": ["objective=harmonic"],
    "released": ["objective=released", "centroids=fixed", "center_momentum=0.999999"],
}
_TITLES = {"harmonic": "harmonic, learned q (ours)", "released": "released, fixed q (the published script)"}
_CHANCE = 0.05  # below this accuracy on a hundred classes a training has come to nothing


def loss_name(objective: str, simplex: str, center: str) -> str:
    """The loss of a line, as a comparison has it.

    >>> loss_name("harmonic", "softmax", "none")
    'ncmi:objective=harmonic:simplex=softmax:center=none'
    """
    return ":".join(["ncmi", *_OBJECTIVES[objective], f"simplex={simplex}", f"center={center}"])


def comparisons(scale: Scale) -> dict[str, Comparison]:
    """The trainings: two objectives, two maps, with and without a centre."""
    losses = [loss_name(objective, *cell) for objective in _OBJECTIVES for cell in ABLATION]
    if scale == "full":
        return {"losses": Comparison("cifar100/resnet18", {"loss": losses}, 3, [0.1])}
    if scale == "small":
        return {
            "losses": Comparison("cifar100/small", {"loss": losses}, 1, [0.3], ["data.train_size=5000", "epochs=6"])
        }
    overrides = ["scale=smoke", "epochs=1", "data.train_size=256"]
    return {"losses": Comparison("digits", {"loss": losses}, 1, [0.1], overrides)}


def piece(place: Place) -> Piece:
    """The table, what leaving something out costs, and what was run."""
    part = read_parts(ITEM, place)["losses"]
    fitted = any(FITTED in row["decisions"] for row in part.rows)
    header = ["objective", "map", "centre", "CC", *(["CC (fitted)"] if fitted else []), "LP", "paper"]
    decisions = ["own", *([FITTED] if fitted else []), PROBE]
    body = [
        [
            _TITLES[objective],
            "NSF" if simplex == "nsf" else "softmax",
            "yes" if center == "ema" else "no",
            *(part.cell(decision, "top1", loss=loss_name(objective, simplex, center)) for decision in decisions),
            f"{number:g}",
        ]
        for objective in _OBJECTIVES
        for (simplex, center), number in ABLATION.items()
    ]
    return Piece(
        paragraphs(
            markdown_table(header, body, left=3),
            "Top-1 in % on the test set at the last epoch: by the nearest centroid (CC) and by a linear probe (LP).",
            _beside_the_paper(place.scale),
            points("What it costs:", [line for objective in _OBJECTIVES for line in _sentences(part, objective)]),
            what_was_run([part]),
        ),
        {},
    )


def _sentences(part: Part, objective: str) -> list[str]:
    """What the map and the centre bring, from the rows."""

    def share(simplex: str, center: str) -> float | None:
        return mean(part.spread("own", "top1", loss=loss_name(objective, simplex, center)))

    whole = share("nsf", "ema")
    found = []
    for cell, what in {("nsf", "none"): "the centre", ("softmax", "ema"): "NSF", ("softmax", "none"): "both"}.items():
        value = share(*cell)
        if whole is None or value is None:
            continue
        drop = 100 * (whole - value)
        effect = f"costs {drop:.2f} points" if drop > 0 else f"gains {-drop:.2f} points"
        nothing = "; it comes to nothing" if value < _CHANCE <= whole else ""
        found.append(f"{objective}: leaving out {what} {effect} (CC, {100 * whole:.2f} to {100 * value:.2f}){nothing}.")
    if found:
        values = {cell: value for cell in ABLATION if (value := share(*cell)) is not None}
        order = sorted(values, key=lambda cell: -values[cell])
        same = order == sorted(values, key=lambda cell: -ABLATION[cell])
        found.append(f"{objective}: the order of the lines by CC is {'' if same else 'not '}the paper's.")
    return found


def _beside_the_paper(scale: Scale) -> str:
    about = "The paper's numbers are of ResNet-18, 200 epochs; they do not say which objective and which q they are of."
    if scale == "full":
        return f"{about} Here the last epoch counts."
    return (
        f"{about} They cannot be compared with ours, which come from the network, images and epochs named below; only what "
        "leaving something out does can."
    )


ITEM = Item("table-ablation", "Ablation: the map and the centre", comparisons, piece)
