"""``draw_attention``: where on a slide a bag model looks, as a picture.

Shapes: N patches of a slide.
"""

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from ncmi.report.drawing import check_picture, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

_LONG_SIDE = 7.0  # inches of the longer side of the map
_SHORT_SIDE = 2.2  # at least, so that title and axes of a narrow strip of tissue have room
# A logarithmic scale leaves out the smallest twentieth of the weights, and what is below eight decades: a few weights next
# to zero would take the colours from all others.
_LEFT_OUT = 0.05
_DECADES = 8.0
_MANY = 20_000  # squares above which an SVG holds them as an image, which viewers can still open


def draw_attention(
    coordinates: Tensor,
    weights: Tensor,
    path: str | Path,
    title: str = "",
    note: str = "",
    patch_size: float | None = None,
) -> None:
    """Write a map of attention: one square a patch, coloured by its weight; equal input gives equal bytes.

    The colours are linear from zero or, where the weights span more than a decade, logarithmic from the 5 % quantile, over
    eight decades at most; an arrow at the colour bar says that there are smaller ones, which have the colour of its end.
    Heavier patches lie over lighter ones.

    Args:
        coordinates: (N, 2), x and y of each patch's upper left corner; y grows downwards, as in slides.
        weights: (N,), not negative.
        path: the file, ``.png`` or ``.svg``; an old one is replaced whole.
        title: lines above the map.
        note: what a reader of the map must know, below it.
        patch_size: side of a square in units of the coordinates; ``None`` takes :func:`smallest_spacing`.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_attention(torch.tensor([[0, 0], [256, 0]]), torch.tensor([0.2, 0.8]), f"{folder}/map.svg", "slide 1")
    ...     Path(folder, "map.svg").read_text()[:5]
    '<?xml'
    """
    path = check_picture("draw_attention", path)
    from matplotlib.figure import Figure

    coordinates, weights = coordinates.detach().cpu().double(), weights.detach().cpu().double()
    _check(coordinates, weights, patch_size)
    size = smallest_spacing(coordinates) if patch_size is None else float(patch_size)
    low = coordinates.amin(dim=0)
    width, height = (coordinates.amax(dim=0) - low + size).tolist()
    scale = _LONG_SIDE / max(width, height)
    with style():
        # Beside the map: the colour bar and the numbers of the axes; above and below: title and note.
        sides = (max(width * scale, _SHORT_SIDE) + 1.9, max(height * scale, _SHORT_SIDE) + 1.4)
        figure = Figure(figsize=sides, layout="constrained")
        axis = figure.add_subplot()
        squares = _draw_squares(axis, coordinates, weights, size)
        _draw_axes(axis, low.tolist(), width, height)
        _draw_bar(figure, axis, squares, weights)
        letters = int(11 * sides[0])  # that fit into a line
        if title:
            figure.suptitle(_wrapped(title, letters), fontsize=11)
        if note:
            figure.supxlabel(_wrapped(note, letters), fontsize=10)
        save_figure(figure, path)


def smallest_spacing(coordinates: Tensor) -> float:
    r"""The smallest distance :math:`\max(|Δx|, |Δy|)` above zero of two patches; 1 if there are no two places.

    It is the side of the largest squares that do not overlap: the patch size where two patches are neighbours, whatever
    the grids that pieces of tissue are laid out on, and the step where patches overlap.

    Args:
        coordinates: (N, 2).

    >>> import torch
    >>> smallest_spacing(torch.tensor([[0, 0], [256, 0], [0, 256], [900, 1000]]))
    256.0
    """
    if len(coordinates) < 2:
        return 1.0
    points = coordinates.double()
    # Along the axis with more different values few patches are level with each other, and the search is short.
    main = int(len(points[:, 1].unique()) > len(points[:, 0].unique()))
    points = points[points[:, main].argsort(stable=True)]
    best = math.inf
    for step in range(1, len(points)):
        gaps = (points[step:] - points[:-step]).abs()
        if float(gaps[:, main].min()) >= best:  # and patches further apart in the order are no nearer
            break
        distances = gaps.amax(dim=1)
        distances = distances[distances > 0]
        best = min(best, float(distances.min())) if len(distances) else best
    return best if math.isfinite(best) else 1.0


