"""Images per second of the whole training loop, as a share of the bare forward, backward and step on data already in memory.

``python -m benchmarks.loop`` alternates between the two in one process, with the data and the network of a recipe.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import LOOP_RESULTS
from benchmarks.head import machine
from ncmi.recipes import read_recipe
from ncmi.training.config import make_config
from ncmi.training.loop import train_epoch
from ncmi.training.processes import StopSignal, join_processes
from ncmi.training.progress import Progress
from ncmi.training.run import Run
from ncmi.training.run_folder import RunFolder
from ncmi.training.setup import Setup, algorithms

GOAL = 0.95


def loop_seconds(run: Run, stop: StopSignal) -> float:
    """Seconds of one epoch of the real loop: loader, augmentation, schedule, guard, measures, progress."""
    progress = Progress(run.config.epochs * len(run.batches), run.state.step, enabled=True)
    started = time.perf_counter()
    train_epoch(run, progress, stop)
    seconds = time.perf_counter() - started
    progress.close()
    run.state.epoch += 1
    return seconds


def bare_seconds(run: Run, batches: list[Any]) -> float:
    """Seconds of as many steps of nothing but forward, backward and optimiser."""
    run.task.train()
    started = time.perf_counter()
    for batch in batches:
        loss, _ = run.module(batch.images, batch.targets)
        run.optimizer.zero_grad()
        loss.backward()
        run.optimizer.step()
    return time.perf_counter() - started


def measure(recipe: str, loss: str, rounds: int, steps: int) -> dict[str, Any]:
    """The row of one loss."""
    values = read_recipe(recipe)
    size = steps * values["batch_size"]
    config = make_config(values, [f"loss={loss}", f"epochs={rounds + 1}", f"data.train_size={size}"])
    with (
        tempfile.TemporaryDirectory() as folder,
        StopSignal() as stop,
        join_processes("cpu") as processes,
        algorithms(config, processes),
    ):
        run = Run(Setup(config, processes), RunFolder(folder))
        run.batches.set_epoch(0)
        batches = list(run.batches)
        bare, loop = [], []
        for turn in range(rounds + 1):
            bare.append(bare_seconds(run, batches))
            loop.append(loop_seconds(run, stop))
            if turn == 0:  # the first turn fills caches
                bare, loop = [], []
    ratios = [first / second for first, second in zip(bare, loop, strict=True)]
    return {
        "recipe": recipe,
        "loss": loss,
        "network": config.model.name,
        "steps": steps,
        "rounds": rounds,
        "bare_images_per_second": round(size / statistics.median(bare), 1),
        "loop_images_per_second": round(size / statistics.median(loop), 1),
        "ratio": round(statistics.median(ratios), 4),
    }


def main() -> None:
    """Measure, print, and append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="cifar100/small")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each")
    parser.add_argument("--steps", type=int, default=78, help="steps a turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=LOOP_RESULTS, help="file to append rows to")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows, about = [], machine()
    for loss in ("ce", "ncmi"):
        row = measure(options.recipe, loss, options.rounds, options.steps) | about
        print(
            f"{loss}: loop {row['loop_images_per_second']:.0f} images/s, bare {row['bare_images_per_second']:.0f} images/s, "
            f"ratio {row['ratio']:.3f} (goal {GOAL}: {'met' if row['ratio'] >= GOAL else 'MISSED'})",
            flush=True,
        )
        rows.append(row)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    main()
