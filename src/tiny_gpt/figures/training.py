"""Figures of losses: curves, ladders, and what they depend on."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from matplotlib.figure import Figure

from ..palette import COLORS
from .style import (
    INK,
    Series,
    Style,
    new_figure,
)


class Losses(Protocol):
    """What is drawn of a training run; a ``History`` has it."""

    eval_step: list[int]
    train_loss: list[float]
    valid_loss: list[float]


def leak_losses(curves: Mapping[str, Series], floor: float) -> Figure:
    """Training loss of a causal and of a leaking model on the same random text: ``{name: losses}``, floor in nats."""
    fig = new_figure(6, 2.8)
    ax = fig.subplots()
    styles = {"solid": COLORS["train"][0], "--": INK}
    for (name, losses), (style, colour) in zip(curves.items(), styles.items(), strict=False):
        ax.plot(losses, color=colour, linestyle=style, label=name, linewidth=1.4)
    ax.axhline(floor, color=COLORS["baseline"][0], linestyle=":", label="floor: the entropy of the text")
    ax.set(xlabel="step", ylabel="loss (nats per token)", ylim=(0, None))
    ax.legend()
    return fig


def training_curves(
    history: Losses, reference: Mapping[int, float] | None = None, ladder: Mapping[str, float] | None = None
) -> Figure:
    """Both losses of a ``History`` over its updates, in nats; ``reference`` {step: loss} of another run beside it.

    ``ladder`` {name: loss} are levels to compare with.
    """
    fig = new_figure(7, 3.9)
    ax = fig.subplots()
    ax.plot(history.eval_step, history.train_loss, color=COLORS["train"][0], label="training")
    ax.plot(history.eval_step, history.valid_loss, "--o", markersize=4, color=COLORS["valid"][0], label="validation")
    if reference:
        ax.plot(
            list(reference),
            list(reference.values()),
            ":s",
            markersize=4,
            color=COLORS["baseline"][0],
            label="nanoGPT, validation",
        )
    last = max([*history.eval_step, *(reference or {}), 1])
    for name, level in (ladder or {}).items():
        ax.axhline(level, color=COLORS["baseline"][0], linestyle=":", linewidth=1.2)
        ax.annotate(name, (last, level), (0, 2), textcoords="offset points", ha="right", fontsize=9, color=INK)
    ax.set(xlabel="updates", ylabel="loss, nats a character", xlim=(0, last))
    fig.legend(loc="outside lower center", ncols=3)
    return fig


def ladder(losses: Mapping[str, float], floor: float | None = None) -> Figure:
    """Losses of ever better predictors, nats a character, as bars with their numbers: ``{name: loss}``."""
    fig = new_figure(6.5, 0.42 * len(losses) + 0.8)
    ax = fig.subplots()
    colours = [COLORS["stream"][0] if name.startswith("TinyGPT") else COLORS["baseline"][0] for name in losses]
    ax.barh(list(losses), list(losses.values()), color=colours, height=0.66)
    for row, loss in enumerate(losses.values()):
        ax.annotate(f"{loss:.2f}", (loss, row), (4, 0), textcoords="offset points", va="center", color=INK)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.set(xlabel="validation loss, nats a character", xlim=(0, 1.12 * max(losses.values())))
    return fig


def loss_by_shift(shifts: Sequence[int], losses: Series, alone: float) -> Figure:
    """The least loss, nats, with which one character predicts another, by their distance; ``alone``: without it."""
    fig = new_figure(6, 3.1)
    ax = fig.subplots()
    ax.axhline(alone, color=COLORS["baseline"][0], linestyle=":")
    ax.plot(shifts, losses, "-o", color=COLORS["valid"][0], markersize=4)
    for shift, loss in list(zip(shifts, losses, strict=True))[:3]:
        ax.annotate(f"{loss + 0.0:.2f}", (shift, loss), (8, -4), textcoords="offset points", fontsize=9, color=INK)
    above: Style = {"textcoords": "offset points", "ha": "right", "fontsize": 9, "color": INK}
    ax.annotate("frequencies alone", (max(shifts), alone), (0, 6), **above)
    ax.set(xlabel="shift s, characters", ylabel="loss, nats", ylim=(-0.1, 1.2 * alone))
    return fig


def loss_by_order(on_train: Series, on_valid: Series) -> Figure:
    """Losses, nats a character, of n-grams of order 0, 1, … on the training and on the validation text."""
    fig = new_figure(6, 3.1)
    ax = fig.subplots()
    ax.plot(range(len(on_train)), on_train, "-o", color=COLORS["train"][0], markersize=4, label="training text")
    ax.plot(range(len(on_valid)), on_valid, "--s", color=COLORS["valid"][0], markersize=4, label="validation text")
    ax.set(xlabel="order n: characters counted together", ylabel="loss, nats a character", ylim=(0, None))
    ax.set_xticks(range(len(on_valid)))
    ax.legend()
    return fig
