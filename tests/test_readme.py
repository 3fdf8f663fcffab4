"""The README's code runs, here and from a wheel in an empty environment; its table and the citation are in step."""

import re
import runpy
import subprocess
import sys
import venv
from pathlib import Path

import ncmi

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)
LOOP, DECISIONS = BLOCKS

# What the README takes as given: two samples of each of its 100 classes, and a network of its feature width.
GIVEN = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.ReLU())
data = torch.utils.data.TensorDataset(torch.randn(200, 1, 8, 8), torch.arange(200) % 100)
loader = torch.utils.data.DataLoader(data, batch_size=50, shuffle=True)
test_loader = torch.utils.data.DataLoader(data, batch_size=100)
"""


def run(*command: object, cwd: Path = ROOT) -> str:
    finished = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert finished.returncode == 0, f"{command}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def test_the_loop_is_six_lines_after_the_imports():
    lines = [line for line in LOOP.splitlines() if line and not line.startswith("import ")]
    assert len(lines) == 6


def test_the_loop_trains_and_the_decisions_run():
    names: dict = {}
    exec(GIVEN, names)
    before = names["model"][1].weight.detach().clone()
    exec(LOOP, names)
    assert not names["model"][1].weight.equal(before)
    assert names["loss"].centroids.xi.grad.abs().sum() > 0
    exec(DECISIONS, names)
    assert names["scores"].shape == (100, 100)
    assert names["classifier"].source == "learned q"
    assert names["by_means"].source == "class means"
    assert set(names["metric"].compute()) == {"cmi", "gamma", "ncmi"}


def test_the_benchmark_table_is_in_step_with_the_newest_run():
    run(sys.executable, "-m", "benchmarks.table", "README.md", "--check")


def test_the_tables_of_the_documents_are_in_step_with_the_rows():
    run(sys.executable, "docs/tables.py", "--check")


def test_the_table_of_estimators_is_in_step_with_the_rows():
    run(sys.executable, "-m", "benchmarks.estimators", "--table", "docs/scikit-learn.md", "--check")


def test_the_programs_in_the_documents_are_the_files():
    run(sys.executable, "docs/examples.py", "--check")


def test_the_check_sees_a_program_that_has_changed(tmp_path: Path):
    filled = runpy.run_path(str(ROOT / "docs" / "examples.py"))["filled"]
    (tmp_path / "one.py").write_text("print(1 + 1)\n")
    page = "<!-- example: one.py -->\n<!-- end -->\n"
    whole = filled(page, tmp_path, run=True)
    assert "```python\nprint(1 + 1)\n```" in whole
    assert "```text\n2\n```" in whole
    assert filled(whole, tmp_path, run=False) == whole
    (tmp_path / "one.py").write_text("import nothing_of_that_name\n")
    changed = filled(whole, tmp_path, run=True)
    assert "nothing_of_that_name" in changed
    assert "```text\n2\n```" in changed


def test_links_lead_to_files():
    for document in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
            path = document.parent / target.partition("#")[0]
            assert target.startswith("https://") or path.exists(), f"{document} links to {target}"


def test_citation_and_changelog_name_the_version():
    assert f"\nversion: {ncmi.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## [{ncmi.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_wheel_in_an_empty_environment_runs_the_readme(tmp_path: Path):
    run(sys.executable, "-m", "pip", "wheel", ROOT, "--quiet", "--no-deps", "--wheel-dir", tmp_path)
    (wheel,) = tmp_path.glob("ncmi-*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    script = tmp_path / "readme.py"
    script.write_text(f"{GIVEN}\n{LOOP}\n{DECISIONS}\nprint(ncmi.__file__)", encoding="utf-8")
    # -I: neither this checkout nor the user's site-packages may help.
    where = run(python, "-I", script, cwd=tmp_path).splitlines()[-1]
    assert Path(where).is_relative_to(tmp_path / "empty")
    assert (Path(where).parent / "py.typed").exists()
    assert (Path(where).parent / "report" / "templates" / "page.html").exists()
