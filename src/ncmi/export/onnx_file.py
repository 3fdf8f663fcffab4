"""``.onnx`` files: a classifier for any runtime, with its description inside."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ncmi.export.classifier import Classifier
from ncmi.export.description import KEY, Description
from ncmi.export.pt2_file import Outputs, export_program, free_size
from ncmi.tensor_files import write_atomically

_OUTPUTS = ["scores", "probabilities"]


def write_onnx(classifier: Classifier, description: Description, path: str | Path) -> None:
    """Write the file, whole or not at all. Input ``images`` or ``instances``, outputs ``scores`` and ``probabilities``."""
    _need("onnx", "onnxscript")
    program = export_program(classifier)
    with _quiet():
        exported: Any = torch.onnx.export(
            program,
            dynamo=True,
            dynamic_shapes=free_size(classifier),
            input_names=[classifier.input_name],
            output_names=_OUTPUTS,
            verbose=False,
        )
    exported.model.metadata_props[KEY] = description.to_text()
    content = exported.model_proto.SerializeToString()
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def open_onnx(path: str | Path) -> tuple[Callable[[Tensor], Outputs], Description]:
    """What :func:`write_onnx` wrote, run by onnxruntime on the CPU: a function of inputs, and what they mean."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when the runtime is imported
    _need("onnxruntime")
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(Path(path).read_bytes(), providers=["CPUExecutionProvider"])
    except OSError:
        raise
    except Exception as error:  # the runtime's own kinds, which share no base
        raise ValueError(
            f"{path} is damaged, or no ONNX file that onnxruntime can read. Export the run again."
        ) from error
    description = Description.from_text(session.get_modelmeta().custom_metadata_map.get(KEY, ""), str(path))
    name = session.get_inputs()[0].name

    def run(inputs: Tensor) -> Outputs:
        scores, probabilities = session.run(_OUTPUTS, {name: inputs.cpu().numpy()})
        return torch.from_numpy(scores), torch.from_numpy(probabilities)

    return run, description


def _need(*packages: str) -> None:
    for package in packages:
        try:
            __import__(package)
        except ImportError as error:
            raise ImportError(
                f"export: ONNX files need the package {package}, which is not installed: `pip install 'ncmi[export]'`."
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporter says of itself: of packages that nothing here needs, of its own deprecations."""
    logger = logging.getLogger("torch.onnx._internal.exporter")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        logger.setLevel(level)
