"""Speed and memory, measured: ``python -m benchmarks.head`` and ``.loop``, then ``python -m benchmarks.table README.md``."""

from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "head.jsonl"
LOOP_RESULTS = RESULTS.with_name("loop.jsonl")
