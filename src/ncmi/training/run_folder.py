"""``RunFolder``: what a run leaves behind, each file whole or not there.

``config.yaml``, ``environment.json``, ``log.jsonl`` (a line an epoch), ``summary.json``, ``outputs.pt``, ``curves.svg``,
``weights.safetensors``, and the checkpoints ``last.pt`` and ``best.pt``.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from ncmi.evaluation import Outputs
from ncmi.report.curves import read_rows
from ncmi.tensor_files import read_tensors, save_checkpoint, write_atomically
from ncmi.training.config import Config, make_config

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class RunFolder:
    """The files of a run.

    Args:
        path: the folder; :meth:`create` makes it.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.environment = self.path / "environment.json"
        self.log = self.path / "log.jsonl"
        self.summary = self.path / "summary.json"
        self.outputs = self.path / "outputs.pt"
        self.curves = self.path / "curves.svg"
        self.weights = self.path / "weights.safetensors"
        self.last = self.path / "checkpoints" / "last.pt"
        self.best = self.path / "checkpoints" / "best.pt"

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return self.config.is_file()

    @property
    def finished(self) -> bool:
        """Whether the run here came to its end."""
        return self.summary.is_file()

    def check_free(self) -> None:
        """A sentence if the folder holds something; what a run killed in its first moment leaves does not count."""
        if self.exists:
            state = "a finished run" if self.finished else "a run that can go on: add --resume"
            raise FileExistsError(
                f"{self.path} holds {state}. Name another folder with --run-folder, or remove this one."
            )
        if not self.path.exists():
            return
        own = (self.last.parent, self.environment)
        if (
            not self.path.is_dir()
            or any(entry not in own and not entry.name.startswith(".") for entry in self.path.iterdir())
            or (self.last.parent.is_dir() and any(self.last.parent.iterdir()))
        ):
            raise FileExistsError(f"{self.path} is not an empty folder. Name another one with --run-folder.")

    def create(self, config: Config, environment: dict[str, Any]) -> None:
        """Start a run here, in a folder that :meth:`check_free` let pass."""
        self.last.parent.mkdir(parents=True, exist_ok=True)
        self.write_json(self.environment, {"started": environment, "resumed": []})
        # The config comes last: it is what makes the folder a run.
        text = yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True)
        write_atomically(self.config, lambda file: _write_text(file, text))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The folder for this process alone; a sentence if another one trains in it."""
        if fcntl is None:
            yield
            return
        if self.path.is_file():
            raise FileExistsError(f"{self.path} is a file, not a folder. Name another place with --run-folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        place = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise FileExistsError(
                    f"{self.path} is in use: another process trains there. Wait for it, or name another folder."
                ) from error
            yield
        finally:
            os.close(place)
            with suppress(OSError):
                self.path.rmdir()  # if nothing came of it

    def discard(self) -> None:
        """Remove a run that saved nothing."""
        shutil.rmtree(self.path)

    def was_started_by(self, launch: str | None) -> bool:
        """Whether the run here was started, or last resumed, by the launch of that name."""
        record = self.read_json(self.environment)
        return [record["started"], *record["resumed"]][-1].get("launch") == launch

    def check_same(self, config: Config | None) -> None:
        """A sentence if ``config`` contradicts that of the run here."""
        own = self.read_config()
        differences = [] if config is None else _differences(own.to_dict(), config.to_dict())
        if differences:
            raise ValueError(
                f"{self.path} was started with other settings: {'; '.join(differences)}. Go on with the run's own by "
                f"`ncmi train {self.path} --resume`, or start another run with --run-folder."
            )

    def resume(self, environment: dict[str, Any]) -> None:
        """Note that the run here goes on, and where."""
        record = self.read_json(self.environment)
        record["resumed"].append(environment)
        self.write_json(self.environment, record)

    def read_config(self) -> Config:
        """The config of the run here."""
        if not self.exists:
            raise FileNotFoundError(f"{self.path} holds no run: there is no config.yaml in it. Check the path.")
        try:
            values = yaml.safe_load(self.config.read_text(encoding="utf-8"))
            assert isinstance(values, dict)
        except (yaml.YAMLError, UnicodeDecodeError, AssertionError) as error:
            raise ValueError(f"{self.config} is damaged: it cannot be read as YAML.") from error
        return make_config(values, owner=str(self.config))

    def save_checkpoint(self, content: dict[str, Any], best: bool) -> None:
        """Replace ``last``, and ``best`` too if this one is the best so far: that first, since ``last`` says which one is."""
        if best:
            save_checkpoint(self.best, content)
            write_atomically(self.last, lambda file: _link(self.best, file))
        else:
            save_checkpoint(self.last, content)

    def read_checkpoint(self, which: str = "last") -> dict[str, Any]:
        """The content of the checkpoint ``last`` or ``best``; a damaged one is refused."""
        path = self.last if which == "last" else self.best
        if not path.is_file():
            raise FileNotFoundError(
                f"{self.path} has no checkpoint {path.name}. The run was stopped before it wrote one."
            )
        return read_tensors(path, owner=f"checkpoint: {path}")

    def save_outputs(self, outputs: Outputs | None) -> None:
        """Keep what a report needs of the last epoch's decisions; nothing, if there is no part to decide on."""
        if outputs is not None:
            save_checkpoint(self.outputs, outputs.to_dict())

    def append(self, row: dict[str, Any]) -> None:
        """Add an epoch's line to the log."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def rows(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        return read_rows(self.log) if self.log.is_file() else []

    def keep_epochs(self, epochs: int) -> list[dict[str, Any]]:
        """The first ``epochs`` lines of the log; those after them, of work that is done again, are dropped."""
        rows = [row for row in self.rows() if row["epoch"] <= epochs]
        write_atomically(self.log, lambda file: _write_text(file, "".join(json.dumps(row) + "\n" for row in rows)))
        return rows

    def write_json(self, path: Path, content: Any) -> None:
        """Write a file of the folder, whole or not at all."""
        write_atomically(path, lambda file: _write_text(file, json.dumps(content, indent=1, allow_nan=False) + "\n"))

    def read_json(self, path: Path) -> Any:
        """The content of a file of the folder."""
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{path} is missing. Was the run stopped before its end? Add --resume.") from error
        except ValueError as error:
            raise ValueError(f"{path} is damaged: it cannot be read as JSON.") from error


def _write_text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def _link(source: Path, target: Path) -> None:
    """A second name for the same bytes where the file system can, else a copy; replacing one leaves the other alone."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _differences(own: dict[str, Any], other: dict[str, Any], path: str = "") -> list[str]:
    found = []
    for key in own:
        if isinstance(own[key], dict) and isinstance(other[key], dict) and key != "options":
            found += _differences(own[key], other[key], f"{path}{key}.")
        elif own[key] != other[key]:
            found.append(f"{path}{key} was {own[key]!r} and is now {other[key]!r}")
    return found
