"""Tables in the documents and in the folders of comparisons, made from committed rows.

``python docs/tables.py`` fills every block ``<!-- table: results/compare/NAME -->`` … ``<!-- end -->`` of the Markdown files
here with the table of that comparison, or, for ``results/information/NAME.jsonl``, of those measurements, and writes
``table.md`` and ``table.csv`` of every comparison in ``results/compare`` and ``results/reproduce``. A block
``<!-- item: NAME -->`` gets the piece of that table or figure of the paper from ``results/reproduce/small/NAME``, whose
pictures are copied to ``docs/pictures/reproduction``. ``--check`` changes nothing and fails if one of them is out of step.
"""

import argparse
import re
import sys
from pathlib import Path

from ncmi.experiments.folder import ComparisonFolder
from ncmi.experiments.information_table import information_table
from ncmi.experiments.reproduce import get_item
from ncmi.experiments.reproduce.item import Place
from ncmi.report.drawing import style

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- table: (?P<folder>[\w./-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
ITEM = re.compile(r"(<!-- item: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PICTURE = re.compile(r"\]\((?P<file>[\w-]+\.svg)\)")
SCALE = "small"
NOT_RUN = f"Not run yet at scale {SCALE}.\n"


def made_files(root: Path) -> dict[Path, str]:
    """All files below ``root`` that hold tables, and what must stand in them."""
    files, tables = {}, {}
    records = [*root.glob("results/compare/*/comparison.json"), *root.glob("results/reproduce/*/*/*/comparison.json")]
    for record in sorted(records):
        folder = ComparisonFolder(record.parent)
        table = folder.table()
        files |= folder.table_files(table)
        tables[folder.path.relative_to(root).as_posix()] = table.markdown()
    for rows in sorted(root.glob("results/information/*.jsonl")):
        tables[rows.relative_to(root).as_posix()] = information_table(rows)
    pieces = {}
    for folder in sorted(root.glob(f"results/reproduce/{SCALE}/*")):
        pieces[folder.name] = piece = item_piece(folder)
        files[folder / "table.md"] = piece
        for picture in PICTURE.finditer(piece):
            svg = (folder / picture["file"]).read_text(encoding="utf-8")
            files[root / "docs" / picture_path(folder.name, picture["file"])] = svg
    for document in sorted(root.glob("docs/*.md")):
        text = document.read_text(encoding="utf-8")
        text = BLOCK.sub(lambda match: f"{match[1]}\n{tables[match['folder']]}\n{match[3]}", text)
        files[document] = ITEM.sub(lambda match: f"{match[1]}\n{on_page(match['name'], pieces)}\n{match[3]}", text)
    return files


def item_piece(folder: Path) -> str:
    """The Markdown of an item, made from the rows in its folder."""
    with style():
        return get_item(folder.name).piece(Place(folder, folder, SCALE)).markdown


def on_page(name: str, pieces: dict[str, str]) -> str:
    """The Markdown of an item with the pictures that the page has."""
    return PICTURE.sub(lambda match: f"]({picture_path(name, match['file'])})", pieces.get(name, NOT_RUN))


def picture_path(name: str, file: str) -> str:
    """Where a picture of an item is, seen from the pages."""
    return f"pictures/reproduction/{name}/{file}"


def stale_files(root: Path) -> dict[Path, str]:
    """Those of :func:`made_files` that do not stand like that, or are not there."""
    return {
        path: text
        for path, text in made_files(root).items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the tables are in step")
    options = parser.parse_args()
    for path, text in stale_files(ROOT).items():
        name = path.relative_to(ROOT)
        if options.check:
            sys.exit(f"{name} is out of step with the rows. Run: python docs/tables.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"{name}: tables rewritten")


if __name__ == "__main__":
    main()
