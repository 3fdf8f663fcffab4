"""``train``: a run from its first step to its last, to be read from top to bottom."""

import gc
import math
import os
import time
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import torch
from torch import nn

from ncmi.data import Batch
from ncmi.data.keyed import combined_seed
from ncmi.training.config import Config
from ncmi.training.environment import describe_environment
from ncmi.training.finish import finish
from ncmi.training.monitor import check_finite, measure_batch
from ncmi.training.processes import Processes, StopSignal, join_processes, was_restarted
from ncmi.training.progress import Progress
from ncmi.training.run import Run
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup, algorithms
from ncmi.training.trackers import Trackers, check_trackers, make_trackers

_MEASURE_EVERY = 20  # steps between two looks at accuracy and NCMI of a training batch, or ten looks in a short epoch
_AGREE_EVERY = 16  # steps between two questions to the other processes whether to stop or save
_MONITORED = ("shared_classes", "decided_classes", "output_entropy")
_INFORMATION = (("CMI", "validation_cmi"), ("Γ", "validation_gamma"), ("NCMI", "validation_ncmi"))


class Stopped(Exception):
    """A signal arrived; the run was saved and can go on."""

    def __init__(self, number: int, sentence: str):
        super().__init__(sentence)
        self.number = number


def train(
    config: Config | None, folder: RunFolder, *, resume: bool = False, device: str | None = None, quiet: bool = False
) -> dict[str, Any]:
    """The summary of a run that was trained to its end, as it stands in its folder.

    Args:
        config: the run; with ``resume`` it may be ``None``, which takes the folder's own.
        folder: where it leaves its files.
        resume: go on from the folder's last checkpoint if there is one. A process that torchrun started again does so too.
        device: as torch names it; by default a CUDA device if there is one, else the CPU.
        quiet: no progress bar and no lines.
    """
    with join_processes(device) as processes, StopSignal() as stop, _alone(folder, processes):
        (resume,) = processes.agree(resume or _was_restarted(folder))
        started, config = _find(config, folder, resume, processes)
        if folder.finished:
            return folder.read_json(folder.summary)
        try:
            with algorithms(config, processes):
                return _train(Run(Setup(config, processes), folder, started), started, stop, quiet)
        except Exception:
            # A mistake or a divergence before the first checkpoint leaves nothing to go on with.
            if processes.main and not started and folder.exists and not folder.last.is_file():
                folder.discard()
            raise
        finally:
            if processes.size > 1:
                # DistributedDataParallel is part of a reference cycle and holds the process group, and threads of a group that
                # outlives the interpreter can abort a process whose work is done (pytorch/pytorch#179291).
                gc.collect()


def _train(run: Run, started: bool, stop: StopSignal, quiet: bool) -> dict[str, Any]:
    config, processes = run.config, run.processes
    names = config.trackers if processes.main else []
    check_trackers(names)
    _enter(run, started)
    progress = Progress(config.epochs * len(run.batches), run.state.step, enabled=processes.main and not quiet)
    with (
        closing(progress),
        closing(make_trackers(names, run.folder.path, config.to_dict(), run.state.step)) as trackers,
    ):
        progress.line(title(config))
        while run.state.epoch < config.epochs:
            train_epoch(run, progress, stop)
            row = end_epoch(run, trackers)
            progress.line(_epoch_line(row, config.epochs))
        _leave_if_asked(run, stop)
        return finish(run, title(config), progress.line)


def train_epoch(run: Run, progress: Progress, stop: StopSignal) -> None:
    """The steps that are left of the current epoch."""
    state, first = run.state, run.state.step - run.state.epoch * len(run.batches)
    run.batches.set_epoch(state.epoch, first)
    run.task.train()
    before, started = state.epoch_seconds, time.perf_counter()
    shown: dict[str, float] = {"epoch": state.epoch + 1}
    every = min(_MEASURE_EVERY, -(-len(run.batches) // 10))
    for batch in run.batches:
        factor = run.schedule(state.step)
        for group in run.optimizer.param_groups:
            group["lr"] = factor * group["base_lr"]
        # What a network draws at random, as dropout does, is a function of the step.
        torch.manual_seed(combined_seed(run.config.seed, state.step, run.processes.rank))
        done = state.step - state.epoch * len(run.batches)
        shown |= step(run, batch, look=done % every == 0)
        if done % every == 0:
            state.accuracy, state.measured = state.accuracy + shown["accuracy"], state.measured + 1
        state.step += 1
        state.loss += shown["loss"]
        state.epoch_seconds = before + time.perf_counter() - started
        shown["images_per_second"] = (done + 1) * run.images_per_step / state.epoch_seconds
        progress.update(state.step, shown)
        _save_or_stop(run, stop)


def step(run: Run, batch: Batch, look: bool = False) -> dict[str, float]:
    """One step of the optimiser: the loss before it and, for a closer look, accuracy, CMI, Γ and NCMI of the batch."""
    with run.setup.autocast():
        loss, features = run.module(run.setup.convert(batch.images), batch.targets)
    run.optimizer.zero_grad()
    run.scaler.scale(loss).backward()
    values = {"loss": float(loss.detach())}
    check_finite(values["loss"], run.state.epoch + 1, run.state.step)
    if look:
        values |= measure_batch(run.task.criterion, features, batch.targets)
    if run.config.optimizer.clip_norm is not None:
        run.scaler.unscale_(run.optimizer)
        groups = [group for group in run.optimizer.param_groups if group["name"] != "centroids"]
        nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], run.config.optimizer.clip_norm)
    run.scaler.step(run.optimizer)
    run.scaler.update()
    if run.average is not None:
        run.average.update(run.task)
    return values


