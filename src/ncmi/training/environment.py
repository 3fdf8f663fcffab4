"""``describe_environment``: what a number depends on besides its recipe. No names of people, machines or folders."""

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchmetrics

from ncmi.distributed import world_size

_PACKAGE = Path(__file__).parents[1]
_PATIENCE = 10.0  # seconds for git, which may wait for a slow network disk


def describe_environment(device: torch.device | str) -> dict[str, Any]:
    """Versions, commit, machine and start time of a run, as JSON can hold them; what cannot be found out is ``None``.

    ``commit`` is that of the checkout the package is imported from, and ``uncommitted_changes`` whether files of the
    package differ from it; both are ``None`` for an installed package.

    Args:
        device: on which the run computes.

    >>> environment = describe_environment("cpu")
    >>> environment["device"], environment["world_size"]
    ('cpu', 1)
    """
    device = torch.device(device)
    processor = _processor()
    commit = _git("rev-parse", "HEAD") if _is_checkout() else None
    changes = _git("status", "--porcelain", "--", ".") if commit else None
    return {
        # Not imported by name: the package's own __init__ stands above this module.
        "ncmi": sys.modules["ncmi"].__version__,
        "commit": commit,
        "uncommitted_changes": None if changes is None else changes != "",
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "torchmetrics": torchmetrics.__version__,
        "cuda": torch.version.cuda,
        "platform": platform.platform(),
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else processor,
        "launch": os.environ.get("TORCHELASTIC_RUN_ID"),
        "world_size": world_size(),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _is_checkout() -> bool:
    """Whether git follows the package's files; a package installed inside someone's repository is not a checkout."""
    return _git("ls-files", "--error-unmatch", "__init__.py") is not None


def _git(*arguments: str) -> str | None:
    """What git says in the package's folder, or ``None`` if it is missing, refuses or takes too long."""
    # A hook's variables would point git at another repository; and a look must not take the index's lock.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        run = subprocess.run(
            ["git", *arguments],
            cwd=_PACKAGE,
            env={**variables, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=True,
        )
        return run.stdout.decode().strip()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None


def _processor() -> str | None:
    """The processor's name, as ``"AMD EPYC 7B13"``."""
    try:
        if sys.platform == "darwin":
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True).stdout.strip()
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "model name" and value.strip():
                    return value.strip()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        pass
    return platform.processor() or platform.machine() or None  # ARM's cpuinfo has no such line
