"""Outputs that no network made."""

import torch

from ncmi.evaluation import Outputs


def made_outputs(num_classes=3, each=10, width=8, names=None, seed=0, **changes):
    """Every class ``each`` times; the first sample of each class is decided as the next class."""
    targets = torch.arange(num_classes).repeat_interleave(each)
    decisions = targets.clone()
    decisions[::each] = (targets[::each] + 1) % num_classes
    generator = torch.Generator().manual_seed(seed)
    place = torch.arange(num_classes).float()
    values = {
        "part": "test",
        "decision": "learned q",
        "class_names": [f"class {y}" for y in range(num_classes)] if names is None else names,
        "targets": targets.int(),
        "decisions": decisions.int(),
        "confidences": torch.full((len(targets),), 0.75),
        "divergences": (place - place.unsqueeze(1)).abs(),
        "sample": torch.arange(len(targets), dtype=torch.int32),
        "features": torch.randn(len(targets), width, generator=generator).half(),
    }
    return Outputs(**{**values, **changes})
