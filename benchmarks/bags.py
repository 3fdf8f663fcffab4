"""Processor time and peak memory of one training step on one large bag, such as a whole slide of 100,000 patches.

``python -m benchmarks.bags`` gives each model a process of its own, whose peak is what the system counted: program, bag,
weights, optimiser and activations together.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import BAG_RESULTS
from benchmarks.head import machine
from ncmi.models.mil import create_bag_model


class Contender(NamedTuple):
    """A bag model, its options, and the gigabytes that its step must stay within."""

    model: str
    options: dict[str, Any]
    limit_gb: float


CONTENDERS = {
    "abmil": Contender("abmil", {}, 4.0),
    "transmil": Contender("transmil", {"checkpoint": True}, 8.0),
}


def measure(name: str, instances: int, width: int, steps: int, threads: int) -> dict[str, Any]:
    """The row of a model: processor seconds of the last of some training steps, and the peak memory of this process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    contender = CONTENDERS[name]
    model = create_bag_model(contender.model, width, **contender.options)
    head = nn.Linear(model.num_features, 2)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-4)
    # As it lies on disk; filled in parts, so that the peak is not that of making it.
    bag = torch.empty(instances, width, dtype=torch.float16)
    for part in bag.split(10_000):
        part.copy_(torch.randn(part.shape))
    seconds = []
    for _ in range(steps):
        started = time.process_time()
        output = model(bag)
        loss = F.cross_entropy(head(output.features)[None], torch.tensor([1])) + output.auxiliary
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.process_time() - started)
    # Kilobytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "model": contender.model,
        "options": contender.options,
        "instances": instances,
        "width": width,
        "features": model.num_features,
        "steps": steps,
        "seconds": round(seconds[-1], 2),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9, 2),
        "limit_gb": contender.limit_gb,
    } | machine()


def main() -> None:
    """Measure each model in a process, print, and append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=1024, help="of an instance")
    parser.add_argument("--steps", type=int, default=2, help="training steps; the last one is timed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--out", type=Path, default=BAG_RESULTS, help="file to append rows to")
    parser.add_argument("--print-row", choices=list(CONTENDERS), help="measure this one here, and print its row alone")
    options = parser.parse_args()
    sizes = {"instances": options.instances, "width": options.width, "steps": options.steps, "threads": options.threads}
    if options.print_row:
        print(json.dumps(measure(options.print_row, **sizes), ensure_ascii=False))
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    date = machine()["date"]
    for name in options.models:
        settings = [word for key, value in sizes.items() for word in (f"--{key}", str(value))]
        command = [sys.executable, "-m", "benchmarks.bags", "--print-row", name, *settings]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout) | {"date": date}
        met = "met" if row["peak_gb"] <= row["limit_gb"] else "MISSED"
        print(
            f"{name}: {row['seconds']:.1f} s, peak {row['peak_gb']:.2f} GB (goal {row['limit_gb']:.0f} GB: {met})",
            flush=True,
        )
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
