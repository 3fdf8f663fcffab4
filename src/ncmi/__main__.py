"""``python -m ncmi``, which is how torchrun starts the command line."""

import sys

from ncmi.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
