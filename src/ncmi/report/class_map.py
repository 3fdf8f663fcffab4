"""``draw_class_map``: distances between classes as a map, like beside like."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncmi.report.drawing import check_picture, save_figure, style

_INCHES_A_CLASS = 0.16


def draw_class_map(
    distances: Any, order: Sequence[int], names: Sequence[str], path: str | Path, title: str = ""
) -> None:
    """Write a picture of distances between classes, dark where they are near.

    Args:
        distances: (C, C), as numpy takes them.
        order: of the classes, from top to bottom and from left to right.
        names: of the classes.
        path: the file, ``.svg`` or ``.png``.
        title: a line above the map.
    """
    path = check_picture("draw_class_map", path)
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    values = np.asarray(distances, dtype=float)[np.ix_(order, order)]
    count = len(order)
    off_diagonal = values[~np.eye(count, dtype=bool)]
    shown = np.where(np.eye(count, dtype=bool), np.nan, values)
    with style():
        side = max(4.5, _INCHES_A_CLASS * count)
        figure = Figure(figsize=(side + 2.6, side + 1.4), layout=ConstrainedLayoutEngine())
        axis = figure.add_subplot()
        image = axis.imshow(shown, cmap="viridis", vmin=off_diagonal.min(), vmax=np.quantile(off_diagonal, 0.98))
        labels, size = [names[place] for place in order], 10 if count <= 20 else 7
        axis.set_xticks(range(count), labels, rotation=90, fontsize=size)
        axis.set_yticks(range(count), labels, fontsize=size)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=axis, shrink=0.6, extend="max")
        bar.set_label("divergence between centroids, nats")
        if title:
            figure.suptitle(title, fontsize=12)
        save_figure(figure, path)
