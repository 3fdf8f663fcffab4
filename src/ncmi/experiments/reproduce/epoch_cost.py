"""Seconds and memory of training steps, measured in a process of their own.

``python -m ncmi.experiments.reproduce.epoch_cost`` reads what to measure from its input as JSON and prints the numbers.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ncmi.experiments.workers import count_cores
from ncmi.training.config import Config, make_config
from ncmi.training.loop import step
from ncmi.training.processes import join_processes
from ncmi.training.run import Run
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup, algorithms


def cost_in_process(config: Config, memory: bool) -> dict[str, Any]:
    """What :func:`cost` says, in a fresh process that has all cores; a sentence if it fails.

    Args:
        config: the run.
        memory: whether to measure memory too.
    """
    given = json.dumps({"config": config.to_dict(), "memory": memory})
    finished = subprocess.run(
        [sys.executable, "-m", "ncmi.experiments.reproduce.epoch_cost"],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(count_cores())},
    )
    if finished.returncode:
        last = (finished.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ValueError(f"epoch_cost: the process of {config.model.name} with {config.loss.name} failed: {last}")
    return json.loads(finished.stdout.splitlines()[-1])


def cost(config: Config, memory: bool) -> dict[str, Any]:
    """Seconds of an image in a training step, loading included, and bytes of tensors at the peak of a step.

    The first step is not timed; memory is that of this step, in which gradients and the optimiser's state are made: weights
    and buffers before it, and all that is alive beyond them at its worst moment. On a GPU it is what torch counts.

    Args:
        config: the run; its first epoch is measured.
        memory: whether to measure memory too.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        join_processes() as processes,
        algorithms(config, processes),
    ):
        run = Run(Setup(config, processes), RunFolder(folder))
        if len(run.batches) < 2:
            raise ValueError(
                f"epoch_cost: an epoch must have two steps, because the first is not timed; it has {len(run.batches)}. Lower "
                "batch_size, or raise data.train_size."
            )
        run.task.train()
        run.batches.set_epoch(0, 0)
        batches = iter(run.batches)
        first = next(batches)
        on_gpu = processes.device.type == "cuda"
        with _Peak() if memory and not on_gpu else nullcontext() as peak:
            step(run, first)
        started = time.perf_counter()
        for batch in batches:
            step(run, batch)  # reads the loss, so that a GPU has finished
        seconds = time.perf_counter() - started
        found: dict[str, Any] = {
            "seconds_per_image": seconds / ((len(run.batches) - 1) * run.images_per_step),
            "timed_steps": len(run.batches) - 1,
            "batch_size": run.images_per_step,
            "device": str(processes.device.type),
            "threads": torch.get_num_threads(),
        }
        if memory:
            standing = sum(tensor.numel() * tensor.element_size() for tensor in run.task.state_dict().values())
            found["tensor_bytes"] = (
                torch.cuda.max_memory_allocated(processes.device) if peak is None else standing + peak.bytes
            )
    return found


class _Peak:
    """Bytes of tensors alive at the worst moment inside, beyond those before it, as torch's profiler counts them."""

    bytes = 0

    def __enter__(self) -> "_Peak":
        self._profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
        )
        self._profiler.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._profiler.__exit__(None, None, None)
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder, "trace.json")
            self._profiler.export_chrome_trace(str(trace))
            events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        alive = 0
        for event in sorted((event for event in events if event["name"] == "[memory]"), key=lambda event: event["ts"]):
            alive += event["args"]["Bytes"]
            self.bytes = max(self.bytes, alive)


def main() -> None:
    """Measure what the input says, and print the numbers as the last line."""
    given = json.load(sys.stdin)
    print(json.dumps(cost(make_config(given["config"]), given["memory"])))


if __name__ == "__main__":
    main()
