"""``draw_separation``: how far apart two kinds of samples are in some numbers, as histograms over each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ncmi.report.drawing import COLORS, check_picture, save_figure, style

_BINS = 60


def draw_separation(
    panels: Mapping[str, Sequence[Sequence[float]]], names: Sequence[str], path: str | Path, title: str = ""
) -> None:
    """Write a picture with a panel for each number, and in it a histogram of each kind, of equal area.

    The range ends at the 99.5th percentile of all; what lies beyond is counted in the last bin.

    Args:
        panels: by what the number is, its values for each kind.
        names: of the kinds.
        path: the file, ``.svg`` or ``.png``.
        title: a line above the panels.
    """
    path = check_picture("draw_separation", path)
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with style():
        layout = ConstrainedLayoutEngine(wspace=0.06)
        figure = Figure(figsize=(5.2 * len(panels), 3.4), layout=layout)
        for place, (label, kinds) in enumerate(panels.items()):
            axis = figure.add_subplot(1, len(panels), place + 1)
            everything = np.concatenate([np.asarray(kind) for kind in kinds])
            low, high = everything.min(), np.quantile(everything, 0.995)
            high = high if high > low else low + 1
            for number, kind in enumerate(kinds):
                values = np.minimum(np.asarray(kind), high)
                color = COLORS[number % len(COLORS)]
                settings = {"bins": _BINS, "range": (low, high), "density": True, "color": color}
                axis.hist(values, histtype="stepfilled", alpha=0.35, label=names[number], **settings)
                axis.hist(values, histtype="step", **settings)
            axis.set_xlabel(label)
            axis.set_yticks([])
            axis.set_ylabel("share of samples")
            axis.set_xlim(low, high)
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
        if title:
            figure.suptitle(title, fontsize=12)
        save_figure(figure, path)
