"""``.pt2`` files: a classifier as ``torch.export`` writes it, with its description inside."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ncmi.export.classifier import Classifier
from ncmi.export.description import KEY, Description
from ncmi.tensor_files import write_atomically

Outputs = tuple[Tensor, Tensor]

_EXAMPLE = 3  # samples of the example; 0 and 1 would be taken for constants


def export_program(classifier: Classifier) -> torch.export.ExportedProgram:
    """The classifier as a graph that takes any number of images, or a bag of any size."""
    try:
        with torch.no_grad():
            return torch.export.export(
                classifier, (classifier.example(_EXAMPLE),), dynamic_shapes=free_size(classifier)
            )
    except Exception as error:  # what a network does in its forward decides how it fails
        raise ValueError(
            f"export: {type(classifier.network).__name__} cannot be written as one graph for inputs of any size, because what "
            "it does depends on the size or on values. `ncmi predict` takes the run folder as it is."
        ) from error


def free_size(classifier: Classifier) -> tuple[dict[int, torch.export.Dim]]:
    """The dimensions that are free: the first one."""
    return ({0: torch.export.Dim(classifier.size_name, min=1)},)


def write_pt2(classifier: Classifier, description: Description, path: str | Path) -> None:
    """Write the file, whole or not at all."""
    file = io.BytesIO()
    torch.export.save(export_program(classifier), file, extra_files={KEY: description.to_text()})
    write_atomically(path, lambda temporary: temporary.write_bytes(file.getvalue()))


def open_pt2(path: str | Path) -> tuple[Callable[[Tensor], Outputs], Description]:
    """What :func:`write_pt2` wrote: a function of inputs, and what they mean.

    Read files that you trust alone: torch may unpickle what is in them.
    """
    content = Path(path).read_bytes()
    _check_archive(path, content)
    texts = {KEY: ""}
    try:
        module = torch.export.load(io.BytesIO(content), extra_files=texts).module()
    except Exception as error:  # of torch's reader, in a dozen ways
        raise ValueError(_unfit(path)) from error
    return module, Description.from_text(texts[KEY], str(path))


def _check_archive(path: str | Path, content: bytes) -> None:
    """A zip archive whose parts have their checksums; torch would log pages about one that is not, and not look at sums."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            bad = archive.testzip()
    except zipfile.BadZipFile as error:
        raise ValueError(_unfit(path)) from error
    if bad is not None:
        raise ValueError(_unfit(path))


def _unfit(path: str | Path) -> str:
    return f"{path} is damaged, or no file of torch.export. Export the run again."
