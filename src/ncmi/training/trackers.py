"""``make_trackers``: the values of a run to TensorBoard and Weights & Biases, beside the run's own JSON lines."""

import importlib.util
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ncmi.checks import choose
from ncmi.tensor_files import write_atomically


class Tracker(Protocol):
    """One place to which values go."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Keep the values of a step."""

    def close(self) -> None:
        """Write what is left."""


class Trackers:
    """Several trackers as one; none at all is fine too.

    Args:
        trackers: each gets every value.
    """

    def __init__(self, trackers: Iterable[Tracker] = ()):
        self._trackers = list(trackers)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Keep the values of ``step`` under their names."""
        for tracker in self._trackers:
            tracker.log(step, values)

    def close(self) -> None:
        """Write what is left; nothing may be logged afterwards."""
        while self._trackers:
            self._trackers.pop().close()


def make_trackers(
    names: Iterable[str], run_folder: str | Path, config: Mapping[str, Any], start_step: int = 0
) -> Trackers:
    """Trackers of a run, started.

    Args:
        names: of ``"tensorboard"`` and ``"wandb"``.
        run_folder: where TensorBoard's files and Weights & Biases' own go.
        config: of the run, as JSON can hold it; shown beside the curves.
        start_step: steps done when the run goes on. What a killed run logged after it is done again, and replaced.

    >>> make_trackers([], "runs/first", {}).log(1, {"loss": 4.6})
    >>> make_trackers(["tensorbord"], "runs/first", {})
    Traceback (most recent call last):
    ValueError: make_trackers: a tracker must be one of 'tensorboard', 'wandb'; got 'tensorbord'. Did you mean 'tensorboard'?
    """
    chosen = [choose("make_trackers", "a tracker", name, _TRACKERS) for name in dict.fromkeys(names)]
    trackers: list[Tracker] = []
    try:
        for name in chosen:
            trackers.append(_TRACKERS[name](Path(run_folder), config, start_step))
    except BaseException:
        Trackers(trackers).close()
        raise
    return Trackers(trackers)


def check_trackers(names: Iterable[str]) -> None:
    """A sentence if a tracker is not known or its package is missing, before anything is written."""
    for name in names:
        package = {"tensorboard": "tensorboard", "wandb": "wandb"}[
            choose("make_trackers", "a tracker", name, _TRACKERS)
        ]
        if importlib.util.find_spec(package) is None:
            raise _missing(package, ImportError("it is not installed"))


class _TensorBoard:
    def __init__(self, run_folder: Path, config: Mapping[str, Any], start_step: int):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _missing("tensorboard", error) from error
        # What was logged at start_step itself belongs to the checkpoint, and stays.
        self._writer = SummaryWriter(str(run_folder / "tensorboard"), purge_step=start_step + 1 if start_step else 0)
        text = json.dumps(config, indent=2, ensure_ascii=False, default=str)
        indented = "\n".join(f"    {line}" for line in text.splitlines())  # a block of code in Markdown
        self._writer.add_text("config", indented, global_step=start_step)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, global_step=step)
        self._writer.flush()  # a killed run keeps what its checkpoints hold

    def close(self) -> None:
        self._writer.close()


class _WeightsAndBiases:
    def __init__(self, run_folder: Path, config: Mapping[str, Any], start_step: int):
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise _missing("wandb", error) from error
        run_folder.mkdir(parents=True, exist_ok=True)
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT") or "ncmi",
                name=run_folder.resolve().name,
                id=_run_id(run_folder / "wandb_id"),
                resume="allow",
                dir=run_folder,
                config=dict(config),
                reinit="create_new",  # a run that the caller has open stays the caller's
            )
        except wandb.Error as error:
            raise OSError(
                f"make_trackers: Weights & Biases could not start ({error}). Run `wandb login`, or set WANDB_MODE=offline."
            ) from error
        # An axis of our own: its built-in step never goes back, but a run resumed from a checkpoint does.
        self._run.define_metric("step", hidden=True)
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({**values, "step": step})

    def close(self) -> None:
        self._run.finish()


def _run_id(path: Path) -> str:
    """The name under which Weights & Biases knows the run, the same whenever it goes on."""
    if not path.exists():
        write_atomically(path, lambda temporary: temporary.write_text(uuid.uuid4().hex))
    return path.read_text().strip()


def _missing(package: str, error: ImportError) -> ImportError:
    return ImportError(
        f"make_trackers: {package!r} cannot be imported ({error}). Install it with `pip install {package}`, or leave it out."
    )


_TRACKERS = {"tensorboard": _TensorBoard, "wandb": _WeightsAndBiases}
