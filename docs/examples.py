"""Programs of examples/ in the documents, with what they print.

``python docs/examples.py`` fills every block ``<!-- example: examples/NAME.py -->`` … ``<!-- end -->`` of the Markdown files
here with the file and its output, running each. ``--check`` runs nothing and fails if a shown program is not the file.
A program whose framework is not installed keeps the output that the page has, if any.
"""

import argparse
import contextlib
import io
import re
import runpy
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"(<!-- example: (?P<path>[\w./-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
OUTPUT = re.compile(r"```text\n(.*?)```", re.DOTALL)


def output_of(path: Path, shown: str) -> str:
    """What a program prints; ``shown`` if its framework is missing."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(path), run_name="__main__")
    except ImportError as error:
        print(f"{path.name}: {error}; its output stays", file=sys.stderr)
        return shown
    return printed.getvalue()


def filled(text: str, root: Path, run: bool) -> str:
    """``text`` with every block made anew; without ``run`` outputs stay as they are."""

    def block(match: re.Match[str]) -> str:
        path = root / match["path"]
        shown = OUTPUT.search(match["body"])
        output = shown[1] if shown else ""
        if run:
            output = output_of(path, output)
        program = path.read_text(encoding="utf-8")
        printed = f"```text\n{output}```\n\n" if output else ""
        return f"{match[1]}\n```python\n{program}```\n\n{printed}{match[4]}"

    return BLOCK.sub(block, text)


def main() -> None:
    """Fill or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the shown programs are the files")
    options = parser.parse_args()
    sys.argv[1:] = []  # the programs read their own arguments
    for document in sorted(DOCS.glob("*.md")):
        text = document.read_text(encoding="utf-8")
        wanted = filled(text, DOCS.parent, run=not options.check)
        if wanted == text:
            continue
        if options.check:
            sys.exit(f"docs/{document.name} shows programs that have changed. Run: python docs/examples.py")
        document.write_text(wanted, encoding="utf-8")
        print(f"docs/{document.name}: examples rewritten")


if __name__ == "__main__":
    main()
