"""Speed and memory, measured: ``python -m benchmarks.head``, ``.loop`` and ``.bags``, then ``.table README.md``."""

from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "head.jsonl"
LOOP_RESULTS = RESULTS.with_name("loop.jsonl")
BAG_RESULTS = RESULTS.with_name("bags.jsonl")
