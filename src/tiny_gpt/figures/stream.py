"""Figures of the residual stream, and of the gradient through it."""

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

NORMS: dict[str, Style] = {
    "pre-norm": {"color": COLORS["stream"][0], "linestyle": "-", "marker": "o"},
    "post-norm": {"color": INK, "linestyle": "--", "marker": "s"},
}


def contributions(attention: Series, ffn: Series, stream: Series) -> Figure:
    """Size of what the L attention and the L feed-forward branches write, and of the stream between them (2L + 1)."""
    fig = new_figure(6.5, 3.2)
    ax = fig.subplots()
    ax.plot(range(len(stream)), stream, color=COLORS["stream"][0], label="stream")
    ax.plot(range(1, len(stream), 2), attention, "o", color=COLORS["attention"][0], label="attention writes")
    ax.plot(range(2, len(stream), 2), ffn, "s", color=COLORS["ffn"][0], label="feed-forward writes")
    ax.set(xlabel="branches passed", ylabel="root mean square", ylim=(0, None), xticks=range(0, len(stream), 2))
    fig.legend(loc="outside lower center", ncols=3)
    return fig


def gradient_by_layer(curves: Mapping[str, Series]) -> Figure:
    """Gradient norm at each layer of models that are equally deep: ``{kind: norms}``."""
    fig = new_figure(5.8, 3.0)
    ax = fig.subplots()
    for (kind, norms), dash in zip(curves.items(), ("-", "--", ":", "-."), strict=False):
        ax.plot(range(1, len(norms) + 1), norms, dash, color=INK, marker="o", markersize=4, label=kind)
    ax.set(yscale="log", xlabel="layer", ylabel="gradient norm")
    ax.locator_params(axis="x", integer=True)
    fig.legend(loc="outside lower center", ncols=len(curves))
    return fig


def gradient_by_depth(profile: Mapping[str, Series], depths: Sequence[int], relative: Mapping[str, Series]) -> Figure:
    """Left: gradient norm at each layer, ``{kind: (L,)}``. Right: at the last layer by depth, relative to the first."""
    fig = new_figure(7, 3.1)
    left, right = fig.subplots(1, 2)
    for kind, norms in profile.items():
        left.plot(range(1, len(norms) + 1), norms, label=kind, **NORMS[kind])
    left.set(xlabel="layer", ylabel="gradient norm", yscale="log")
    for kind, values in relative.items():
        right.plot(depths, values, **NORMS[kind])
    law = np.sqrt(depths[0] / np.asarray(depths, dtype=float))
    right.plot(depths, law, ":", color=COLORS["baseline"][0], label="1/√L")
    right.set(xlabel="number of layers L", ylabel="at the last layer, relative", xscale="log", yscale="log")
    right.set_xticks(depths, [str(d) for d in depths])
    right.set_yticks([0.25, 0.5, 1, 2], ["0.25", "0.5", "1", "2"])
    right.minorticks_off()
    fig.legend(loc="outside lower center", ncols=3)
    return fig


def pre_post_training(curves: Mapping[tuple[str, int], Series], floor: float, ceiling: float) -> Figure:
    """Training losses ``{(kind, seed): losses}`` between the source's entropy and the loss of guessing, in nats."""
    fig = new_figure(6.5, 3.3)
    ax = fig.subplots()
    for (kind, seed), losses in curves.items():
        style = {key: value for key, value in NORMS[kind].items() if key != "marker"}
        ax.plot(losses, label=kind if seed == 0 else None, linewidth=1.3, **style)
    for level, name in ((floor, "floor"), (ceiling, "guessing")):
        ax.axhline(level, color=COLORS["baseline"][0], linestyle=":", linewidth=1.3)
        ax.text(len(losses), level, f" {name}", va="center", color=INK, fontsize=9)
    ax.set(xlabel="step", ylabel="loss, nats", xlim=(0, len(losses)))
    fig.legend(loc="outside lower center", ncols=2)
    return fig


def stream_loudness(panels: Mapping[str, Mapping[int, Series]]) -> Figure:
    """Root mean square of the stream over the share of the depth, ``{title: {L: levels (L + 1)}}``, on one axis."""
    fig = new_figure(7, 3.2)
    axes = fig.subplots(1, len(panels), sharey=True)
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for style, (layers, levels) in zip((":", "--", "-"), curves.items(), strict=False):
            share = np.linspace(0, 1, len(levels))
            ax.plot(share, levels, style, color=COLORS["stream"][0], label=f"{layers} layers")
        ax.set(title=title, xlabel="share of the depth", xlim=(0, 1), ylim=(0, None))
    axes[0].set_ylabel("root mean square of the stream")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def loss_by_layer(losses: Series) -> Figure:
    """Validation loss, nats, of reading the stream off with the unembedding after 0 to L blocks (L + 1)."""
    fig = new_figure(6, 3.1)
    ax = fig.subplots()
    ax.plot(range(len(losses)), losses, "-o", color=COLORS["stream"][0])
    for i, loss in enumerate(losses):
        ax.annotate(f"{loss:.2f}", (i, loss), (0, 7), textcoords="offset points", ha="center", fontsize=9, color=INK)
    ax.set(xlabel="blocks passed", ylabel="loss, nats", xticks=range(len(losses)))
    ax.margins(y=0.2)
    return fig
