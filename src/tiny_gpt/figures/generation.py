"""Figures of distributions over the next token, and of text as it is generated."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ..palette import COLORS
from .style import (
    INK,
    Series,
    Style,
    new_figure,
)


def distributions(labels: Sequence[str], panels: Mapping[str, Series]) -> Figure:
    """One row of logits as bars over the same characters, side by side: ``{title: probabilities}``."""
    shown = [{" ": "␣", "\n": "↵"}.get(c, c) for c in labels]
    fig = new_figure(6.5, 2.5)
    for ax, (title, p) in zip(fig.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True):
        ax.bar(range(len(shown)), np.asarray(p), color=COLORS["stream"][0], width=0.75)
        ax.set_xticks(range(len(shown)), shown)
        ax.tick_params(axis="x", labelsize=9, length=0)
        ax.grid(axis="x", visible=False)
        ax.set(title=title, xlabel="next character")
    fig.axes[0].set_ylabel("probability")
    return fig


def entropy_by_temperature(temperatures: Series, mean: Series, low: Series, high: Series, ceiling: float) -> Figure:
    """Entropy, nats, of the next token by temperature: mean and band over contexts, and its ceiling ln V."""
    fig = new_figure(6, 3.2)
    ax = fig.subplots()
    colour = COLORS["stream"][0]
    ax.fill_between(temperatures, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(temperatures, mean, color=colour)
    ax.axhline(ceiling, color=COLORS["baseline"][0], linestyle=":")
    ax.axvline(1, color=INK, linewidth=0.8, linestyle="--")
    ax.set(xscale="log", xlabel="temperature τ", ylabel="entropy, nats", ylim=(0, 1.08 * ceiling))
    ax.set_xticks([0.1, 0.3, 1, 3, 10, 30], ["0.1", "0.3", "1", "3", "10", "30"])
    ax.set_xticks([], minor=True)
    return fig


def degeneration(
    temperatures: Series,
    repetition: Sequence[tuple[float, float]],
    surprise: Sequence[tuple[float, float]],
    real_repetition: float,
    real_surprise: float,
) -> Figure:
    """Samples by temperature: repeated strings (share) and surprise (nats), as (mean, error) each; real text dotted."""
    fig = new_figure(6.5, 3.0)
    left, right = fig.subplots(1, 2)
    for ax, values, real in ((left, repetition, real_repetition), (right, surprise, real_surprise)):
        mean, error = np.transpose(values)
        ax.errorbar(temperatures, mean, error, fmt="-o", color=COLORS["stream"][0], markersize=4, capsize=2)
        ax.axhline(real, color=COLORS["baseline"][0], linestyle=":")
        above: Style = {"textcoords": "offset points", "ha": "right", "fontsize": 9, "color": INK}
        ax.annotate("real text", (max(temperatures), real), (0, 4), **above)
        ax.set(xlabel="temperature τ", ylim=(0, None))
    left.set_ylabel("share of strings repeated")
    right.set_ylabel("surprise, nats a character")
    return fig


def cache_time(lengths: Sequence[int], without: Series, cached: Series) -> Figure:
    """Milliseconds for one more token by the length of the context, read afresh and with a KV cache."""
    fig = new_figure(6, 3.1)
    ax = fig.subplots()
    ax.plot(lengths, without, "--s", color=INK, markersize=4, label="without the cache")
    ax.plot(lengths, cached, "-o", color=COLORS["attention"][0], markersize=4, label="with the cache")
    ax.set(xscale="log", yscale="log", xlabel="positions in context", ylabel="milliseconds for one token")
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ax.set_xticks([], minor=True)
    ax.legend()
    return fig


PATHS: dict[str, Style] = {
    "four lines": {"color": INK, "linestyle": "--", "marker": "s"},
    "fused": {"color": COLORS["attention"][0], "linestyle": "-", "marker": "o"},
}
