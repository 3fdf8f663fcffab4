"""Real bags for tests: in ``$NCMI_DATA``, in the cache, or unpacked for this session from the folder beside the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDERS = {"tcga": "tcga_lung", "mil": "mil"}
UNPACK = Path(__file__).resolve().parents[4] / "shared" / "data" / "unpack.py"


@pytest.fixture(scope="session")
def real_bags(tmp_path_factory):
    """From ``"tcga"`` or ``"mil"`` to the data folder that holds it; skips the test where there is none."""
    given = os.environ.get("NCMI_DATA")
    places = [*([Path(given)] if given else []), Path("~/.cache/ncmi/data").expanduser()]

    def find(name):
        for place in places:
            if (place / FOLDERS[name]).is_dir():
                return place
        if not UNPACK.is_file():
            pytest.skip(f"the real {name} is not here: set NCMI_DATA to a folder that holds {FOLDERS[name]}")
        target = tmp_path_factory.mktemp("real_bags")
        subprocess.run([sys.executable, UNPACK, target, name], check=True, capture_output=True)
        places.append(target)
        return target

    return find
