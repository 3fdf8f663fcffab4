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

# After a function's name, as ln, comes an invisible sign that browsers draw without a space; before a bracket none is wanted.
NAME_OF_FUNCTION = re.compile(r"(<mo>\u2061</mo>)(?!\s*<mo[^>]*>\()")


def mathml(node: nodes.Node, as_block: bool) -> str:
    """The formula of a node; one that docutils does not understand is a warning, and stands there as it was written."""
    try:
        return NAME_OF_FUNCTION.sub(r'\1<mspace width="0.17em"></mspace>', tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        getLogger(__name__).warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{escape(node.astext())}</code>"


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
