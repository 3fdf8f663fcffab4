"""``Item``: a table or figure of the paper as work that can be interrupted, and as a piece of a page made from its rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ncmi.experiments.cells import Comparison
from ncmi.experiments.folder import ComparisonFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scale = Literal["smoke", "small", "full"]
# The objective of NCMI in rows at scale small: they were made when it was the default, and are kept.
HARMONIC = "loss.options.objective=harmonic"
SCALES: tuple[Scale, ...] = get_args(Scale)


@dataclass(frozen=True)
class Place:
    """Where an item's work at a scale goes, and who hears of it.

    Args:
        out: the folder of its rows, tables and pictures: ``results/reproduce/SCALE/ITEM``.
        runs: the folder of its run folders, which are not kept with the rows.
        scale: ``smoke``, ``small`` or ``full``.
        jobs: runs side by side.
        say: called with a line for each step that is done.
    """

    out: Path
    runs: Path
    scale: Scale
    jobs: int | None = None
    say: Callable[[str], None] = print

    def part(self, name: str) -> ComparisonFolder:
        """The folder of one of the item's comparisons."""
        return ComparisonFolder(self.out / name)


@dataclass(frozen=True)
class Piece:
    """What an item's rows say: Markdown, and pictures that it refers to by name.

    Args:
        markdown: table, what can be read from it and what cannot; below a heading that the page gives it. It shows a picture
            as ``![what it shows](name.svg)``, and the page finds it.
        figures: by name without an ending; each is written as SVG and PNG beside the rows.
    """

    markdown: str
    figures: Mapping[str, "Figure"]


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper.

    Args:
        name: as the command takes it: ``table-cifar100``.
        title: of its piece of the page.
        comparisons: the trainings of a scale, by the name of their folder below the item's; none for an item without any.
        piece: made from the rows in a place alone, finished or not, so that the page can be made again at any time.
        measure: work after the trainings, if any: it appends rows to files in the place and skips those that are there.
        needs: sentences about what a scale needs beyond the package, such as data; shown by ``--dry-run``.
        prepare: work before the trainings, if any, such as writing images; it skips what is there.
    """

    name: str
    title: str
    comparisons: Callable[[Scale], Mapping[str, Comparison]]
    piece: Callable[[Place], Piece]
    measure: Callable[[Place], None] | None = None
    needs: Callable[[Scale], Sequence[str]] = lambda scale: ()
    prepare: Callable[[Place], None] | None = None
