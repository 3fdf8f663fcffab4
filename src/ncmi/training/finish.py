"""The end of a run: the last epoch's evaluation, and the files that stay."""

import sys
from collections.abc import Callable
from typing import Any

import torch

from ncmi.report.curves import draw_curves
from ncmi.tensor_files import save_safetensors
from ncmi.training.run import Run


def finish(run: Run, title: str, say: Callable[[str], None]) -> dict[str, Any]:
    """The run's summary, written to its folder with curves and weights; the test set is read here, once."""
    say("evaluating the last epoch …")
    task, memory = run.evaluated(), _peak_memory(run.processes.device)  # of training, before evaluation adds its own
    evaluated = run.setup.evaluate(task)
    if evaluated is not None:
        evaluation = evaluated.evaluation
        save_safetensors(run.folder.weights, task.state_dict(), {"loss": run.config.loss.name})
        run.folder.save_outputs(evaluated.outputs)
        draw_curves(run.folder.rows(), run.folder.curves, title=title)
        run.folder.write_json(run.folder.summary, _summary(run, memory) | {"evaluation": evaluation.to_dict()})
        say(evaluation.table())
        seconds = run.state.seconds / run.config.epochs
        say(f"{seconds:.1f} s an epoch. Curves, weights and numbers are in {run.folder.path}.")
    run.processes.wait()
    return run.folder.read_json(run.folder.summary)


def _summary(run: Run, memory: int | None) -> dict[str, Any]:
    config, state = run.config, run.state
    return {
        "title": {"data": config.data.name, "model": config.model.name, "loss": config.loss.name, "seed": config.seed},
        "headline": run.task.criterion.headline,
        "scale": config.scale,
        "epochs": config.epochs,
        "steps": state.step,
        "train_samples": len(run.setup.source.train),
        "parameters": sum(parameter.numel() for parameter in run.task.parameters()),
        "seconds": state.seconds,
        "seconds_per_epoch": state.seconds / config.epochs,
        "images_per_second": state.step * run.images_per_step / state.seconds,
        "peak_memory_bytes": memory,
        "best_epoch": state.best_epoch,
        "last": run.folder.rows()[-1],
    }


def _peak_memory(device: torch.device) -> int | None:
    """Bytes: of the device's tensors, or of this process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
