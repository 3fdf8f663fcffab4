"""Forward and backward of whole classification heads, time and peak memory, beside ``nn.Linear + F.cross_entropy``.

``python -m benchmarks.head`` measures every shape and appends rows to ``benchmarks/results/head.jsonl``; one core, a few
minutes. ``--quick`` and ``--shape`` measure a part of it and write only where ``--out`` says.

Time: the contenders take turns of a few steps in an order drawn anew for each round, so that whatever else the machine does,
and whatever one leaves in the caches for the next, hits all of them alike; the number is the median of each one's steps, the
ratio that median over cross-entropy's. A step drops the old gradients
(``set_to_none``), then runs forward and backward to the features and the head's parameters.

Memory: bytes of tensors alive at the peak of one first step, beyond features and parameters, as the torch profiler counts
them, in a fresh process for each contender. (The growth of the process's resident size was not taken: below a few MB it
shows the loading of libraries.)

Shapes: B samples, D feature width, C classes.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import platform
import random
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import ncmi
from benchmarks import RESULTS
from benchmarks.contenders import AUTHORS, CONTENDERS, REFERENCE, AuthorsFormula

MEMORY_LIMIT = 6 * 10**9  # bytes of (B, C, D) tensors above which the authors' formula is not run
SPARSE_FROM = 10_000  # classes; below it row-wise gradients bring nothing


class Shape(NamedTuple):
    """Batch size B, feature width D, number of classes C."""

    batch: int
    features: int
    classes: int

    def __str__(self) -> str:
        return f"({self.batch}, {self.features}, {self.classes})"


class Bar(NamedTuple):
    """``contender`` must need at most ``limit`` times what ``against`` needs at ``shape``."""

    shape: Shape
    contender: str
    against: str
    limit: float


SMALL, MEDIUM, LARGE_BATCH, MANY_CLASSES = (
    Shape(128, 512, 100),
    Shape(256, 2048, 1000),
    Shape(1024, 2048, 1000),
    Shape(256, 512, 100_000),
)
REPEATS = {SMALL: 400, MEDIUM: 60, LARGE_BATCH: 20, MANY_CLASSES: 8}
TURN = 4  # steps that a contender takes in a row

BARS = (
    *(Bar(SMALL, name, REFERENCE, 1.5) for name in ("theorem1", "centroid")),
    *(Bar(SMALL, name, AUTHORS, 1 / 50) for name in ("theorem1", "centroid", "released", "harmonic")),
    *(Bar(shape, name, REFERENCE, 1.0) for shape in (MEDIUM, LARGE_BATCH) for name in ("theorem1", "centroid")),
    Bar(MEDIUM, "harmonic", REFERENCE, 1.6),
    Bar(LARGE_BATCH, "harmonic", REFERENCE, 1.25),
    *(
        Bar(MANY_CLASSES, name, REFERENCE, 0.15)
        for name in ("theorem1", "centroid", "theorem1, sparse", "centroid, sparse")
    ),
)


def contenders_at(shape: Shape) -> list[str]:
    """Who takes part at a shape, whether or not it fits."""
    return [name for name in CONTENDERS if shape.classes >= SPARSE_FROM or not name.endswith("sparse")]


def fits(name: str, shape: Shape) -> bool:
    """Whether a contender's tensors stay below the memory limit; only the (B, C, D) ones can be too large."""
    needed = AuthorsFormula.tensors_at_peak * 4 * shape.batch * shape.features * shape.classes
    return name != AUTHORS or needed <= MEMORY_LIMIT


def make_step(name: str, shape: Shape) -> Callable[[], None]:
    """A function that runs one forward and backward of a contender on a batch of its own."""
    generator = torch.Generator().manual_seed(0)
    # Non-negative, like the pooled features of a network that ends in a ReLU.
    features = torch.randn(shape.batch, shape.features, generator=generator).relu_().requires_grad_()
    targets = torch.randint(shape.classes, (shape.batch,), generator=generator)
    torch.manual_seed(0)
    head = CONTENDERS[name](shape.classes, shape.features)
    leaves: list[Tensor] = [features, *head.parameters()]

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        head(features, targets).backward()

    return step


def time_heads(shape: Shape, repeats: int) -> dict[str, list[float]]:
    """Seconds of each step of each contender, taken in turns."""
    # The network before a head leaves the allocator with large pools. Without this, glibc hands a head's pages back to the
    # kernel at each step and the page faults drown the arithmetic; a freed block just below 32 MB makes it keep them.
    torch.empty(30 * 2**20, dtype=torch.uint8)
    steps = {name: make_step(name, shape) for name in contenders_at(shape) if fits(name, shape)}
    for step in steps.values():
        for _ in range(3 if repeats > 10 else 1):
            step()
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    order, drawing = list(steps), random.Random(0)
    for done in range(0, repeats, TURN):
        drawing.shuffle(order)
        for name in order:
            for _ in range(min(TURN, repeats - done)):
                started = time.perf_counter()
                steps[name]()
                seconds[name].append(time.perf_counter() - started)
    return seconds


