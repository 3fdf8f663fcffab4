"""Rows of runs that nobody ran, with the numbers that a test needs."""

from ncmi.experiments.cells import Cell

RECIPE = {
    "epochs": 1,
    "batch_size": 64,
    "data": {"name": "digits", "validation": 0.2},
    "model": {"name": "mlp", "options": {"hidden": [8]}},
    "schedule": {"name": "one-cycle"},
    "decisions": ["own", "class means", "linear probe"],
}


def made_up_row(comparison, loss, rate, seed, validation=0.5, test=0.5, probe=None, failed=None, headline="own"):
    cell = Cell({"loss": loss}, rate, seed)
    config = comparison.config(cell).to_dict()
    row = {"loss": loss, "rate": rate, "seed": seed, "fingerprint": comparison.fingerprint(cell), "config": config}
    if failed is not None:
        return {**row, "failed": failed}
    scores = {"own": test, "class means": test, "linear probe": test if probe is None else probe}
    decisions = {
        name: {part: {"top1": top1, "top5": 1.0, "ece": 0.0} for part, top1 in parts.items()}
        for name, parts in ((name, {"validation": validation, "test": value}) for name, value in scores.items())
    }
    return {
        **row, "headline": headline, "decisions": decisions, "seconds": 2.0 + seed, "peak_memory_bytes": 10**8 + seed,
        "train_samples": 1150, "processor": "abacus", "threads": 1, "torch": "2",
    }  # fmt: skip


def by_fingerprint(rows):
    return {row["fingerprint"]: row for row in rows}
