"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network.

Sphinx has renderers for MathJax, which is fetched, and for LaTeX, which must be installed; docutils can write MathML already.
"""

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

# The name of a function, as ln, and the invisible sign after it, which browsers draw without any space.
FUNCTION = re.compile(r"<mi>(\w+)</mi>\s*<mo>(?:&ApplyFunction;|\u2061)</mo>(?P<bracket>\s*<mo[^>]*>\()?")


def mathml(node: nodes.Node, as_block: bool) -> str:
    """The formula of a node; one that docutils does not understand is a warning, and stands there as it was written."""
    try:
        return FUNCTION.sub(spaced, tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        getLogger(__name__).warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{escape(node.astext())}</code>"


def spaced(function: re.Match[str]) -> str:
    """The name of a function with a thin space on both sides, but none before a bracket."""
    after = "0em" if function["bracket"] else "0.17em"
    return f'<mo lspace="0.17em" rspace="{after}">{function[1]}</mo>{function["bracket"] or ""}'


def render_inline(translator: Any, node: nodes.math) -> None:
    """A formula within a sentence."""
    translator.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def render_block(translator: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own, in a box that scrolls where the screen is narrow."""
    translator.body.append(f'<div class="formula">{mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this; ``html_math_renderer = "mathml"`` chooses it."""
    app.add_html_math_renderer("mathml", inline_renderers=(render_inline, None), block_renderers=(render_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
