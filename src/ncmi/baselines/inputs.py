"""Sentences for inputs and settings that a baseline cannot work with, where ``ncmi.checks`` has none.

Shapes: B samples, C classes, D feature width.
"""

import torch
from torch import Tensor

from ncmi.checks import check_tensor


def check_num_classes(owner: str, num_classes: int) -> int:
    """``num_classes`` if there are at least two."""
    if num_classes < 2:
        raise ValueError(
            f"{owner}: num_classes must be at least 2, because one class leaves nothing to tell apart; got {num_classes}. "
            "A network with one output needs a second one."
        )
    return num_classes


def check_num_features(owner: str, num_features: int) -> int:
    """``num_features`` if it is a width."""
    if num_features < 1:
        raise ValueError(
            f"{owner}: num_features must be at least 1; got {num_features}. Pass the width of the features."
        )
    return num_features


def check_number(
    owner: str,
    what: str,
    value: float,
    *,
    at_least: float | None = None,
    above: float | None = None,
    below: float = torch.inf,
) -> float:
    """``value`` as a float if it lies between its bounds; a sentence otherwise."""
    number = float(value)
    too_low = (at_least is not None and not number >= at_least) or (above is not None and not number > above)
    if too_low or not -torch.inf < number < below:
        bounds = [f"at least {at_least:g}"] if at_least is not None else []
        bounds += [f"above {above:g}"] if above is not None else []
        bounds += [f"below {below:g}" if below < torch.inf else "finite"]
        raise ValueError(f"{owner}: {what} must be {' and '.join(bounds)}; got {value}.")
    return number


def check_rows(owner: str, what: str, rows: Tensor, width: int | None, reason: str = "") -> None:
    """Real, finite rows (B, width); any width if it is ``None``."""
    _check_real(owner, what, rows)
    if rows.ndim != 2 or (width is not None and rows.shape[1] != width):
        expected = f"(B, {width}) because {reason}={width}" if width is not None else "(B, D), one row a sample"
        raise ValueError(
            f"{owner}: {what} must have shape {expected}; got {tuple(rows.shape)}. Pass one row a sample"
            f"{f', and {reason} as the network has it' if reason else ''}."
        )
    _check_finite(owner, what, rows)


def check_views(owner: str, projections: Tensor) -> None:
    """Real, finite projections (B, V, P) of at least two views."""
    _check_real(owner, "projections", projections)
    if projections.ndim != 3 or projections.shape[1] < 2:
        raise ValueError(
            f"{owner}: projections must have shape (B, V, P) with V ≥ 2 augmented views of each sample; got "
            f"{tuple(projections.shape)}. Join the views' projections with torch.stack((first, second), dim=1)."
        )
    _check_finite(owner, "projections", projections)


def check_same_length(owner: str, logits: Tensor, features: Tensor) -> None:
    """As many rows of logits as of features."""
    if len(logits) != len(features):
        raise ValueError(
            f"{owner}: logits and features must have one row for each sample of the batch; got {len(logits)} and "
            f"{len(features)} rows. Take both from the same forward pass."
        )


def _check_real(owner: str, what: str, values: Tensor) -> None:
    check_tensor(owner, what, values)
    if not values.is_floating_point():
        raise TypeError(
            f"{owner}: {what} must be real numbers (float32, float64, float16 or bfloat16); got {values.dtype}."
        )


def _check_finite(owner: str, what: str, values: Tensor) -> None:
    if torch.compiler.is_compiling():
        return
    finite = values.detach().isfinite()
    if not bool(finite.all()):
        bad = ~finite.flatten(1).all(dim=1)
        raise ValueError(
            f"{owner}: {what} must be finite; {int(bad.sum())} of {len(bad)} rows hold NaN or infinity "
            f"(first at row {int(bad.nonzero()[0])}). Lower the learning rate, clip gradients or check the inputs."
        )
