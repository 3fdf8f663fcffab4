"""``Progress``: a bar on the terminal while a run trains, and whole lines for its log."""

import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat

if TYPE_CHECKING:
    from tqdm import tqdm

# Values by their names in a run, in the order of their weight: what does not fit beside the bar is left out.
_SHOWN = {
    "loss": "loss {:.4g}",
    "accuracy": "acc {:.1%}",
    "ncmi": "NCMI {:.3g}",
    "cmi": "CMI {:.3g}",
    "gamma": "Γ {:.3g}",
    "images_per_second": "{:.0f} samples/s",
    "epoch": "epoch {:.0f}",
}
_INTERVAL = 0.2  # seconds between two looks of the bar
_FIXED = len("100% 00:00:00")
_WIDE = 120  # columns from which a bar is drawn


class Progress:
    """A bar with the latest values, on stderr if that is a terminal; lines on stdout in any case.

    Args:
        total_steps: of the whole run.
        start_step: steps that were done before, by the run that is resumed.
        enabled: whether this process speaks at all: rank 0 does, the others stay silent.

    >>> progress = Progress(total_steps=100)
    >>> progress.update(1, {"epoch": 1, "loss": 4.6})
    >>> progress.line("epoch 1: loss 4.6")
    epoch 1: loss 4.6
    >>> progress.close()
    """

    def __init__(self, total_steps: int, start_step: int = 0, enabled: bool = True):
        self.total_steps = total_steps
        self.enabled = enabled
        self._bar = _make_bar(total_steps, start_step) if enabled and sys.stderr.isatty() else None
        self._next = 0.0

    def update(self, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """Show that ``step`` steps are done, and the values of the last one.

        Cheap enough for every step: values may be tensors on a device, and are read at most five times a second.

        Args:
            step: number of steps done, from 1 to ``total_steps``.
            values: any of ``epoch``, ``loss``, ``accuracy`` (a fraction), ``ncmi``, ``cmi``, ``gamma`` and
                ``images_per_second``; others are not shown.
        """
        if self._bar is None:
            return
        now = time.monotonic()
        if now < self._next and step < self.total_steps:
            return
        self._next = now + _INTERVAL
        width = _width()
        self._bar.bar_format = _form(width)
        self._bar.set_postfix_str(_text(values, width), refresh=False)
        self._bar.update(step - self._bar.n)

    def line(self, text: str) -> None:
        """Print a line to stdout, above the bar."""
        if self._bar is not None:
            with self._bar.external_write_mode(file=sys.stdout):
                print(text, flush=True)
        elif self.enabled:
            print(text, flush=True)

    def close(self) -> None:
        """Remove the bar; lines may still follow."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _make_bar(total_steps: int, start_step: int) -> "tqdm[Any]":
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("Progress: the bar needs the package tqdm: `pip install tqdm`, or enabled=False.") from error

    class Bar(tqdm):
        monitor_interval = 0  # no thread: workers of a loader are forked from this process

    return Bar(
        total=total_steps,
        initial=start_step,
        file=sys.stderr,
        leave=False,
        dynamic_ncols=True,
        # Every update is shown: Progress has already thinned them out.
        mininterval=0,
        miniters=1,
        bar_format=_form(_width()),
    )


def _width() -> int:
    """Columns of the terminal; one that does not say has 80."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80


def _form(width: int) -> str:
    return (
        "{percentage:3.0f}% |{bar}| {remaining}{postfix}"
        if width >= _WIDE
        else "{percentage:3.0f}% {remaining}{postfix}"
    )


def _text(values: Mapping[str, SupportsFloat], width: int) -> str:
    """As many values as fit beside the bar, whole."""
    room = width - _FIXED
    parts = []
    for name, shown in _SHOWN.items():
        if name in values:
            part = shown.format(float(values[name]))
            if len(part) + 2 <= room:
                room -= len(part) + 2
                parts.append(part)
    return ", ".join(parts)
