"""Figures of models that went wrong, and of the tests that find it."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..palette import COLORS
from .style import (
    GRID,
    GROUND,
    INK,
    Series,
    new_figure,
)


def loss_gaps(rows: Mapping[str, tuple[Series, Series]], guessing: float) -> Figure:
    """Distances from the floor in nats, a row a model: ``{name: (all at once, honestly)}``, one mark a seed."""
    fig = new_figure(6.2, 0.33 * len(rows) + 1.3)
    ax = fig.subplots()
    colour = COLORS["train"][0]
    for row, (once, honest) in enumerate(rows.values()):
        ax.plot(honest, np.full(len(honest), row), "o", color=INK, markerfacecolor="none", markersize=7)
        ax.plot(once, np.full(len(once), row), "o", color=colour, markersize=5)
    ax.plot([], [], "o", color=colour, markersize=5, label="all positions at once")
    ax.plot([], [], "o", color=INK, markerfacecolor="none", markersize=7, label="honestly")
    for level, name in ((0.0, "floor"), (guessing, "guessing")):
        ax.axvline(level, color=COLORS["baseline"][0], linestyle=":")
        ax.text(level, -0.8, name, ha="center", va="bottom", fontsize=9, color=INK)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xlabel="loss above the floor (nats per token)", ylim=(len(rows) - 0.5, -0.7))
    fig.legend(loc="outside lower center", ncols=2)
    return fig


def failed_tests(table: Mapping[str, Mapping[str, bool]]) -> Figure:
    """Which test (column) fails which model (row): ``{model: {test: passed}}``; a cross on a square is a failure."""
    tests = list(next(iter(table.values())))
    fig = new_figure(6.2, 0.3 * len(table) + 1.6)
    ax = fig.subplots()
    ax.set(xlim=(0, len(tests)), ylim=(len(table), 0))
    for i, row in enumerate(table.values()):
        for j, passed in enumerate(row.values()):
            if not passed:
                ax.add_patch(Rectangle((j + 0.06, i + 0.08), 0.88, 0.84, facecolor=INK, linewidth=0))
                ax.text(j + 0.5, i + 0.52, "×", ha="center", va="center", color=GROUND, fontsize=12)
    ax.set_yticks(np.arange(len(table)) + 0.5, list(table))
    ax.set_xticks(np.arange(len(tests)) + 0.5, tests, rotation=40, ha="left", rotation_mode="anchor")
    ax.xaxis.tick_top()
    ax.set_xlabel("× the test fails", fontsize=10)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.grid(False)
    for i in range(len(table) + 1):
        ax.axhline(i, color=GRID, linewidth=0.6)
    for j in range(len(tests) + 1):
        ax.axvline(j, color=GRID, linewidth=0.6)
    return fig


def patient_curves(
    steps: Sequence[int], train: Sequence[float | None], valid: Sequence[float | None], floor: float | None
) -> Figure:
    """Both losses of one of the clinic's patients over its updates, nats; ``floor`` is the source's entropy."""
    fig = new_figure(5.8, 3.0)
    ax = fig.subplots()
    for losses, dash, name in ((train, "-", "training"), (valid, "--", "validation")):
        ax.plot(steps, [np.nan if y is None else y for y in losses], dash, color=INK, label=name)
    if floor:
        ax.axhline(floor, color=COLORS["baseline"][0], linestyle=":", label="the source's entropy")
    ax.set(xlabel="updates", ylabel="loss, nats")
    fig.legend(loc="outside lower center", ncols=3)
    return fig


def gradient_norms(runs: Mapping[str, Series], clip: float) -> Figure:
    """The gradient norm at each step before clipping, a panel a run, on one logarithmic axis: ``{name: norms}``."""
    fig = new_figure(6.2, 2.3 * -(-len(runs) // 2))
    axes = fig.subplots(-(-len(runs) // 2), 2, sharex=True, sharey=True, squeeze=False)
    for ax, (name, norms) in zip(axes.flat, runs.items(), strict=False):
        ax.plot(norms, color=COLORS["train"][0], linewidth=1.2)
        ax.axhline(clip, color=COLORS["baseline"][0], linestyle=":")
        ax.set(title=name, yscale="log", xlabel="step")
    for ax in axes[:, 0]:
        ax.set_ylabel("gradient norm")
    return fig
