"""The command line ``ncmi``. No module here imports torch before a command runs, so that help is instant."""

from ncmi.cli.main import main

__all__ = ["main"]