def end_epoch(run: Run, trackers: Trackers) -> dict[str, Any]:
    """The epoch's row: validated, logged, saved, in this order, so that a line without its checkpoint is written again."""
    state, steps = run.state, len(run.batches)
    row: dict[str, Any] = {
        "epoch": state.epoch + 1,
        "step": state.step,
        "lr": run.optimizer.param_groups[0]["lr"],
        "train_loss": state.loss / steps,
        "train_accuracy": state.accuracy / state.measured,
        "seconds": state.epoch_seconds,
        "images_per_second": steps * run.images_per_step / state.epoch_seconds,
    }
    score = float(state.epoch)  # without validation, the last epoch is the best
    if run.setup.source.validation is not None:
        result = run.setup.validate(run.evaluated(), run.setup.source.validation)._asdict()
        row |= {name if name in _MONITORED else f"validation_{name}": value for name, value in result.items()}
        score = row["validation_top1"]
    row = {key: value if math.isfinite(value) else None for key, value in row.items()}
    row["warning"] = run.monitor.look(row)
    best = score > state.best
    if best:
        state.best, state.best_epoch = score, state.epoch + 1
    state.epoch, state.seconds = state.epoch + 1, state.seconds + state.epoch_seconds
    state.loss, state.accuracy, state.measured, state.epoch_seconds = 0.0, 0.0, 0, 0.0
    if run.processes.main:
        run.folder.append(row)
        trackers.log(state.step, {key: value for key, value in row.items() if isinstance(value, int | float)})
    run.save(best)
    return row


def _find(config: Config | None, folder: RunFolder, resume: bool, processes: Processes) -> tuple[bool, Config]:
    """Whether the run was started in its folder before, and its config; nothing is written yet."""
    started = resume and folder.exists
    if processes.main:
        if started:
            folder.check_same(config)
        elif config is None:
            raise FileNotFoundError(f"{folder.path} holds no run to go on with. Name a recipe to start one.")
        else:
            folder.check_free()
    (started,) = processes.agree(started and processes.main)
    if not started:
        assert config is not None
        return False, config
    return True, folder.read_config()


def _enter(run: Run, started: bool) -> None:
    """Make the folder, or find it as it was left: once data and network are there, so that a mistake leaves no run."""
    if run.processes.main:
        environment = describe_environment(run.processes.device)
        if started:
            run.folder.resume(environment)
        else:
            run.folder.create(run.config, environment)
        for row in run.folder.keep_epochs(run.state.epoch):
            run.monitor.look(row)
    run.processes.wait()


def _save_or_stop(run: Run, stop: StopSignal) -> None:
    """Save in the middle of an epoch: now and then, and when a signal asks to leave."""
    if run.processes.size > 1 and run.state.step % _AGREE_EVERY:
        return
    overdue = time.monotonic() - run.saved_at > 60 * run.config.checkpoint_minutes
    leave, overdue = run.processes.agree(stop.received is not None, overdue)
    if leave or overdue:
        run.save()
    if leave:
        raise Stopped(stop.received or 15, _farewell(run))


def _leave_if_asked(run: Run, stop: StopSignal) -> None:
    """Leave between two parts of the work, where everything is saved already."""
    if run.processes.agree(stop.received is not None)[0]:
        raise Stopped(stop.received or 15, _farewell(run))


def _farewell(run: Run) -> str:
    state, steps = run.state, len(run.batches)
    done = state.step - state.epoch * steps
    place = f"in epoch {state.epoch + 1} after step {done} of {steps}" if done else f"after epoch {state.epoch}"
    return f"stopped {place}, and saved. Go on with `ncmi train {run.folder.path} --resume`."


def _alone(folder: RunFolder, processes: Processes) -> AbstractContextManager:
    return folder.locked() if processes.main else nullcontext()


def _was_restarted(folder: RunFolder) -> bool:
    """Whether torchrun has started this process again after a failure of a run that it had begun, and not refused."""
    return was_restarted() and folder.exists and folder.was_started_by(os.environ.get("TORCHELASTIC_RUN_ID"))


def title(config: Config) -> str:
    """What a run is called in lines and pictures."""
    epochs = "1 epoch" if config.epochs == 1 else f"{config.epochs} epochs"
    return f"{config.data.name} · {config.model.name} · {config.loss.name} · {epochs} · seed {config.seed}"


def _epoch_line(row: dict[str, Any], epochs: int) -> str:
    parts = [f"epoch {row['epoch']:>{len(str(epochs))}}/{epochs}", f"loss {row['train_loss']:.4f}"]
    parts.append(f"train {100 * row['train_accuracy']:.1f} %")
    if row.get("validation_top1") is not None:
        parts.append(f"validation {100 * row['validation_top1']:.2f} %")
    parts += [f"{label} {row[key]:.3g}" for label, key in _INFORMATION if row.get(key) is not None]
    line = " · ".join([*parts, f"{row['seconds']:.1f} s", f"{row['images_per_second']:.0f} samples/s"])
    return line if row["warning"] is None else f"{line}\n{row['warning']}"
