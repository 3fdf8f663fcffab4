"""The site of these pages: ``make docs`` builds it into ``docs/_build/html``, and a warning fails the build.

It needs no network, neither to be built nor to be read.
"""

import sys
from pathlib import Path

import ncmi

sys.path.insert(0, str(Path(__file__).parent))  # of mathml.py and public_names.py

project = "ncmi"
author = "The ncmi developers"
copyright = "2026, the ncmi developers"
version = release = ncmi.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "public_names"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# What stands in annotations: of other packages, whose pages a build without a network cannot look up, and types within rooms.
nitpick_ignore_regex = [
    (r"py:.*", r"(torch|torchmetrics|nn|numpy|collections|typing|pathlib|functools|inspect|Image)\b.*"),
    (r"py:class", r"ncmi\.data\.(loaders\.(Batch|Image)Transform|files\.Layout)"),
    (r"py:class", r"ncmi\.(criteria\.memory\.Labelled|evaluation\.features\.Batches)"),
]

highlight_language = "none"  # of blocks that name none: commands, and what they print

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_custom_sections = [("Shape", "notes_style")]
python_maximum_signature_line_length = 100
python_trailing_comma_in_multi_line_signatures = False
add_module_names = False

html_theme = "furo"
html_title = f"ncmi {release}"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
