"""The path of runs that merge classes: NCMI, accuracy and shared decisions over the epochs, and which classes end as one.

Ours, not the paper's: its objective is a ratio of means, whose minimum merged classes reach (docs/collapse.md).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ncmi.evaluation import Outputs
from ncmi.experiments.cells import Cell, Comparison
from ncmi.experiments.reproduce.item import HARMONIC, Item, Piece, Place, Scale
from ncmi.experiments.reproduce.measured import MeasuredRows, Row, machine_sentence, nothing_yet
from ncmi.experiments.table import markdown_table
from ncmi.report.curves import Panel, curves_figure
from ncmi.report.figures import rounded
from ncmi.report.records import RunRecord, read_runs
from ncmi.training.run_folder import RunFolder

NAME, PART = "merged-classes", "objectives"
TITLES = {
    "ncmi:objective=theorem1": "theorem1",
    "ncmi:objective=centroid": "centroid",
    "ncmi": "harmonic",
    "ce": "cross-entropy",
}
_RATIOS, _REFERENCE = ("ncmi:objective=theorem1", "ncmi:objective=centroid"), "ncmi"
_LOGGED = (
    "validation_ncmi",
    "validation_cmi",
    "validation_gamma",
    "validation_top1",
    "decided_classes",
    "shared_classes",
)
_PANELS = (
    Panel("validation NCMI = CMI / Γ", {"validation_ncmi": "NCMI"}, may_be_log=True),
    Panel("validation accuracy, %", {"validation_top1": "top-1"}, percent=True),
    Panel("classes that share another's decision", {"shared_classes": "shared"}),
)
_SHOWN_GROUPS, _SHOWN_NAMES = 3, 8


def comparisons(scale: Scale) -> dict[str, Comparison]:
    """Both ratios of means, ``harmonic`` and cross-entropy at one rate; the validation part shows the path."""
    factors = {"loss": list(TITLES)}
    if scale == "smoke":
        return {PART: Comparison("digits", factors, 1, [0.3], ["scale=smoke", "epochs=6", "decisions=[own]", HARMONIC])}
    if scale == "small":
        overrides = ["data.train_size=5000", "epochs=8", "decisions=[own]", HARMONIC]
        return {PART: Comparison("cifar100/small", factors, 1, [0.3], overrides)}
    return {
        PART: Comparison("cifar100/resnet18", factors, 1, [0.1], ["data.validation=5000", "decisions=[own]", HARMONIC])
    }


def measure(place: Place) -> None:
    """Read the log and the outputs of each finished run that no row has yet."""
    (comparison,) = comparisons(place.scale).values()
    file = MeasuredRows(place.out)
    trained = place.part(PART).rows.rows()
    for cell in (Cell(group, comparison.rates[0], 0) for group in comparison.groups):
        fingerprint = comparison.fingerprint(cell)
        if file.has(fingerprint=fingerprint) or "failed" in trained.get(fingerprint, {}):
            continue
        folder = RunFolder(place.runs / PART / comparison.cell_name(cell))
        if not folder.finished:  # its row came from elsewhere, or its folder was removed
            place.say(
                f"{NAME}: {cell.title} has no finished run in {folder.path}; remove its row, and run the item again."
            )
            continue
        (run,) = read_runs([folder.path])
        file.add([{**cell.factors, "rate": cell.rate, "seed": cell.seed, "fingerprint": fingerprint, **path_of(run)}])
        place.say(f"{NAME}: {cell.title} read")


def path_of(run: RunRecord) -> dict[str, Any]:
    """What a run's log says of each epoch, when it warned, and what its outputs say of the last one."""
    assert run.outputs is not None
    right = run.outputs.decisions == run.outputs.targets
    return {
        "data": run.config["data"]["name"],
        "scale": run.config["scale"],
        "classes": len(run.outputs.class_names),
        "path": [{"epoch": row["epoch"], **{key: _short(row.get(key)) for key in _LOGGED}} for row in run.rows],
        "warned": next((row["epoch"] for row in run.rows if row.get("warning")), None),
        "samples": len(right),
        "top1": right.double().mean().item(),
        "groups": [[run.outputs.class_names[y] for y in group] for group in merged_groups(run.outputs)],
        "inside": _short(inside_distance(run.outputs)),
    }