def peak_bytes(name: str, shape: Shape) -> int:
    """Bytes of tensors alive at the peak of a first step, beyond what stood before it."""
    torch.set_num_threads(1)
    step = make_step(name, shape)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(trace))
        events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["name"] == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda event: event["ts"]):
        alive += event["args"]["Bytes"]
        peak = max(peak, alive)
    return peak


def peak_in_fresh_process(name: str, shape: Shape) -> int:
    """:func:`peak_bytes` where nothing else has run."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.contenders"])  # importing torch takes longer than the measurement
    with context.Pool(1) as pool:
        return pool.apply(peak_bytes, (name, shape))


def machine() -> dict[str, Any]:
    """What a row needs to be understood later: versions, processor, commit, date."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "date": now.isoformat(timespec="seconds"),
        "commit": _commit(),
        "ncmi": ncmi.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str:
    try:
        commit, status = (
            subprocess.run(
                ["git", *arguments], cwd=RESULTS.parents[1], capture_output=True, text=True, check=True
            ).stdout
            for arguments in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.strip() + ("-dirty" if status.strip() else "")


def measure(shape: Shape, repeats: int, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of one shape. A contender that does not fit gets a row without numbers."""
    seconds = time_heads(shape, repeats)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    rows = []
    for name in contenders_at(shape):
        row: dict[str, Any] = {**shape._asdict(), "contender": name, "repeats": repeats}
        row |= {"median_ms": None, "ratio": None, "peak_mb": None}
        if name in medians:
            row["median_ms"] = round(1000 * medians[name], 4)
            row["ratio"] = round(medians[name] / medians[REFERENCE], 4)
            row["peak_mb"] = round(peak_in_fresh_process(name, shape) / 1e6, 3)
        rows.append(row | about)
    return rows


def report(shape: Shape, rows: list[dict[str, Any]]) -> str:
    """The rows of one shape as lines to read, then whether its bars are met."""
    lines = [f"\n(B, D, C) = {shape}, median of {rows[0]['repeats']} steps"]
    for row in rows:
        if row["median_ms"] is None:
            lines.append(f"  {row['contender']:<18}  does not fit in {MEMORY_LIMIT / 1e9:g} GB")
        else:
            numbers = f"{row['median_ms']:>10.3f} ms  {row['ratio']:>8.3f} × CE  {row['peak_mb']:>10.2f} MB"
            lines.append(f"  {row['contender']:<18}{numbers}")
    time_of = {row["contender"]: row["median_ms"] for row in rows}
    for bar in (bar for bar in BARS if bar.shape == shape):
        ratio = time_of[bar.contender] / time_of[bar.against]
        verdict = "met   " if ratio <= bar.limit else "MISSED"
        lines.append(f"  {verdict}  {bar.contender}: {ratio:.4g} × {bar.against} (bar {bar.limit:g} ×)")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest shape, five steps")
    parser.add_argument("--shape", help="one shape only, as B,D,C")
    parser.add_argument("--repeats", type=int, help="steps of each contender")
    parser.add_argument("--out", type=Path, help=f"file to append rows to; a full run writes {RESULTS.name} by default")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # The centroids do stand still here, and a random batch may leave a ratio's domain: neither matters for the time.
    warnings.filterwarnings("ignore", message="NCMILoss", category=UserWarning)
    # The profiler's own messages, in the processes that measure memory.
    os.environ["KINETO_LOG_LEVEL"] = "99"

    shapes = [SMALL] if options.quick else list(REPEATS)
    if options.shape:
        shapes = [Shape(*(int(size) for size in options.shape.split(",")))]
    partial = options.quick or options.shape or options.repeats
    out = options.out or (None if partial else RESULTS)
    about = machine()
    print(f"{about['cpu']}, {about['threads']} thread, torch {about['torch']}, commit {about['commit']}")
    rows = []
    for shape in shapes:
        repeats = options.repeats or (5 if options.quick else REPEATS.get(shape, 20))
        of_shape = measure(shape, repeats, about)
        print(report(shape, of_shape), flush=True)
        rows += of_shape
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        print(f"\n{len(rows)} rows appended to {out}")


if __name__ == "__main__":
    main()
