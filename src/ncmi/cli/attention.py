"""Show what a run on bags looks at in a slide: its decision, the patches with most attention, and a map of them."""

import csv
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from ncmi.data.bags import BagSet
    from ncmi.evaluation.attention import AttendedInstance
    from ncmi.training.setup import Setup
    from ncmi.training.task import Task

_COLUMNS = ("rank", "index", "x", "y", "weight", "share")
_MADE_UP_NOTE = (
    "The coordinates are made up (a grid, row by row): the map shows how much attention each region gets, not where on the "
    "slide it is."
)


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("run", type=str, help="the run folder")
    parser.add_argument("slide", type=str, help="the slide's name, as in the table of the set")
    parser.add_argument("--checkpoint", type=str, default="last", choices=["last", "best"], help="which weights")
    parser.add_argument("--out", type=str, help="folder of map and table (by default attention in the run folder)")
    parser.add_argument("--top", type=int, default=20, help="patches that are printed; the file has all of them")
    parser.add_argument("--head", type=int, help="one attention head, from 0 (by default the mean of all)")
    parser.add_argument("--device", type=str, help="such as cpu or cuda:1 (by default a GPU if there is one)")


def run(arguments: Any) -> int:
    """Print decision and top patches; write map and table."""
    from ncmi.data.bags import has_made_up_coordinates
    from ncmi.evaluation.attention import attention_weights, top_instances
    from ncmi.training.processes import join_processes
    from ncmi.training.run import load_task
    from ncmi.training.run_folder import RunFolder
    from ncmi.training.setup import Setup, algorithms
    from ncmi.training.sources.bags import PREFIX

    if arguments.top < 1:
        raise ValueError(f"--top must be at least 1; got {arguments.top}.")
    folder = RunFolder(arguments.run)
    config = folder.read_config()
    if not config.data.name.startswith(PREFIX):
        raise ValueError(
            f"{folder.path} is a run on images ({config.data.name}), and attention is over the patches of a slide. Name a run "
            f"whose data.name starts with {PREFIX!r}."
        )
    with join_processes(arguments.device) as processes, algorithms(config, processes):
        if not processes.main:  # one slide is work for one process
            return 0
        setup = Setup(config, processes)
        part, bags, place = _find(setup, arguments.slide)
        task = load_task(setup, folder, arguments.checkpoint)
        bag = bags.bag(place)
        features, logits = _look(setup, task, bag.instances)
        weights = attention_weights(logits.cpu(), arguments.head)
        rows = top_instances(weights, bag.coordinates)
        decision, decided = _decision(task, features, bags.class_names)
        true = bags.class_names[int(bags.targets[place])]
        heads = logits.shape[1]
        which = f"the mean of {heads} attention heads" if heads > 1 else "one attention head"
        which = which if arguments.head is None else f"attention head {arguments.head} of 0 … {heads - 1}"
        made_up = bag.coordinates is not None and has_made_up_coordinates(bags)
        print(f"{arguments.slide}: {len(rows)} patches, in the {part} part of {bags.name} (fold {config.data.fold})")
        print(f"decision ({task.criterion.decision}, checkpoint {arguments.checkpoint}): {decision}")
        print(f"true class: {true}, so the decision is {'right' if decided == true else 'wrong'}")
        print(f"\n{_table(rows[: arguments.top])}\n")
        print(f"weight: {which}; share: of all attention, what this patch and those above it have.")
        if made_up:
            print(_MADE_UP_NOTE)
        out = folder.path / "attention" if arguments.out is None else Path(arguments.out)
        stem = _file_name(arguments.slide, arguments.head)
        _write_csv(out / f"{stem}.csv", rows)
        print(f"table of all {len(rows)} patches: {out / f'{stem}.csv'}")
        if bag.coordinates is None:
            print("no map: the features of this slide were stored without coordinates.")
            return 0
        from ncmi.report.attention_map import draw_attention

        title = f"{arguments.slide}\ndecision {decided}, true class {true}, {part} part; {which}"
        draw_attention(bag.coordinates, weights, out / f"{stem}.png", title, _MADE_UP_NOTE if made_up else "")
        print(f"map: {out / f'{stem}.png'}")
    return 0


def _find(setup: "Setup", slide: str) -> "tuple[str, BagSet, int]":
    """The part that ``slide`` is in, its bags and its place there."""
    from ncmi.checks import choose
    from ncmi.training.setup import PARTS

    parts = {name: part for name in PARTS if (part := getattr(setup.source, name)) is not None}
    known = [name for part in parts.values() for name in part.slides]
    if slide not in known:
        # A set has hundreds of names: those that begin as the given one, or are most like it, are enough for a sentence.
        begun = [name for name in known if name.startswith(slide)]
        near = (begun or difflib.get_close_matches(slide, known, n=5, cutoff=0.0))[:5]
        choose(setup.source.train.name, f"SLIDE ({len(known)} in the run's split; here the nearest)", slide, near)
    name = next(name for name, part in parts.items() if slide in part.slides)
    return name, parts[name], parts[name].slides.index(slide)


def _look(setup: "Setup", task: "Task", instances: "Tensor") -> "tuple[Tensor, Tensor]":
    """The slide's vector (1, D), and its attention logits (N, H)."""
    import torch

    from ncmi.models.mil import Bags

    bags = setup.convert(Bags.pack([instances.to(setup.processes.device)]))
    with torch.no_grad(), setup.autocast():
        output = task.network(bags)
    return output.features, output.attention


def _decision(task: "Task", features: "Tensor", class_names: Sequence[str]) -> tuple[str, str]:
    """The run's own decision in words, and the class it is for."""
    import torch

    with torch.no_grad():
        scores = task.criterion.scores(features)[0].double().cpu()
    decided = class_names[int(scores.argmax())]
    if task.criterion.probabilities_need_temperature:
        # Divergences become probabilities by a temperature that is fitted on a whole set; here they are shown as they are.
        each = ", ".join(f"{name} {score:.4g}" for name, score in zip(class_names, scores.tolist(), strict=True))
        return f"{decided}; scores, the largest decides: {each}", decided
    probabilities = scores.softmax(dim=0)
    return f"{decided} with probability {float(probabilities.max()):.3f}", decided


def _file_name(slide: str, head: int | None) -> str:
    """The name of the files without ending; those of a head do not replace those of the mean."""
    stem = f"{slide.replace('/', '_')}-attention"
    return stem if head is None else f"{stem}-head{head}"


def _table(rows: "list[AttendedInstance]") -> str:
    """The patches as a Markdown table that reads well as plain text."""
    body = [
        [
            str(row.rank),
            str(row.index),
            "–" if row.x is None else str(row.x),
            "–" if row.y is None else str(row.y),
            f"{row.weight:.4g}",
            f"{100 * row.share:.1f} %",
        ]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (_COLUMNS, *body)) for column in range(len(_COLUMNS))]
    lines = [" | ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in body]
    header = " | ".join(cell.rjust(width) for cell, width in zip(_COLUMNS, widths, strict=True))
    rule = "|".join("-" * (width + 1) + ":" for width in widths)
    return "\n".join([f"| {header} |", f"|{rule}|", *(f"| {line} |" for line in lines)])


def _write_csv(path: Path, rows: "list[AttendedInstance]") -> None:
    from ncmi.tensor_files import write_atomically

    def write(file: Path) -> None:
        with file.open("w", newline="", encoding="utf-8") as opened:
            csv.writer(opened).writerows([_COLUMNS, *rows])

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, write)
