"""Tables in the documents, made from committed rows.

``python docs/tables.py`` fills every block ``<!-- table: results/compare/NAME -->`` … ``<!-- end -->`` of the Markdown files
here with the table of that comparison, or, for ``results/information/NAME.jsonl``, of those measurements; ``--check`` changes
nothing and fails if a block is out of step.
"""

import argparse
import re
import sys
from pathlib import Path

from ncmi.experiments.compare import read_table
from ncmi.experiments.information_table import information_table

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"(<!-- table: (?P<folder>[\w./-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, root: Path) -> str:
    """``text`` with every block made anew from the rows below ``root``."""

    def table(match: re.Match[str]) -> str:
        rows = root / match["folder"]
        made = information_table(rows) if rows.suffix == ".jsonl" else read_table(rows).markdown()
        return f"{match[1]}\n{made}\n{match[3]}"

    return BLOCK.sub(table, text)


def main() -> None:
    """Fill or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the blocks are in step")
    options = parser.parse_args()
    for document in sorted(DOCS.glob("*.md")):
        text = document.read_text(encoding="utf-8")
        wanted = filled(text, DOCS.parent)
        if wanted == text:
            continue
        if options.check:
            sys.exit(f"docs/{document.name} is out of step with the rows. Run: python docs/tables.py")
        document.write_text(wanted, encoding="utf-8")
        print(f"docs/{document.name}: tables rewritten")


if __name__ == "__main__":
    main()
