"""The site's own code, on a site of one page; ``make docs`` builds the whole."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
CONF = f"""
import sys
sys.path.insert(0, {str(DOCS)!r})
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "public_names"]
html_math_renderer = "mathml"
"""
PAGE = r"""
Page
====

A formula :math:`-k \ln D_v = \ln(1 + w)`, and one on lines of its own:

.. math:: \frac{1}{N} \sum_x D(p_x\|q)

.. autoclass:: shown.Terms

.. autoclass:: shown.Settings
   :members:
"""
SHOWN = '''
from dataclasses import dataclass, field
from typing import NamedTuple

class Terms(NamedTuple):
    """Two numbers."""
    first: float
    second: float

@dataclass
class Settings:
    """Settings.

    Args:
        num_classes: C.
        names: some.
    """
    num_classes: int = 2
    names: list[str] = field(default_factory=list)

    def extra_repr(self):
        """Settings for print."""
'''


def build(folder: Path, page: str) -> tuple[str, str]:
    """The page as HTML, and what Sphinx had to say."""
    (folder / "conf.py").write_text(f"{CONF}\nsys.path.insert(0, {str(folder)!r})\n", encoding="utf-8")
    (folder / "index.rst").write_text(page, encoding="utf-8")
    (folder / "shown.py").write_text(SHOWN, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "--quiet", str(folder), str(folder / "html")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return (folder / "html" / "index.html").read_text(encoding="utf-8"), finished.stderr


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    html, said = build(tmp_path_factory.mktemp("site"), PAGE)
    assert not said
    return html


def test_formulas_are_mathml_with_space_around_functions(page):
    assert page.count("<math ") == 2
    assert '<div class="formula"><math ' in page
    assert '<mo lspace="0.17em" rspace="0.17em">ln</mo>' in page
    assert '<mo lspace="0.17em" rspace="0em">ln</mo>' in page
    assert "mathjax" not in page.lower()


def test_the_reference_says_what_a_reader_needs(page):
    assert "Two numbers." in page
    assert "Alias for field number" not in page
    assert "extra_repr" not in page
    assert "factory" not in page
    assert "<strong>num_classes</strong> – C.</p>" in page


def test_a_formula_that_cannot_be_drawn_is_a_warning(tmp_path):
    html, said = build(tmp_path, "Page\n====\n\n:math:`\\unheardof{<x>}`\n")
    assert "index.rst:4: WARNING: formula" in said
    assert 'Unknown LaTeX command "\\unheardof"' in said
    assert r"<code>\unheardof{&lt;x&gt;}</code>" in html
