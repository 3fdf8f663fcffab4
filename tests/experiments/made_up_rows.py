"""Rows of runs that nobody ran, with the numbers that a test needs."""

from ncmi.experiments.cells import Cell
from ncmi.experiments.losses import resolved_options

RECIPE = {
    "epochs": 1,
    "batch_size": 64,
    "data": {"name": "digits", "validation": 0.2},
    "model": {"name": "mlp", "options": {"hidden": [8]}},
    "schedule": {"name": "one-cycle"},
    "decisions": ["own", "class means", "linear probe"],
}


def made_up_row(
    comparison, loss, rate, seed, validation=0.5, test=0.5, probe=None, failed=None, headline="own", **factors
):
    """A row of images; ``factors`` are those beside the loss."""
    cell = Cell({**factors, "loss": loss}, rate, seed)
    config = comparison.config(cell)
    row = {
        **cell.factors, "rate": rate, "seed": seed, "options": resolved_options(loss, config.loss.options),
        "fingerprint": comparison.fingerprint(cell), "config": config.to_dict(), "commits": ["c0ffee0123", "decaf00123-dirty"],
        "processor": "abacus", "threads": 1, "torch": "2",
    }  # fmt: skip
    if failed is not None:
        return {**row, "failed": failed}
    scores = {"own": test, "class means": test, "linear probe": test if probe is None else probe}
    decisions = {
        name: {part: {"n": 100, "top1": top1, "top5": 1.0, "nll": None, "ece": 0.0} for part, top1 in parts.items()}
        for name, parts in ((name, {"validation": validation, "test": value}) for name, value in scores.items())
    }
    return {
        **row, "headline": headline, "decisions": decisions, "epochs": config.epochs, "seconds": config.epochs * (2.0 + seed),
        "peak_memory_bytes": 10**8 + seed, "train_samples": 1150,
    }  # fmt: skip


def as_slides(row, **scores):
    """A row of images as one of slides: ``own`` and ``probe`` are macro F1 and macro AUC on all parts."""
    pairs = {"own": scores["own"], "class means": (0.1, 0.2), "linear probe": scores.get("probe", (0.3, 0.4))}
    for name, (macro_f1, macro_auc) in pairs.items():
        intervals = {"macro_f1": [macro_f1 - 0.1, macro_f1 + 0.1]}
        for part in row["decisions"][name].values():
            part |= {"macro_f1": macro_f1, "macro_auc": macro_auc, "balanced_accuracy": 0.6, "intervals": intervals}
    return {**row, "train_samples": 900 + row["seed"]}


def by_fingerprint(rows):
    return {row["fingerprint"]: row for row in rows}
