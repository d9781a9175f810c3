"""Figures of the feed-forward network."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from ..palette import COLORS
from .style import (
    INK,
    Series,
    Style,
    new_figure,
)

ACTIVATIONS: dict[str, Style] = {
    "ReLU": {"color": INK, "linestyle": "--"},
    "GELU": {"color": COLORS["ffn"][0], "linestyle": "-"},
}


def activations(x: Series, curves: Mapping[str, tuple[Series, Series]]) -> Figure:
    """Activation functions (left) and their slopes (right) over the same inputs: ``{name: (values, slopes)}``."""
    fig = new_figure(6, 2.9)
    left, right = fig.subplots(1, 2)
    for name, (values, slopes) in curves.items():
        left.plot(x, values, label=name, **ACTIVATIONS[name])
        right.plot(x, slopes, **ACTIVATIONS[name])
    left.set(xlabel="input x", ylabel="activation")
    right.set(xlabel="input x", ylabel="slope")
    left.legend(loc="upper left")
    return fig


def approximation_errors(x: Series, errors: Mapping[str, Series]) -> Figure:
    """Differences of approximations from the exact function, ``{name: difference}``; the first is the one in use."""
    fig = new_figure(6, 3)
    ax = fig.subplots()
    styles: tuple[Style, ...] = ({"color": COLORS["ffn"][0]}, {"color": INK, "linestyle": "--"})
    for (name, difference), style in zip(errors.items(), styles, strict=False):
        ax.plot(x, difference, label=name, **style)
    ax.axhline(0, color=COLORS["baseline"][0], linestyle=":", linewidth=1)
    ax.set(xlabel="input x", ylabel="difference from GELU")
    ax.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)
    ax.legend()
    return fig


def parameter_shares(counts: Mapping[str, Mapping[str, int]]) -> Figure:
    """Parameters by part, one bar a model, in per cent: ``{model: {"attention": n, "feed-forward": n, "rest": n}}``."""
    fig = new_figure(6, 0.45 * len(counts) + 1.2)
    ax = fig.subplots()
    colours = {"attention": "attention", "feed-forward": "ffn", "rest": "baseline"}
    for row, parts in enumerate(counts.values()):
        total, start = sum(parts.values()), 0.0
        for part, count in parts.items():
            share = 100 * count / total
            ax.barh(row, share, left=start, color=COLORS[colours[part]][0], height=0.7)
            if share > 6:
                ax.text(start + share / 2, row, f"{share:.0f}", ha="center", va="center", color="#111111", fontsize=9)
            start += share
    for part, colour in colours.items():
        ax.bar(0, 0, color=COLORS[colour][0], label=part)
    ax.set_yticks(range(len(counts)), list(counts))
    ax.set(xlabel="share of all parameters (per cent)", xlim=(0, 100), ylim=(-0.5, len(counts) - 0.5))
    ax.grid(False)
    fig.legend(loc="outside lower center", ncols=len(colours))
    return fig


NORMS: dict[str, Style] = {
    "pre-norm": {"color": COLORS["stream"][0], "linestyle": "-", "marker": "o"},
    "post-norm": {"color": INK, "linestyle": "--", "marker": "s"},
}
