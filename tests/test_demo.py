"""``examples/digits.py`` prints its table and draws its picture."""

import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import pytest

ROOT = Path(__file__).parents[1]
NUMBER = r"\d+\.\d+ ± \d+\.\d+"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-W", "error", ROOT / "examples" / "digits.py", "--epochs", "2", "--seeds", "2"]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "MPLCONFIGDIR": str(out)}
    finished = subprocess.run([*command, "--out", out], capture_output=True, encoding="utf-8", env=environment)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, out


def test_table_has_a_row_of_numbers_for_each_loss(demo: tuple[str, Path]):
    text, _ = demo
    lines = text.splitlines()
    header = next(line for line in lines if line.startswith("loss"))
    for column in ("CC, learned q", "CC, class means", "LP", "own head", "CMI", "Γ", "NCMI", "seconds"):
        assert column in header
    ce = next(line for line in lines if re.match(r"\s*CE\s", line))
    ncmi = next(line for line in lines if re.match(r"\s*NCMI\s", line))
    # Each loss lacks one decision: CE has no learned centroids, NCMI no linear head.
    for row in (ce, ncmi):
        assert len(re.findall(NUMBER, row)) == 7
        assert row.count("–") == 1
    accuracy = float(re.findall(r"\d+\.\d+", ncmi)[0])
    assert 80 < accuracy <= 100  # two epochs are enough to be far from chance


def test_picture_exists_and_is_not_blank(demo: tuple[str, Path]):
    text, out = demo
    assert str(out / "digits.png") in text
    assert (out / "digits.svg").stat().st_size > 10_000
    pixels = matplotlib.image.imread(out / "digits.png")
    assert pixels.shape[0] >= 500
    assert pixels.shape[1] >= 1000
    # Both colours are there, the same in each third of the width: a panel.
    for color in ((0xC8, 0x55, 0x3D), (0x1F, 0x5F, 0x8B)):
        close = (abs(pixels[..., :3] * 255 - color) < 3).all(axis=-1)
        for third in range(3):
            width = pixels.shape[1] // 3
            assert close[:, third * width : (third + 1) * width].sum() > 50
