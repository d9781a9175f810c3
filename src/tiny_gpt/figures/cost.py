"""Figures of what a computation costs in seconds and bytes."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from ..palette import COLORS
from .style import (
    INK,
    Series,
    Style,
    name_widths,
    new_figure,
)

PATHS: dict[str, Style] = {
    "four lines": {"color": INK, "linestyle": "--", "marker": "s"},
    "fused": {"color": COLORS["attention"][0], "linestyle": "-", "marker": "o"},
}


def attention_cost(lengths: Series, seconds: Mapping[str, Series], nbytes: Mapping[str, Series]) -> Figure:
    """Seconds (left) and peak bytes (right) by length of the text, logarithmic: ``{path: values}``, paths as in PATHS.

    Thin dotted lines through the first point show the powers 1 and 2.
    """
    fig = new_figure(6.2, 3.3)
    lengths = np.asarray(lengths, dtype=float)
    panels = ((seconds, 1e3, "time (ms)"), (nbytes, 1e-6, "peak memory (MB)"))
    for ax, (curves, unit, label) in zip(fig.subplots(1, 2), panels, strict=True):
        for name, values in curves.items():
            ax.plot(lengths, unit * np.asarray(values), label=name, markersize=4, **PATHS[name])
        start = unit * curves["fused"][0]
        for power in (1, 2):
            line = start * (lengths / lengths[0]) ** power
            ax.plot(lengths, line, ":", color=COLORS["baseline"][0], linewidth=1)
            ax.text(1.2 * lengths[-1], line[-1], "T²" if power == 2 else "T", va="center", fontsize=9, color=INK)
        ax.set(xscale="log", yscale="log", xlabel="length T (tokens)", ylabel=label, xlim=(None, 2.2 * lengths[-1]))
        name_widths(ax, [int(T) for T in lengths])
    fig.legend(*fig.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def roofline(devices: Mapping[str, tuple[float, float]], marks: Mapping[str, float]) -> Figure:
    """Attainable FLOP/s by intensity: ``{name: (peak, bandwidth)}``, and named intensities in FLOPs a byte."""
    fig = new_figure(6, 3.4)
    ax = fig.subplots()
    intensity = np.geomspace(0.3, 1e5, 200)
    for style, (name, (peak, bandwidth)) in zip(("--", "-"), devices.items(), strict=False):
        ax.plot(intensity, np.minimum(peak, bandwidth * intensity) / 1e12, style, color=INK, label=name)
        for at in marks.values():
            ax.plot(at, min(peak, bandwidth * at) / 1e12, "o", color=INK, markersize=6)
    for name, at in marks.items():
        ax.axvline(at, color=COLORS["baseline"][0], linestyle=":", linewidth=1)
        ax.annotate(
            name, (at, 1), (3, 2), xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=9, color=INK
        )
    ax.set(xscale="log", yscale="log", xlabel="intensity (FLOPs a byte)", ylabel="TFLOP/s", xlim=(0.3, 1e5))
    ax.legend(loc="lower right")
    return fig
