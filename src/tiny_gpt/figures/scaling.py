"""Figures of the scale of the scores: variance, entropy and gradient by width."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ..palette import COLORS
from .style import (
    INK,
    SCALES,
    Series,
    name_widths,
    new_figure,
)


def softmax_bars(panels: Mapping[str, Series], ceiling: float = 1.0) -> Figure:
    """A few distributions over the same keys as bars, side by side: ``{title: probabilities}``."""
    fig = new_figure(6, 2.4)
    for ax, (title, p) in zip(fig.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True):
        keys = np.arange(1, len(p) + 1)
        ax.bar(keys, p, color=COLORS["k"][0], width=0.75)
        ax.axhline(1 / len(p), color=COLORS["baseline"][0], linestyle=":", linewidth=1.2)
        ax.set(title=title, xlabel="key", xticks=keys, ylim=(0, ceiling))
    fig.axes[0].set_ylabel("weight")
    return fig


def variance_by_width(
    widths: Sequence[int], measured: Mapping[str, Series], ratios: Mapping[str, tuple[Series, Series]]
) -> Figure:
    """Left: the scores' variance by width, ``{scale: variances}``. Right: measured over predicted with error bars.

    ``ratios``: ``{distribution of the coordinates: (ratio, two standard errors)}``.
    """
    fig = new_figure(6.2, 3.1)
    left, right = fig.subplots(1, 2)
    for name, variances in measured.items():
        left.plot(widths, variances, label=name, **SCALES[name])
    left.set(xscale="log", yscale="log", xlabel="width D", ylabel="variance of the score")
    spread = np.linspace(-0.16, 0.16, len(ratios))
    for shift, marker, (name, (ratio, bar)) in zip(spread, "oD^v", ratios.items(), strict=False):
        at = np.asarray(widths) * 2.0**shift * np.exp(shift)
        right.errorbar(at, ratio, bar, fmt=marker, color=INK, markersize=4, capsize=2, linewidth=1, label=name)
    right.axhline(1, color=COLORS["baseline"][0], linestyle=":")
    right.set(xscale="log", xlabel="width D", ylabel="variance ÷ D")
    right.margins(y=0.35)
    right.legend(fontsize=8.5, ncols=3, columnspacing=0.5, handletextpad=0, loc="upper center")
    for ax in (left, right):
        name_widths(ax, widths)
    fig.legend(*left.get_legend_handles_labels(), title=None, loc="outside lower center", ncols=len(measured))
    return fig


def entropy_by_width(
    widths: Sequence[int], panels: Mapping[int, Mapping[str, tuple[Series, Series, Series]]]
) -> Figure:
    """Entropy of the weights by width, one panel a number of keys: ``{n: {scale: (mean, low, high)}}``, in bits."""
    fig = new_figure(6.2, 2.8)
    for ax, (n, curves) in zip(fig.subplots(1, len(panels)), panels.items(), strict=True):
        for name, (mean, low, high) in curves.items():
            ax.fill_between(widths, low, high, color=SCALES[name]["color"], alpha=0.18, linewidth=0)
            ax.plot(widths, mean, label=name, markersize=4, **SCALES[name])
        ax.axhline(np.log2(n), color=COLORS["baseline"][0], linestyle=":")
        ax.set(xscale="log", xlabel="width D", title=f"{n} keys", ylim=(0, 1.08 * np.log2(n)))
        name_widths(ax, widths)
    fig.axes[0].set_ylabel("entropy (bits)")
    fig.legend(*fig.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SCALES), title=None)
    return fig


def gradient_by_width(
    widths: Sequence[int], panels: Mapping[str, Mapping[str, tuple[Series, Series, Series, Series]]]
) -> Figure:
    """Norms of derivatives by width: ``{title: {scale: (low, median, high, mean)}}``; the mean is a thin line."""
    fig = new_figure(6.2, 3.3)
    for ax, (title, curves) in zip(fig.subplots(1, len(panels)), panels.items(), strict=True):
        for name, (low, median, high, mean) in curves.items():
            style = SCALES[name]
            ax.fill_between(widths, low, high, color=style["color"], alpha=0.18, linewidth=0)
            ax.plot(widths, median, label=name, markersize=4, **style)
            ax.plot(widths, mean, color=style["color"], linewidth=0.8)
        ax.set(xscale="log", yscale="log", xlabel="width D", title=title)
        ax.set_ylim(bottom=max(ax.get_ylim()[0], 3e-6))  # below, the band of the raw scores goes on without end
        name_widths(ax, widths)
    fig.axes[0].set_ylabel("spectral norm")
    fig.legend(*fig.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SCALES))
    return fig


def spread_dial(spreads: Series, entropy_share: Series, slope: Series, marks: Mapping[str, float]) -> Figure:
    """Entropy (share of its maximum) and the derivative's norm by the scores' standard deviation, with named points."""
    fig = new_figure(5.8, 3.5)
    ax = fig.subplots()
    ax.plot(spreads, entropy_share, color=COLORS["attention"][0], label="entropy ÷ log₂ n")
    ax.plot(spreads, slope, color=INK, linestyle="--", label="‖∂p/∂q‖ relative to its largest")
    for name, at in marks.items():
        ax.axvline(at, color=COLORS["baseline"][0], linestyle=":", linewidth=1)
        ax.text(at, 1.03, name, ha="center", va="bottom", fontsize=9, color=INK)
    ax.set(xscale="log", xlabel="standard deviation of the scores", ylabel="share", ylim=(0, 1.02))
    fig.legend(loc="outside lower center", ncols=2)
    return fig
