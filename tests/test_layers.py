"""The shape of the package: imports point down only, small files, nothing heavy on import."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ncmi

PACKAGE = Path(ncmi.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# A module imports from lower layers, and within its own folder; never from its own layer's neighbours or from above.
LAYERS = [
    {"functional"},
    {"checks", "buffers", "distributed", "tensor_files", "recipes"},
    {"models", "data"},
    {"center", "centroids", "objective", "weighting", "optim"},
    {"presets", "baselines", "rivalry"},
    {"loss"},
    {"metric"},
    {"heads"},
    {"criteria", "sklearn"},
    {"evaluation"},
    {"report"},
    {"training"},
    {"export", "information"},
    {"experiments", "prediction"},
    {"cli"},
    {"ncmi", "__main__"},  # the package's own __init__, and python -m ncmi
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def room(path):
    """The folder or file right below the package that ``path`` belongs to."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "ncmi" if parts == ("__init__",) else parts[0]


def imported_rooms(path):
    """Rooms of the package that a file imports from, anywhere in it (also inside functions)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write the whole name, not a relative import"
            if node.module == "ncmi":
                found |= {alias.name for alias in node.names}
            elif node.module and node.module.startswith("ncmi."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {parts[1] if len(parts) > 1 else "ncmi" for parts in names if parts[0] == "ncmi"}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    own = room(path)
    assert own in LEVEL, f"give {own!r} a place in LAYERS"
    for other in imported_rooms(path) - {own}:
        assert other in LEVEL, f"{path.name} imports {other!r}, which has no layer (import names from their module)"
        assert LEVEL[other] < LEVEL[own], f"{own} must not import from {other}"


def test_every_layer_exists():
    assert set(LEVEL) == {room(path) for path in FILES}


def test_the_guard_sees_an_import_upwards(tmp_path):
    file = tmp_path / "simplex.py"
    file.write_text(
        "def f():\n    from ncmi.loss import NCMILoss\n    import ncmi.metric\n    from ncmi import heads\n"
    )
    assert imported_rooms(file) == {"loss", "metric", "heads"}


def test_functional_imports_torch_alone():
    allowed = {"torch", "ncmi", *sys.stdlib_module_names}
    for path in (PACKAGE / "functional").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert {str(name).split(".")[0] for name in names} <= allowed, path


def test_import_needs_torch_and_torchmetrics_alone():
    # torchmetrics looks at matplotlib and others by itself where they are installed, so it goes first.
    code = (
        "import sys, torchmetrics; before = set(sys.modules); import ncmi; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"sklearn", "matplotlib", "pandas", "torchvision", "scipy", "PIL", "hypothesis", "pytest"}
    loaded = set(run.stdout.split())
    assert "ncmi" in loaded
    assert not loaded & heavy


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_is_a_room(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400, "when it no longer fits on a few screens, it is two rooms"
    assert ast.get_docstring(ast.parse(text)), "its first lines say what lives there"


def test_public_names_are_documented_and_there():
    for name in ncmi.__all__:
        thing = getattr(ncmi, name)
        assert isinstance(thing, dict) or thing.__doc__, name
    for name in ncmi.functional.__all__:
        assert getattr(ncmi.functional, name).__doc__, name
    assert (PACKAGE / "py.typed").exists()


def test_no_epsilon_hides_in_the_mathematics():
    # Values are floored where that is documented and tested, never patched.
    for path in FILES:
        text = path.read_text()
        assert "nan_to_num" not in text, path
        if LEVEL[room(path)] < LEVEL["evaluation"] and room(path) != "data":  # where the word means something else
            assert not re.search(r"\w\.data\b", text), path
