"""Figures of the whole model: its plan, and its characters in two dimensions."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ..palette import COLORS
from .style import GRID, INK, new_figure

KINDS = {
    "vowels": ("o", 0.6), "consonants": ("s", 0.2), "capitals": ("^", 0.4), "punctuation": ("D", 0.2),
}  # fmt: skip


def characters(points: Mapping[str, Mapping[str, tuple[float, float]]]) -> Figure:
    """Characters in the plane, by kind: ``{kind: {character: (x, y)}}``; each is written at its place."""
    fig = new_figure(6.5, 5.2)
    ax = fig.subplots()
    for kind, places in points.items():
        marker, strength = KINDS[kind]
        xy = np.array(list(places.values()))
        ax.plot(*xy.T, marker, color=COLORS["baseline"][0], markersize=15, alpha=strength, label=kind, linewidth=0)
        for character, (x, y) in places.items():
            shown = {" ": "␣", "\n": "↵"}.get(character, character)
            ax.text(x, y, shown, ha="center", va="center", fontsize=9, color=INK)
    ax.set(xlabel="first principal component", ylabel="second principal component")
    fig.legend(loc="outside lower center", ncols=4, markerscale=0.6)
    return fig


def architecture() -> Figure:
    """The whole model as a diagram: the residual stream, one block with its two branches, both ends."""
    fig = new_figure(6.4, 5.6)
    ax = fig.subplots()
    ax.set(xlim=(0, 10), ylim=(0, 11.4), aspect="equal")
    ax.set_axis_off()

    def box(x: float, y: float, text: str, colour: str, width: float = 2.9) -> None:
        ax.add_patch(
            FancyBboxPatch(
                (x - width / 2, y - 0.33), width, 0.66, boxstyle="round,pad=0.02,rounding_size=0.12",
                facecolor=COLORS[colour][0], alpha=0.28, edgecolor=COLORS[colour][0], linewidth=1.2,
            )
        )  # fmt: skip
        ax.text(x, y, text, ha="center", va="center", color=INK, fontsize=10)

    def arrow(*points: tuple[float, float], colour: str = "ink") -> None:
        xs, ys = zip(*points, strict=True)
        ax.plot(xs[:-1], ys[:-1], color=COLORS[colour][0], linewidth=1.4)
        style = {"arrowstyle": "-|>", "color": COLORS[colour][0], "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", points[-1], points[-2], arrowprops=style)

    def plus(y: float) -> None:
        ax.plot(3, y, "o", color=COLORS["stream"][0], markersize=15)
        ax.text(3, y, "+", ha="center", va="center", color="#111111", fontsize=13)

    ax.plot([3, 3], [1.1, 8.67], color=COLORS["stream"][0], linewidth=5, solid_capstyle="butt")
    box(3, 0.75, "token + position", "baseline", 3.2)
    for low, name, colour in ((2.2, "attention", "attention"), (5.2, "feed-forward", "ffn")):
        arrow((3, low), (7, low), (7, low + 0.42))
        box(7, low + 0.75, "LayerNorm", "baseline")
        arrow((7, low + 1.08), (7, low + 1.32))
        box(7, low + 1.65, name, colour)
        arrow((7, low + 1.98), (7, low + 2.4), (3.28, low + 2.4), colour=colour)
        plus(low + 2.4)
    frame = FancyBboxPatch(
        (1.6, 1.75), 7.4, 6.3, boxstyle="round,pad=0,rounding_size=0.2", facecolor="none", edgecolor=GRID, linewidth=1.5
    )
    ax.add_patch(frame)
    ax.text(9.2, 4.9, "× L", color=INK, fontsize=13, va="center")
    ax.text(1.35, 4.9, "residual stream (B, T, C)", rotation=90, va="center", ha="center", color=INK, fontsize=9)
    box(3, 9.0, "LayerNorm", "baseline")
    arrow((3, 9.33), (3, 9.72))
    box(3, 10.05, "unembedding", "baseline")
    arrow((3, 10.38), (3, 10.85))
    ax.text(3, 11.1, "logits (B, T, V)", ha="center", va="center", color=INK, fontsize=10)
    ax.text(5.0, 0.75, "ids (B, T)", va="center", color=INK, fontsize=10)
    return fig
