"""Time and memory of an epoch: CE, focal loss, SupCon and NCMI, one process after the other, in rounds."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ncmi.experiments.losses import loss_overrides, loss_views, split_variant
from ncmi.experiments.reproduce.epoch_cost import cost_in_process
from ncmi.experiments.reproduce.item import Item, Piece, Place, Scale
from ncmi.experiments.reproduce.measured import MeasuredRows, Row, machine_sentence, nothing_yet
from ncmi.experiments.reproduce.parts import paragraphs, points
from ncmi.experiments.table import markdown_table
from ncmi.recipes import read_recipe
from ncmi.training.config import Config, make_config

REFERENCE = "ce"
HARMONIC, RELEASED = "ncmi:objective=harmonic", "ncmi:preset=released"
LOSSES = (REFERENCE, "focal", "supcon", HARMONIC, RELEASED)

_NAMES = {"ce": "CE", "focal": "focal", "supcon": "SupCon", "ncmi": "NCMI"}
_NAMES |= {HARMONIC: "NCMI, harmonic", RELEASED: "NCMI, released"}
_ON_PAR = 1.1  # what "on par" may mean for a ratio to CE


class Printed(NamedTuple):
    """The paper's numbers for a network: seconds of an epoch and Gb, of eight A5000 together."""

    seconds: Mapping[str, int]
    gigabytes: Mapping[str, float]


# Per-epoch wall-clock time and peak graph memory, ImageNet, batches of 1024.
PAPER = {
    "ResNet-50": Printed(
        {"ce": 399, "focal": 402, "supcon": 592, "ncmi": 404},
        {"ce": 102.29, "focal": 104.63, "supcon": 180.32, "ncmi": 107.89},
    ),
    "ResNet-101": Printed(
        {"ce": 633, "focal": 635, "supcon": 963, "ncmi": 649},
        {"ce": 142.67, "focal": 143.42, "supcon": 241.17, "ncmi": 148.55},
    ),
}


_ONE_EPOCH = ("epochs=1", "schedule={name: constant}")  # a recipe's own schedule may fall at later epochs


class Setting(NamedTuple):
    """What is timed: a recipe, so many steps of it after a first one (``None``: the whole epoch), so many rounds."""

    recipe: str
    timed: int | None
    rounds: int
    overrides: tuple[str, ...] = ()

    def config(self, loss: str) -> Config:
        """The run of a loss."""
        base = make_config(read_recipe(self.recipe), [*_ONE_EPOCH, *self.overrides])
        size = [] if self.timed is None else [f"data.train_size={(self.timed + 1) * base.batch_size}"]
        # The rate changes no time; a low one keeps the first steps of every loss finite.
        settings = [*_ONE_EPOCH, "optimizer.lr=0.01", *size, *self.overrides, *loss_overrides(loss, base)]
        return make_config(read_recipe(self.recipe), settings, owner=f"recipe {self.recipe}")


SETTINGS: dict[Scale, tuple[Setting, ...]] = {
    "smoke": (Setting("digits", timed=3, rounds=1),),
    "small": (
        Setting("cifar100/small", timed=10, rounds=3),
        Setting("cifar100/resnet18", timed=2, rounds=3),
    ),
    "full": (Setting("imagenet/resnet50", timed=None, rounds=1), Setting("imagenet/resnet101", timed=None, rounds=1)),
}


def measure(place: Place) -> None:
    """Time the rounds that no row has yet; a round is every loss once, one at a time, and its rows come together."""
    file = MeasuredRows(place.out)
    for setting in SETTINGS[place.scale]:
        for number in range(setting.rounds):
            if file.has(recipe=setting.recipe, round=number):
                continue
            rows = []
            # Every round starts with another loss, so that none always follows the same one.
            for loss in (*LOSSES[number % len(LOSSES) :], *LOSSES[: number % len(LOSSES)]):
                config = setting.config(loss)
                about = {"recipe": setting.recipe, "model": config.model.name, "data": config.data.name, "loss": loss}
                rows.append({**about, "round": number, **cost_in_process(config, memory=number == 0)})
            file.add(rows)
            place.say(f"table-efficiency: {setting.recipe}, round {number + 1} of {setting.rounds}")


def piece(place: Place) -> Piece:
    """A table with ratios to CE of the same round, the paper's beside them, and what they say of its claims."""
    rows = MeasuredRows(place.out).rows()
    if not rows:
        return Piece(nothing_yet("table-efficiency"), {})
    recipes = list(dict.fromkeys(row["recipe"] for row in rows))
    groups = {recipe: [row for row in rows if row["recipe"] == recipe] for recipe in recipes}
    header = [
        "network", "data", "loss", "ms an image", "time / CE", "MB of tensors", "memory / CE",
        *(f"paper, {name}: {what} / CE" for name in PAPER for what in ("time", "memory")),
    ]  # fmt: skip
    body = [_line(group, loss) for group in groups.values() for loss in LOSSES if _of(group, loss)]
    text = [
        markdown_table(header, body, left=3),
        *(_about(group) for group in groups.values()),
        f"The paper's numbers are seconds of an epoch and Gb on ImageNet, {_printed()}. Only ratios can stand beside ours: "
        "its machine is two EPYC 7763 with eight A5000, its batches hold 1024 images of 224 pixels, and what it "
        "counts as memory is not said. Eight A5000 of 24 GB hold 192 GB together, less than the 241.17 that it prints for "
        "SupCon with ResNet-101.",
        points("What the rows say:", [line for group in groups.values() for line in _findings(group)]),
        machine_sentence(rows),
    ]
    return Piece(paragraphs(*text), {})