def merged_groups(outputs: Outputs) -> list[list[int]]:
    """Classes that are most often decided as the same class, two or more each, the largest group first.

    On a tie a class counts as decided right, so that chance merges none.
    """
    num_classes = len(outputs.class_names)
    counts = torch.zeros(num_classes, num_classes, dtype=torch.float64)
    one = torch.ones((), dtype=torch.float64)
    counts.index_put_((outputs.targets.long(), outputs.decisions.long()), one, accumulate=True)
    present = counts.sum(dim=1) > 0
    favourites = (counts + torch.eye(num_classes) / 2).argmax(dim=1)
    groups: dict[int, list[int]] = {}
    for y in present.nonzero().squeeze(1).tolist():
        groups.setdefault(int(favourites[y]), []).append(y)
    return sorted((group for group in groups.values() if len(group) > 1), key=lambda group: (-len(group), group))


def inside_distance(outputs: Outputs) -> float | None:
    """Mean divergence between class means of a group as a share of that between any two; ``None`` without groups."""
    distances, groups = outputs.divergences.double(), merged_groups(outputs)
    if not groups or len(distances) != len(outputs.class_names):
        return None
    apart = ~torch.eye(len(distances), dtype=torch.bool) & distances.isfinite()
    together = torch.zeros_like(apart)
    for group in groups:
        place = torch.tensor(group)
        together[place.unsqueeze(1), place] = True
    share = distances[together & apart].mean() / distances[apart].mean()
    return share.item() if bool(share.isfinite()) else None


def piece(place: Place) -> Piece:
    """The picture, what it shows, and examples of merged classes."""
    (comparison,) = comparisons(place.scale).values()
    measured = {row["loss"]: row for row in MeasuredRows(place.out).rows()}
    rows = {loss: measured[loss] for loss in TITLES if loss in measured}
    if not rows:
        return Piece(nothing_yet(NAME), {})
    failed = [row for row in place.part(PART).rows.rows().values() if "failed" in row]
    paragraphs = [
        f"![NCMI, accuracy and shared decisions over the epochs for {_listed(rows)}]({NAME}.svg)",
        *_said(rows),
        _table(rows),
        "Top-1 is that of the test set at the last epoch, all else of the validation part. A class *shares* a decision if its "
        "mean score is decided as another class's is. *Warned* is the epoch after which training warned of it.",
        *_groups(rows),
        *(f"{TITLES[row['loss']]} failed: {row['failed']}" for row in failed),
        f"`{comparison.recipe}`, {', '.join(f'`{override}`' for override in comparison.overrides)}, rate "
        f"{comparison.rates[0]:g}, one seed. {machine_sentence(list(rows.values()))}",
    ]
    lines = {TITLES[loss]: row["path"] for loss, row in rows.items()}
    return Piece("\n\n".join(paragraphs) + "\n", {NAME: curves_figure(lines, panels=_PANELS)})


def _said(rows: Mapping[str, Row]) -> list[str]:
    """A sentence for each ratio of means beside the default, and one that says whether the collapse is seen."""
    other = rows.get(_REFERENCE)
    ratios = [rows[loss] for loss in _RATIOS if loss in rows]
    if other is None or not ratios:
        return []
    sentences = [_beside(row, other) for row in ratios]
    seen = [f"`{TITLES[row['loss']]}`" for row in ratios if _collapsed(row, other)]
    if seen:
        sentences.append(
            f"A lower NCMI, a lower accuracy and more shared decisions: {' and '.join(seen)} merged classes."
        )
    else:
        sentences.append(
            "None has a lower NCMI together with a lower accuracy and more shared decisions: these runs do not show classes "
            "that merge."
        )
    return [" ".join(sentences)]


