"""How the API reference differs from what autodoc would write: members that tell a reader nothing are left out."""

import re
from typing import Any

from sphinx.application import Sphinx

_UNTOLD = {"extra_repr"}
_FIELD = "Alias for field number"  # how Python documents the fields of a named tuple, of which the class tells more


def leave_out(app: Sphinx, kind: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Whether autodoc is to skip a member; ``None`` leaves it to autodoc."""
    return True if name in _UNTOLD or str(getattr(value, "__doc__", "")).startswith(_FIELD) else None


def readable(app: Sphinx, kind: str, name: str, value: Any, options: Any, signature: str | None, returned: str | None):
    """A signature that Sphinx can parse, and link the types of: Python writes a dataclass's empty list as ``<factory>``."""
    return None if signature is None else (signature.replace("<factory>", "..."), returned)


def keep_letters(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Descriptions such as ``num_classes: C.`` as they are; reStructuredText takes a lone letter for the start of a list."""
    lines[:] = [re.sub(r"^(\s*)([A-Z]\.)$", r"\1\\\2", line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("autodoc-skip-member", leave_out)
    app.connect("autodoc-process-signature", readable)
    app.connect("autodoc-process-docstring", keep_letters, priority=1000)  # after napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
