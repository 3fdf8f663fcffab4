"""Real data for the networks: the CIFAR-10 test set and four published checkpoints."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PARTS = {"cifar10": "cifar-10-batches-bin", "resnets": "cifar10_resnets"}
UNPACK = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "unpack.py"
CACHE = Path.home() / ".cache" / "ncmi" / "data"


def unpack(cache):
    """Lay out what is missing in ``cache``, each part in a folder of its own that appears whole or not at all."""
    cache.mkdir(parents=True, exist_ok=True)
    for part, folder in PARTS.items():
        if (cache / folder).exists():
            continue
        with tempfile.TemporaryDirectory(dir=cache, prefix=".unpack-") as beside:
            subprocess.run([sys.executable, UNPACK, beside, part], check=True, capture_output=True)
            (Path(beside) / folder).chmod(0o755)  # copied from a read-only folder, which nobody but root may move
            try:
                (Path(beside) / folder).rename(cache / folder)
            except OSError:
                # Another worker was faster; its copy is the same.
                if not (cache / folder).exists():
                    raise


@pytest.fixture(scope="session")
def real_data():
    """A folder with the CIFAR-10 test set and the checkpoints; skips where there is none."""
    folder = os.environ.get("NCMI_DATA")
    if folder is None and UNPACK.exists():
        unpack(CACHE)
        folder = CACHE
    if folder is None:
        pytest.skip("set NCMI_DATA to a folder with cifar-10-batches-bin and cifar10_resnets to run this on real data")
    missing = [name for name in PARTS.values() if not (Path(folder) / name).is_dir()]
    if missing:
        pytest.skip(f"{folder} (NCMI_DATA) lacks {' and '.join(missing)}")
    return Path(folder)