def _beside(row: Row, other: Row) -> str:
    last, others = row["path"][-1], other["path"][-1]
    difference = 100 * (row["top1"] - other["top1"])
    chance = "" if abs(difference) > 100 * _chance(row, other) else ", which chance explains"
    return (
        f"`{TITLES[row['loss']]}` ends with an NCMI of {_number(last['validation_ncmi'])}, where `{TITLES[other['loss']]}` has "
        f"{_number(others['validation_ncmi'])}; it decides {100 * row['top1']:.1f} % of the test set right, "
        f"{abs(difference):.1f} points {'more' if difference > 0 else 'less'}{chance}; {last['shared_classes']:.0f} of "
        f"{row['classes']} classes share the decision of another, there {others['shared_classes']:.0f}."
    )


def _collapsed(row: Row, other: Row) -> bool:
    """Whether NCMI and accuracy are both lower and more classes share a decision; NCMI is not known where all are one."""
    last, others = row["path"][-1], other["path"][-1]
    ncmi, others_ncmi = last["validation_ncmi"], others["validation_ncmi"]
    lower = ncmi is not None and others_ncmi is not None and ncmi < others_ncmi
    worse = other["top1"] - row["top1"] > _chance(row, other)
    return lower and worse and last["shared_classes"] > others["shared_classes"]


def _chance(row: Row, other: Row) -> float:
    """Two standard deviations of the difference of two accuracies p of N samples, √(2 p (1 − p) / N)."""
    middle = (row["top1"] + other["top1"]) / 2
    return 2 * math.sqrt(2 * middle * (1 - middle) / row["samples"])


def _table(rows: Mapping[str, Row]) -> str:
    header = ["objective", "NCMI", "CMI", "Γ", "top-1, %", "shared", "decided", "warned"]
    body = []
    for loss, row in rows.items():
        last = row["path"][-1]
        numbers = [_number(last[key]) for key in ("validation_ncmi", "validation_cmi", "validation_gamma")]
        shared = f"{last['shared_classes']:.0f} of {row['classes']}"
        warned = "–" if row["warned"] is None else str(row["warned"])
        decided = f"{last['decided_classes']:.1f}"
        body.append([TITLES[loss], *numbers, f"{100 * row['top1']:.2f}", shared, decided, warned])
    return markdown_table(header, body)


def _groups(rows: Mapping[str, Row]) -> list[str]:
    """A table of the largest groups, if any class has merged in any run."""
    body = []
    for loss, row in rows.items():
        groups = row["groups"]
        inside = "–" if row["inside"] is None else f"{row['inside']:.2g}"
        shown = "; ".join(_names(group) for group in groups[:_SHOWN_GROUPS]) or "–"
        body.append([TITLES[loss], str(len(groups)), str(sum(map(len, groups))), inside, shown])
    if not any(row["groups"] for row in rows.values()):
        return ["On the test set, every class is most often decided as a class that no other is."]
    header = ["objective", "groups", "classes in them", "distance inside", "the largest groups"]
    return [
        "Classes whose samples of the test set are most often decided as the same class:",
        markdown_table(header, body),
        "*Distance inside* is the mean divergence between class means of a group (training part), divided by that between any "
        "two classes. Near 0 the classes of a group are one place; near 1 they are as far apart as any, and only their "
        "decisions are weak.",
    ]


def _names(group: Sequence[str]) -> str:
    more = f" and {len(group) - _SHOWN_NAMES} more" if len(group) > _SHOWN_NAMES else ""
    return ", ".join(name.replace("_", " ") for name in group[:_SHOWN_NAMES]) + more


def _listed(rows: Mapping[str, Row]) -> str:
    return ", ".join(TITLES[loss] for loss in rows)


def _number(value: float | None) -> str:
    """A quantity that is not known where all outputs are one."""
    return "–" if value is None else f"{value:.3g}"


def _short(value: float | None) -> float | None:
    return None if value is None else rounded(value)


def _needs(scale: Scale) -> Sequence[str]:
    return [] if scale == "smoke" else ["CIFAR-100: `ncmi doctor` says whether it is here, and where to get it."]


ITEM = Item(NAME, "Objectives that merge classes", comparisons, piece, measure, _needs)
