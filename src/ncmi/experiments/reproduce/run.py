"""``reproduce``: an item's trainings, measurements, table and pictures; what is done already is not done again."""

from pathlib import Path

from ncmi.experiments.compare import compare
from ncmi.experiments.reproduce.item import Item, Piece, Place
from ncmi.experiments.take_over import take_over
from ncmi.report.drawing import save_figure, style
from ncmi.tensor_files import write_atomically

# Rows that may hold what an item needs, below the folder of results.
_OTHERS = ("compare/*/rows.jsonl", "study/*/rows.jsonl", "reproduce/*/*/*/rows.jsonl")


def reproduce(item: Item, place: Place, results: Path = Path("results")) -> Piece:
    """The piece of an item whose work has all been done; a signal ends it with :class:`ncmi.training.loop.Stopped`.

    Args:
        item: the table or figure.
        place: where its work goes.
        results: the folder below which rows of other work are looked for.
    """
    comparisons = item.comparisons(place.scale)
    for name, comparison in comparisons.items():
        folder = place.part(name)
        folder.join(comparison)
        if taken := take_over(folder, comparison, other_rows(results, folder.rows.path)):
            place.say(f"{item.name}, {name}: {taken} rows of the same runs taken over from other folders of {results}.")
    if item.prepare is not None:
        item.prepare(place)
    for name, comparison in comparisons.items():
        compare(comparison, place.part(name).path, place.runs / name, jobs=place.jobs, say=place.say)
    if item.measure is not None:
        item.measure(place)
    return write_piece(item, place)


def other_rows(results: Path, own: Path) -> list[Path]:
    """All files of rows that ``own`` may take from."""
    found = [path for pattern in _OTHERS for path in sorted(results.glob(pattern))]
    return [path for path in found if path.resolve() != own.resolve()]


def write_piece(item: Item, place: Place) -> Piece:
    """What the rows in a place say, also written as ``table.md`` and pictures."""
    place.out.mkdir(parents=True, exist_ok=True)
    with style():
        piece = item.piece(place)
        for name, figure in piece.figures.items():
            for ending in (".svg", ".png"):
                save_figure(figure, place.out / f"{name}{ending}")
    write_atomically(place.out / "table.md", lambda file: file.write_text(piece.markdown, encoding="utf-8"))
    return piece