def _of(group: Sequence[Row], loss: str) -> list[Row]:
    return [row for row in group if row["loss"] == loss]


def time_ratios(group: Sequence[Row], loss: str) -> list[float]:
    """Time of a loss as a multiple of that of CE, round by round."""
    reference = {row["round"]: row["seconds_per_image"] for row in _of(group, REFERENCE)}
    return [row["seconds_per_image"] / reference[row["round"]] for row in _of(group, loss)]


def memory_of(group: Sequence[Row], loss: str) -> float:
    """Bytes of tensors at the peak; the round that measured them has them."""
    return next(row["tensor_bytes"] for row in _of(group, loss) if "tensor_bytes" in row)


def _line(group: Sequence[Row], loss: str) -> list[str]:
    own, ratios = _of(group, loss), time_ratios(group, loss)
    spread = "" if len(ratios) == 1 or loss == REFERENCE else f" ({min(ratios):.2f} to {max(ratios):.2f})"
    cells = [
        own[0]["model"],
        own[0]["data"],
        _NAMES[loss],
        f"{1e3 * statistics.median(row['seconds_per_image'] for row in own):.3g}",
        f"{statistics.median(ratios):.2f}{spread}",
        f"{memory_of(group, loss) / 1e6:.3g}",
        f"{memory_of(group, loss) / memory_of(group, REFERENCE):.2f}",
    ]
    name, _ = split_variant(loss)
    for printed in PAPER.values():
        for values in printed:
            cells.append(f"{values[name] / values[REFERENCE]:.2f}")
    return cells


def _about(group: Sequence[Row]) -> str:
    rounds, row = len({row["round"] for row in group}), group[0]
    return (
        f"`{row['recipe']}`: {row['timed_steps']} steps of {row['batch_size']} images after a first one, "
        f"{rounds} round{'s' * (rounds > 1)}, each loss in a process of its own, one at a time; time is the median of the "
        "rounds, its ratio the median (and range) of ratios within a round. Loading and augmentation are included. Memory is "
        "that of tensors alone: weights, gradients, optimiser and activations at the worst moment of a step. SupCon sees "
        f"{loss_views('supcon')} views of each image."
    )


def _findings(group: Sequence[Row]) -> list[str]:
    """Whether the paper's two claims show: NCMI costs what CE costs, and less than SupCon."""
    time = {loss: statistics.median(time_ratios(group, loss)) for loss in LOSSES}
    memory = {loss: memory_of(group, loss) / memory_of(group, REFERENCE) for loss in LOSSES}
    seconds, gigabytes = PAPER["ResNet-50"]
    printed = [f"{100 * values['ncmi'] / values['supcon']:.0f} %" for values in (seconds, gigabytes)]
    found = []
    for loss in (HARMONIC, RELEASED):
        par = time[loss] <= _ON_PAR and memory[loss] <= _ON_PAR
        less = time[loss] < time["supcon"] and memory[loss] < memory["supcon"]
        found.append(
            f"{group[0]['model']}, {_NAMES[loss]}: on par with CE (within {100 * (_ON_PAR - 1):.0f} % in time and memory), as "
            f"the paper claims, {'shows' if par else 'does not show'} here (time {time[loss]:.2f} ×, memory "
            f"{memory[loss]:.2f} ×); less time and memory than SupCon {'shows' if less else 'does not show'}: "
            f"{100 * time[loss] / time['supcon']:.0f} % of its time and {100 * memory[loss] / memory['supcon']:.0f} % of its "
            f"memory, {printed[0]} and {printed[1]} in the paper with ResNet-50."
        )
    return found


def _printed() -> str:
    parts = []
    for name, (seconds, gigabytes) in PAPER.items():
        losses = ", ".join(f"{_NAMES[loss]} {seconds[loss]} s and {gigabytes[loss]} Gb" for loss in seconds)
        parts.append(f"{name}: {losses}")
    return "; ".join(parts)


def _needs(scale: Scale) -> tuple[str, ...]:
    if scale == "smoke":
        return ()
    alone = "It needs the machine for itself: other work changes the times."
    if scale == "small":
        return ("It needs CIFAR-100 (`ncmi doctor` says where it is looked for).", alone)
    return (
        "It needs ImageNet in the folder `imagenet`, with `train` and `val`, and a device that holds a step of 2048 images for "
        "SupCon.",
        alone,
    )


ITEM = Item(
    name="table-efficiency",
    title="Time and memory of training",
    comparisons=lambda scale: {},
    piece=piece,
    measure=measure,
    needs=_needs,
)
