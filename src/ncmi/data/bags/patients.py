"""Patients to parts: all bags of a patient stay together, and every part gets its share of each class.

Integers only, and a hash of the patient's name instead of a position: the result is the same on every machine and does not
depend on the order of the table.

Shapes: N bags, C classes.
"""

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ncmi.data.keyed import SPLIT, sample_hash


def assign_patients(patients: Sequence[str], targets: Tensor, shares: Sequence[int], seed: int = 0) -> Tensor:
    r"""The part int64 (N,) of each bag; part f gets about ``shares[f]`` / Σ ``shares`` of the bags of every class.

    Patients come in the order of their size, large ones first because they are hard to place, and of a keyed hash among
    equals. Each goes where it raises :math:`\sum_{f,c} n_{fc}^2 / (\mathrm{share}_f\, N_c^2)` least, with :math:`n_{fc}` bags
    of class c in part f and :math:`N_c` in all; the sum is smallest where every part has its share of every class.

    Args:
        patients: of each bag.
        targets: class indices (N,).
        shares: positive whole numbers, one a part.
        seed: another seed makes other parts.

    >>> assign_patients(["p", "p", "q", "r", "r", "s"], torch.tensor([0, 0, 1, 0, 0, 1]), (1, 1)).tolist()
    [0, 0, 1, 1, 1, 0]
    """
    counts: dict[str, list[int]] = {}
    num_classes = int(targets.max()) + 1
    totals = torch.bincount(targets, minlength=num_classes).tolist()
    for patient, target in zip(patients, targets.tolist(), strict=True):
        counts.setdefault(patient, [0] * num_classes)[target] += 1
    # Everything over one common denominator, so that equal sums are equal and no rounding decides.
    common, scale = math.lcm(*(total for total in totals if total)) ** 2, math.lcm(*shares)
    weights = [common // total**2 if total else 0 for total in totals]
    placed = [[0] * num_classes for _ in shares]
    part_of: dict[str, int] = {}
    hashes = dict(zip(counts, _name_hashes(list(counts), seed), strict=True))
    for patient in sorted(counts, key=lambda name: (-sum(counts[name]), hashes[name])):
        own = counts[patient]
        costs = []
        for part, (share, there) in enumerate(zip(shares, placed, strict=True)):
            rise = sum(w * (2 * n + new) * new for w, n, new in zip(weights, there, own, strict=True))
            # Among equals the part that is emptiest for its share, so that the sizes stay even too.
            costs.append((rise * (scale // share), sum(there) * (scale // share), part))
        part_of[patient] = min(costs)[2]
        placed[part_of[patient]] = [n + new for n, new in zip(placed[part_of[patient]], own, strict=True)]
    return torch.tensor([part_of[patient] for patient in patients], dtype=torch.int64)


def _name_hashes(names: Sequence[str], seed: int) -> list[int]:
    digests = (hashlib.sha256(name.encode()).digest()[:8] for name in names)
    numbers = torch.tensor([int.from_bytes(digest, "big", signed=True) for digest in digests], dtype=torch.int64)
    return sample_hash(numbers, seed=seed, purpose=SPLIT).tolist()
