"""What all pictures share: colours, a style that no user's file changes, and files whose bytes follow from their content."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncmi.tensor_files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any kind of colour vision tell apart; without the yellow, too pale for a line.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# What a file says of itself besides the picture: nothing that changes from one drawing to the next.
_METADATA: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".png": {"Software": None}}
_STYLE: dict[Any, Any] = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "ncmi"}


def check_picture(owner: str, path: str | Path) -> Path:
    """``path`` if it can be drawn: matplotlib is there, and the ending is one that is known."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{owner}: pictures need the package matplotlib: `pip install matplotlib`.") from error
    path = Path(path)
    if path.suffix not in _METADATA:
        raise ValueError(f"{owner}: the name must end in {' or '.join(_METADATA)}; got {path.name!r}.")
    return path


@contextmanager
def style() -> Iterator[None]:
    """The house style for figures that are made and saved inside; a user's style file would change the bytes."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        for name, value in _STYLE.items():
            matplotlib.rcParams[name] = value
        yield


def save_figure(figure: "Figure", path: Path) -> None:
    """Write the picture, whole or not at all; equal figures give equal bytes."""
    metadata = _METADATA[path.suffix]
    write_atomically(
        path, lambda temporary: figure.savefig(temporary, format=path.suffix[1:], metadata=metadata, dpi=150)
    )