def _check(coordinates: Tensor, weights: Tensor, patch_size: float | None) -> None:
    if weights.ndim != 1 or not len(weights) or coordinates.shape != (len(weights), 2):
        raise ValueError(
            "draw_attention: coordinates must have shape (N, 2) and weights shape (N,), with N at least 1; got "
            f"{tuple(coordinates.shape)} and {tuple(weights.shape)}."
        )
    if not bool(coordinates.isfinite().all()):
        raise ValueError("draw_attention: coordinates must be finite; got NaN or infinity. Extract the slide again.")
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        worst = float(weights[~(weights.isfinite() & (weights >= 0))][0])
        raise ValueError(
            f"draw_attention: weights must be finite and not negative; got {worst}. Pass the softmax of the logits."
        )
    if patch_size is not None and not 0 < patch_size < math.inf:
        raise ValueError(
            f"draw_attention: patch_size must be positive and finite; got {patch_size}. Leave it out to infer it."
        )


def _draw_squares(axis: "Axes", coordinates: Tensor, weights: Tensor, size: float) -> "PolyCollection":
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm, Normalize

    order = weights.argsort(stable=True)  # the heaviest last, on top where patches overlap
    corners = coordinates.new_tensor([[0, 0], [1, 0], [1, 1], [0, 1]]) * size
    highest = float(weights.max())
    norm = (
        LogNorm(_log_start(weights), highest, clip=True)
        if _spans_a_decade(weights)
        else Normalize(0, highest or 1.0)  # zero where all weights are
    )
    squares = PolyCollection(
        (coordinates[order].unsqueeze(1) + corners).numpy(),  # pyright: ignore[reportArgumentType]
        array=weights[order].numpy(),
        norm=norm,
        cmap="viridis",  # perceptually uniform, and told apart by people with any kind of colour vision
        edgecolors="none",
        antialiased=False,  # else the background shines through between neighbours
        rasterized=len(weights) > _MANY,
    )
    axis.add_collection(squares, autolim=False)
    return squares


def _draw_axes(axis: "Axes", low: list[float], width: float, height: float) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    axis.set_aspect("equal")
    axis.set_xlim(low[0], low[0] + width)
    axis.set_ylim(low[1] + height, low[1])
    axis.set_facecolor("0.94")  # of places without a patch; no colour of the map
    axis.set_xlabel("x")
    axis.set_ylabel("y")
    for ticks, start, length in ((axis.xaxis, low[0], width), (axis.yaxis, low[1], height)):
        wide = 5 * length > max(width, height)  # beside a long strip, there is room for one number
        ticks.set_major_locator(MaxNLocator(4) if wide else FixedLocator([start]))


def _draw_bar(figure: "Figure", axis: "Axes", squares: "PolyCollection", weights: Tensor) -> None:
    logarithmic = _spans_a_decade(weights)
    smaller = logarithmic and float(weights.min()) < _log_start(weights)
    bar = figure.colorbar(squares, ax=axis, extend="min" if smaller else "neither", fraction=0.05, pad=0.03, aspect=30)
    bar.set_label(f"attention weight, {'logarithmic' if logarithmic else 'linear'} scale")


def _log_start(weights: Tensor) -> float:
    """The lower end of a logarithmic scale."""
    quantile = float(weights.sort().values[int(_LEFT_OUT * len(weights))])
    # Where nearly all weights are equal, the quantile may be the largest one; a scale needs some length.
    return max(min(quantile, float(weights.max()) / 10), float(weights.max()) * 10**-_DECADES)


def _wrapped(text: str, letters: int) -> str:
    """The text with no line of more than so many letters; the lines that it has stay."""
    return "\n".join(textwrap.fill(line, letters) for line in text.splitlines())


def _spans_a_decade(weights: Tensor) -> bool:
    return float(weights.max()) > 10 * float(weights.min())
