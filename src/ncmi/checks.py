"""Sentences for a person who passed something that cannot work.

Every message names the owner, what must hold, what was given and what to do. Checks that read values (NaN, label range)
run in eager mode only: a compiled step must not wait for the device.
"""

import difflib
import math
from collections.abc import Iterable

import torch
from torch import Tensor


def choose(owner: str, what: str, name: str, choices: Iterable[str]) -> str:
    """``name`` if it is one of ``choices``; otherwise a ValueError that lists the nearest ones."""
    known = list(choices)
    if name in known:
        return name
    near = difflib.get_close_matches(str(name), known, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(f"{owner}: {what} must be one of {', '.join(map(repr, known))}; got {name!r}.{hint}")


def check_sizes(owner: str, num_classes: int, num_features: int) -> None:
    """At least two classes and two features."""
    if num_classes < 2:
        raise ValueError(
            f"{owner}: num_classes must be at least 2, because a separation needs two classes; got {num_classes}."
        )
    if num_features < 2:
        raise ValueError(
            f"{owner}: num_features must be at least 2, because one number has only one distribution; "
            f"got {num_features}. Pass the width of the features, not their count."
        )


def check_temperature(owner: str, temperature: float) -> float:
    """A positive, finite temperature."""
    if not isinstance(temperature, (int, float)) or not 0 < temperature < float("inf"):
        raise ValueError(f"{owner}: temperature must be positive and finite; got {temperature!r}. The default is 0.2.")
    return float(temperature)


def check_tensor(owner: str, what: str, value: object) -> None:
    """A torch tensor, not an array or a list."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{owner}: {what} must be a torch tensor; got {type(value).__name__}. Pass torch.as_tensor({what})."
        )


def check_features(owner: str, features: Tensor, num_features: int) -> None:
    """Real features (B, num_features) without NaN or infinity."""
    check_tensor(owner, "features", features)
    if not features.is_floating_point():
        raise TypeError(
            f"{owner}: features must be real numbers (float32, float64, float16 or bfloat16); got {features.dtype}."
        )
    if features.ndim != 2 or features.shape[1] != num_features:
        shape = tuple(features.shape)
        remedy = f"Pass num_features={shape[1]}." if features.ndim == 2 else "Pool or flatten them to one row a sample."
        raise ValueError(
            f"{owner}: features must have shape (B, {num_features}) because num_features={num_features}; "
            f"got {shape}. {remedy}"
        )
    if torch.compiler.is_compiling():
        return
    # A finite sum proves that every entry is finite; only an overflowing sum needs the longer look.
    features = features.detach()
    if not math.isfinite(features.sum(dtype=torch.promote_types(features.dtype, torch.float32))) and not bool(
        features.isfinite().all()
    ):
        bad = (~features.isfinite()).any(dim=1)
        raise ValueError(
            f"{owner}: features must be finite; {int(bad.sum())} of {len(bad)} rows hold NaN or infinity "
            f"(first at row {int(bad.nonzero()[0])}). Lower the learning rate, clip gradients or check the inputs."
        )


def check_targets(owner: str, targets: Tensor, num_samples: int, num_classes: int, ignore_index: int) -> bool:
    """Class indices (B,), or soft labels (B, C): non-negative floats whose rows sum to one.

    Returns whether some label may equal ``ignore_index``.
    """
    check_tensor(owner, "targets", targets)
    shape = tuple(targets.shape)
    if targets.is_complex() or targets.dtype == torch.bool:
        raise TypeError(
            f"{owner}: targets must be class indices or soft labels; got {targets.dtype} of shape {shape}. Several classes "
            "for one sample (multi-label) are not supported, because each sample has one centroid."
        )
    if shape[:1] != (num_samples,):
        raise ValueError(f"{owner}: features and targets must have the same length; got {num_samples} and {shape}.")
    if not targets.is_floating_point():
        return _check_hard(owner, targets, num_classes, ignore_index)
    _check_soft(owner, targets, num_classes)
    return False


def _check_hard(owner: str, targets: Tensor, num_classes: int, ignore_index: int) -> bool:
    shape = tuple(targets.shape)
    if targets.ndim != 1:
        raise ValueError(
            f"{owner}: integer targets must be class indices of shape (B,); got {shape}. For one-hot rows pass "
            "targets.argmax(1); several classes for one sample (multi-label) are not supported, because each sample "
            "has one centroid."
        )
    if torch.compiler.is_compiling():
        return True
    if targets.numel() == 0:
        return False
    targets = targets.long()  # in uint8, 156 equals an ignore_index of -100
    lowest, highest = torch.aminmax(targets)
    if int(lowest) >= 0 and int(highest) < num_classes:
        return 0 <= ignore_index < num_classes
    wrong = targets[((targets < 0) | (targets >= num_classes)) & (targets != ignore_index)]
    if len(wrong):
        raise ValueError(
            f"{owner}: targets must lie in [0, {num_classes - 1}] because num_classes={num_classes} "
            f"(or equal ignore_index={ignore_index}); got {int(wrong[0])}. Labels that start at 1 need targets - 1."
        )
    return True


def _check_soft(owner: str, targets: Tensor, num_classes: int) -> None:
    shape = tuple(targets.shape)
    if targets.ndim != 2 or shape[1] != num_classes:
        raise ValueError(
            f"{owner}: targets must be class indices (integers, shape (B,)) or soft labels (floats, shape "
            f"(B, {num_classes})); got {targets.dtype} of shape {shape}. For class indices pass targets.long()."
        )
    if torch.compiler.is_compiling() or targets.numel() == 0:
        return
    sums = targets.detach().float().sum(dim=1)
    if bool((targets < 0).any()) or not bool(((sums - 1).abs() < 1e-2).all()):
        worst = float(sums[(sums - 1).abs().argmax()])
        raise ValueError(
            f"{owner}: soft labels must be non-negative rows that sum to one; got a row with sum {worst:.4g}. "
            "Multi-label targets are not supported, because each sample has one centroid."
        )
