"""Export a run as one file: raw pixels or slide features in, class scores and probabilities out.

A .pt2 file is read by torch.export.load, an .onnx file by any ONNX runtime, and both by `ncmi predict`.
"""

from pathlib import Path
from typing import Any

_FORMATS = ("pt2", "onnx")
_SIZES = (1, 5)  # other than the example's, so that the free size is tried too


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("run", type=str, help="the run folder")
    parser.add_argument(
        "-o", "--out", type=str, help="the file to write (by default model.pt2 or .onnx in the run folder)"
    )
    parser.add_argument("--format", type=str, choices=_FORMATS, help="by default what FILE ends in, else pt2")
    parser.add_argument("--checkpoint", type=str, default="last", choices=["last", "best"], help="which weights")
    parser.add_argument("--set", action="append", nargs="+", default=[], metavar="KEY=VALUE", help="as data.folder=…")


def run(arguments: Any) -> int:
    """Write the file, open it again, and compare its outputs with the run's own."""
    path = _path(arguments)
    from ncmi.export import classifier_of, write_onnx, write_pt2
    from ncmi.training.config import make_config
    from ncmi.training.processes import join_processes
    from ncmi.training.run import load_task
    from ncmi.training.run_folder import RunFolder
    from ncmi.training.setup import Setup

    folder = RunFolder(arguments.run)
    overrides = [override for group in arguments.set for override in group]
    config = make_config(folder.read_config().to_dict(), overrides, owner=arguments.run)
    with join_processes("cpu") as processes:
        setup = Setup(config, processes)
        classifier, description = classifier_of(setup, load_task(setup, folder, arguments.checkpoint))
    (write_pt2 if path.suffix == ".pt2" else write_onnx)(classifier, description, path)
    difference = _difference(classifier, path)
    shape = ", ".join(map(str, description.shape))
    takes = f"images uint8 (B, {shape})" if description.takes == "images" else f"one bag float32 (N, {shape})"
    print(f"{path}: {takes} → scores and probabilities of {len(description.classes)} classes")
    print(
        f"decision {description.decision}; temperature {description.temperature:.4g} ({description.temperature_source})"
    )
    print(f"read again, its outputs differ from the run's own by at most {difference:.1g}")
    return 0


def _path(arguments: Any) -> Path:
    ending = None if arguments.out is None else Path(arguments.out).suffix.removeprefix(".")
    if ending is not None and ending not in _FORMATS:
        raise ValueError(f"-o must name a file that ends in .pt2 or .onnx; got {arguments.out!r}.")
    chosen = arguments.format or ending or "pt2"
    if ending not in (None, chosen):
        raise ValueError(
            f"--format {chosen} and the ending of {arguments.out!r} contradict each other; leave one of them out."
        )
    return Path(arguments.run) / f"model.{chosen}" if arguments.out is None else Path(arguments.out)


def _difference(classifier: Any, path: Path) -> float:
    """The largest difference between what the file and the module give; a sentence if it is more than rounding."""
    import torch

    from ncmi.prediction import open_model

    model, largest = open_model(path), 0.0
    for size in _SIZES:
        inputs = classifier.example(size)
        with torch.no_grad():
            wanted = classifier(inputs)
        for own, other in zip(wanted, model(inputs), strict=True):
            difference = float((own - other).abs().max())
            largest = max(largest, difference)
            if not difference <= 1e-4 * max(1.0, float(own.abs().max())):
                raise RuntimeError(
                    f"{path} gives other outputs than the run (by {difference:.2g}): the exporter has changed the network. Do "
                    "not use the file; `ncmi predict` takes the run folder as it is."
                )
    return largest
