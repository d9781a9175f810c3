"""Figures of scores, weights, masks and heads."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from numpy.typing import ArrayLike

from ..palette import COLORS, P_MAP
from .style import (
    GROUND,
    INK,
    MASKED,
    Array,
    Style,
    heat_scores,
    heat_weights,
    label_cells,
    new_figure,
    panel_axes,
)


def attention_triptych(S: ArrayLike, M: ArrayLike, P: ArrayLike, labels: Sequence[object] | None = None) -> Figure:
    """Scores, masked scores and weights of one head side by side, the first two on one scale.

    S (T, T) scores, M (T, T) the additive mask of 0 and ``-inf``, P (T, T) weights; ``labels``: one for each position.
    """
    S, M, P = (np.asarray(a, dtype=float) for a in (S, M, P))
    labels = range(len(S)) if labels is None else labels
    masked = np.isneginf(M)
    limit = np.abs(S).max()
    fig = new_figure(5.8, 3.1)
    axes = fig.subplots(1, 3)
    scores = heat_scores(axes[0], S, limit=limit)
    heat_scores(axes[1], S, masked=masked, limit=limit)
    weights = heat_weights(axes[2], P, masked=masked)
    for ax, title in zip(axes, ("S, the scores", "S + M, masked", "P, the weights"), strict=True):
        label_cells(ax, labels, labels)
        ax.set(title=title, xlabel="key position")
    axes[0].set_ylabel("query position")
    fig.colorbar(scores, ax=axes[:2], orientation="horizontal", shrink=0.5, aspect=30, label="score")
    fig.colorbar(
        weights, ax=axes[2], orientation="horizontal", shrink=0.9, aspect=25, label="weight", ticks=[0, 0.5, 1]
    )
    return fig


def weight_maps(
    panels: Mapping[str, ArrayLike],
    masked: ArrayLike | Mapping[str, ArrayLike] | None = None,
    labels: Sequence[object] | None = None,
    sums: bool = False,
) -> Figure:
    """Several weight matrices (T, T), two in a row: ``{title: P}``; with ``sums`` each row's sum stands beside it.

    ``masked``: the cells that a mask removed, for all panels or as ``{title: mask}``.
    """
    rows = -(-len(panels) // 2)
    fig = new_figure(5.2, 2.5 * rows + 0.6)
    axes = panel_axes(fig, len(panels), columns=2)
    for ax, (title, P) in zip(axes, panels.items(), strict=False):
        P = np.asarray(P, dtype=float)
        mesh = heat_weights(ax, P, masked=masked.get(title) if isinstance(masked, Mapping) else masked)
        names = range(len(P)) if labels is None else labels
        label_cells(ax, names, names)
        ax.set(title=title, ylabel="query position")
        if sums:
            for i, total in enumerate(P.sum(axis=1)):
                text = f"Σ {total:.2f}" if np.isfinite(total) else "Σ NaN"
                ax.text(P.shape[1] + 0.15, i + 0.5, text, va="center", fontsize=8, color=INK)
    for ax in axes[max(0, len(panels) - 2) : len(panels)]:
        ax.set_xlabel("key position")
    fig.colorbar(
        mesh, ax=list(axes), orientation="horizontal", shrink=0.5, aspect=40, label="weight", ticks=[0, 0.5, 1]
    )
    return fig


def influence_maps(panels: Mapping[str, ArrayLike]) -> Figure:
    """Which input (column) moves which output (row): ``{title: change (T, T)}``; NaN where the output is NaN.

    A filled square is influence from the past or the present, a cross on a square one from the future: a leak.
    """
    rows = -(-len(panels) // 3)
    fig = new_figure(5.8, 2.25 * rows + 0.3)
    axes = panel_axes(fig, len(panels), columns=3)
    for ax, (title, change) in zip(axes, panels.items(), strict=False):
        change = np.asarray(change, dtype=float)
        T = len(change)
        ax.set(aspect="equal", xlim=(0, T), ylim=(T, 0), title=title)
        for i, j in np.ndindex(T, T):
            if np.isnan(change[i, j]):
                ax.text(j + 0.5, i + 0.5, "?", ha="center", va="center", color=INK, fontsize=9)
            elif change[i, j] != 0:
                colour = INK if j > i else COLORS["attention"][0]
                ax.add_patch(Rectangle((j + 0.08, i + 0.08), 0.84, 0.84, facecolor=colour, linewidth=0))
                if j > i:
                    ax.text(j + 0.5, i + 0.5, "×", ha="center", va="center", color=GROUND, fontsize=11)
        ax.plot([0, T], [0, T], color=INK, linewidth=0.8, linestyle=":")
        label_cells(ax, range(T), range(T))
        ax.set_xlabel("input changed")
        ax.grid(False)
        ax.tick_params(length=0)
    for ax in axes[::3]:
        ax.set_ylabel("output moved?")
    return fig


TINTS = (0.12, 0.4, 0.68)  # how strong the queries' colour is in head 0, 1, 2


def origins(panels: Mapping[str, tuple[Array, Array]], roles: bool = False) -> Figure:
    """Where the elements of a reshaped tensor come from: ``{title: (positions, heads)}``, arrays of (G, rows, columns).

    One row of G grids a title; a cell's tint is the head that the element belongs to, its number the position. With
    ``roles`` the second array says 0 query, 1 key, 2 value, and a cell has that hue.
    """
    sizes = {title: np.shape(marks[0]) for title, marks in panels.items()}
    G, rows, columns = next(iter(sizes.values()))
    fig = new_figure(7, len(panels) * (0.34 * rows + 0.65))
    for axes, (title, (positions, owners)) in zip(
        fig.subplots(len(panels), G, squeeze=False), panels.items(), strict=True
    ):
        for number, ax in enumerate(axes):
            ax.set(aspect="equal", xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            ax.grid(False)
            for i, j in np.ndindex(rows, columns):
                owner = int(owners[number, i, j])
                hue, tint = ("qkv"[owner], 0.5) if roles else ("q", TINTS[owner % len(TINTS)])
                ax.add_patch(
                    Rectangle((j + 0.04, i + 0.04), 0.92, 0.92, facecolor=COLORS[hue][0], alpha=tint, linewidth=0)
                )
                ax.text(j + 0.5, i + 0.5, int(positions[number, i, j]), ha="center", va="center", color=INK)
            ax.set_title(f"{title}: head {number}" if G > 1 and number == 0 else f"head {number}" if G > 1 else title)
    return fig


ACTIVATIONS: dict[str, Style] = {
    "ReLU": {"color": INK, "linestyle": "--"},
    "GELU": {"color": COLORS["ffn"][0], "linestyle": "-"},
}


def head_scores(scores: ArrayLike, title: str) -> Figure:
    """One number in [0, 1] for each layer (row) and head (column), as a heat map on the scale of weights."""
    fig = new_figure(4.6, 3.4)
    ax = fig.subplots()
    mesh = heat_weights(ax, scores, write=True)
    rows, columns = np.shape(scores)
    label_cells(ax, range(1, rows + 1), range(1, columns + 1))
    ax.set(title=title, xlabel="head", ylabel="layer")
    fig.colorbar(mesh, ax=ax, label="weight", ticks=[0, 0.5, 1])
    return fig


def head_on_text(P: ArrayLike, text: str, title: str) -> Figure:
    """One head's weights (T, T) on a line of text, one row and column a character; the future hatched."""
    P = np.asarray(P)
    shown = [{" ": "␣", "\n": "↵"}.get(c, c) for c in text]
    fig = new_figure(6.2, 5.6)
    ax = fig.subplots()
    T = len(P)
    past = np.ma.masked_where(~np.tri(T, dtype=bool), P)
    mesh = ax.pcolormesh(past, cmap=P_MAP, norm=Normalize(0.0, 1.0), rasterized=True)
    ax.set(aspect="equal", xlim=(0, T), ylim=(T, 0))
    ax.spines[:].set_visible(False)
    ax.grid(False)
    # One patch for the whole future: T²/2 little ones would make a heavy page.
    corners = [(0, 0), *[point for i in range(T) for point in ((i + 1, i), (i + 1, i + 1))][:-1], (T, 0)]
    future = Polygon(corners, closed=True, facecolor="none", edgecolor=MASKED, hatch="////", linewidth=0)
    ax.add_patch(future)
    label_cells(ax, shown, shown)
    ax.tick_params(labelsize=8)
    ax.set(title=title, xlabel="reads from", ylabel="character that reads")
    fig.colorbar(mesh, ax=ax, label="weight", ticks=[0, 0.5, 1], shrink=0.7)
    return fig
