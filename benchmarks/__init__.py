"""Speed and memory of the loss, measured: ``python -m benchmarks.head``, then ``python -m benchmarks.table README.md``."""

from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "head.jsonl"
