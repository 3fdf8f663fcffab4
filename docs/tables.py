"""Tables in the documents and in the folders of comparisons, made from committed rows.

``python docs/tables.py`` fills every block ``<!-- table: results/compare/NAME -->`` … ``<!-- end -->`` of the Markdown files
here with the table of that comparison, and writes ``table.md`` and ``table.csv`` of every comparison in ``results/compare``;
``--check`` changes nothing and fails if one of them is out of step.
"""

import argparse
import re
import sys
from pathlib import Path

from ncmi.experiments.folder import ComparisonFolder

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- table: (?P<folder>[\w./-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def made_files(root: Path) -> dict[Path, str]:
    """All files below ``root`` that hold tables, and what must stand in them."""
    files, tables = {}, {}
    for record in sorted(root.glob("results/compare/*/comparison.json")):
        folder = ComparisonFolder(record.parent)
        table = folder.table()
        files |= folder.table_files(table)
        tables[folder.path.relative_to(root).as_posix()] = table.markdown()
    for document in sorted(root.glob("docs/*.md")):
        text = document.read_text(encoding="utf-8")
        files[document] = BLOCK.sub(lambda match: f"{match[1]}\n{tables[match['folder']]}\n{match[3]}", text)
    return files


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
        path.write_text(text, encoding="utf-8")
        print(f"{name}: tables rewritten")


if __name__ == "__main__":
    main()
