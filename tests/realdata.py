"""Real data for tests: in ``$NCMI_DATA``, or unpacked once into the cache from the folder beside the checkout."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

FOLDERS = {"cifar100": "cifar-100-binary", "cifar10": "cifar-10-batches-bin", "resnets": "cifar10_resnets"}
CACHE = Path("~/.cache/ncmi/data").expanduser()
UNPACK = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "unpack.py"


def real_data(name):
    """The folder that holds the official files of ``name``; skips the test where there is none."""
    places = [Path(os.environ["NCMI_DATA"])] if "NCMI_DATA" in os.environ else []
    for place in (*places, CACHE):
        if (place / FOLDERS[name]).is_dir():
            return place
    if not UNPACK.is_file():
        pytest.skip(f"the real {name} is not here: set NCMI_DATA to a folder that holds {FOLDERS[name]}")
    CACHE.mkdir(parents=True, exist_ok=True)
    # Two test processes may be here at the same time: each unpacks beside the cache, the first to finish moves in.
    target = Path(tempfile.mkdtemp(dir=CACHE, prefix=".unpacking-"))
    try:
        subprocess.run([sys.executable, UNPACK, target, name], check=True, capture_output=True)
        (target / FOLDERS[name]).chmod(0o755)  # copied from a read-only folder, which nobody but root may move
        (target / FOLDERS[name]).rename(CACHE / FOLDERS[name])
    except OSError:
        if not (CACHE / FOLDERS[name]).is_dir():
            raise
    finally:
        shutil.rmtree(target)
    return CACHE
