"""The book's figures, one function each: it takes data, draws, returns the Figure, and computes nothing.

Only ``palette.COLORS`` is used, so that the build can turn each colour into its CSS variable, with one exception:
numbers written into the cells of a heat map are plain black or white, for the cells keep their colours in the dark
theme and so must the numbers. Figures are made without pyplot: none stays open.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle
from numpy.typing import ArrayLike, NDArray

from .palette import COLORS, P_MAP, S_MAP

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

Array = NDArray[Any]
Series = Sequence[float] | Array  # numbers in a row
Style = dict[str, Any]  # how a line looks: keywords of ``Axes.plot``


class Losses(Protocol):
    """What is drawn of a training run; a ``History`` has it."""

    eval_step: list[int]
    train_loss: list[float]
    valid_loss: list[float]


INK, GRID, MASKED, GROUND = (COLORS[name][0] for name in ("ink", "grid", "masked", "ground"))

# The scales that a page compares. The right one is in the attention branch's colour, the wrong ones are not.
SCALES: dict[str, Style] = {
    "raw": {"color": INK, "linestyle": "--", "marker": "s"},
    "1/√D": {"color": COLORS["attention"][0], "linestyle": "-", "marker": "o"},
    "1/D": {"color": COLORS["baseline"][0], "linestyle": "-.", "marker": "^"},
}

STYLE: "dict[RcKeyType, Any]" = {
    "figure.figsize": (6.5, 3.6),
    "figure.constrained_layout.use": True,
    "font.size": 11,
    "text.color": COLORS["ink"][0],
    "axes.labelcolor": COLORS["ink"][0],
    "axes.edgecolor": COLORS["ink"][0],
    "axes.titlesize": "medium",
    "axes.facecolor": "none",  # what is under a figure is the page
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": COLORS["grid"][0],
    "grid.linewidth": 0.6,
    "xtick.color": COLORS["ink"][0],
    "ytick.color": COLORS["ink"][0],
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # text stays text: it can be searched, copied, and takes the page's font
    "svg.hashsalt": "tiny-gpt",  # the same figure, the same file
}


def use_book_style() -> None:
    """Draw as the book does from here on, and let a notebook show its figures as SVG. For a page's set-up cell."""
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    mpl.rcParams.update(STYLE)
    # without the date, a figure that has not changed is the same file
    set_matplotlib_formats("svg", bbox_inches=None, metadata={"Date": None})


def _figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; 7 is the widest that the text column holds, 6 stays readable on a phone."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))


def _panels(fig: Figure, count: int, columns: int) -> NDArray[np.object_]:
    """Axes for ``count`` panels, row by row; those of the last row that stay empty show nothing."""
    axes: NDArray[np.object_] = fig.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for ax in axes[count:]:
        ax.set_axis_off()
    return axes


# --- Heat maps ------------------------------------------------------------------------------------------------------


def heat_scores(
    ax: Axes, S: ArrayLike, masked: ArrayLike | None = None, limit: float | None = None, write: bool | None = None
) -> ScalarMappable:
    """Scores (T, S) on the diverging map, symmetric about 0; ``-inf`` and ``masked`` cells are hatched grey.

    ``limit`` is the score at the ends of the scale (the largest magnitude shown, if not given). Returns the mappable
    for a colour bar.
    """
    S = np.asarray(S, dtype=float)
    hidden = np.isneginf(S) | (False if masked is None else np.asarray(masked, dtype=bool))
    if limit is None:
        limit = max(np.abs(S[~hidden]).max(initial=0.0), 1e-9)
    return _heat(ax, S, hidden, S_MAP, Normalize(-limit, limit), "{:.1f}", write)


def heat_weights(ax: Axes, P: ArrayLike, masked: ArrayLike | None = None, write: bool | None = None) -> ScalarMappable:
    """Weights or probabilities (T, S) on the sequential map, from 0 to 1; ``masked`` cells are hatched grey.

    NaN is drawn as a crossed-out cell. Numbers are written into the cells where there are few, or as ``write`` says.
    """
    P = np.asarray(P, dtype=float)
    hidden = np.zeros(P.shape, dtype=bool) if masked is None else np.asarray(masked, dtype=bool)
    return _heat(ax, P, hidden, P_MAP, Normalize(0.0, 1.0), "{:.2f}", write)


def _heat(
    ax: Axes, values: Array, hidden: NDArray[np.bool_], cmap: str, norm: Normalize, form: str, write: bool | None
) -> ScalarMappable:
    rows, columns = values.shape
    colours = mpl.colormaps[cmap]
    ax.set(aspect="equal", xlim=(0, columns), ylim=(rows, 0))
    shown = np.ma.masked_where(hidden | np.isnan(values), values)
    mesh = ax.pcolormesh(shown, cmap=cmap, norm=norm, rasterized=values.size > 400)
    few = max(rows, columns) <= 8 if write is None else write
    for i, j in np.ndindex(rows, columns):
        if np.isnan(values[i, j]):
            ax.text(j + 0.5, i + 0.5, "NaN", ha="center", va="center", fontsize=8, color=INK)
        elif hidden[i, j]:
            ax.add_patch(Rectangle((j, i), 1, 1, facecolor="none", edgecolor=MASKED, hatch="////", linewidth=0))
        elif few:
            red, green, blue, _ = colours(norm(values[i, j]))
            colour = "#111111" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
            text = form.format(values[i, j] + 0.0).replace("-", "−")
            ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=8, color=colour)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.grid(False)
    return mesh


def label_cells(ax: Axes, rows: Sequence[object], columns: Sequence[object]) -> None:
    """Write one label beside each row and under each column of a heat map."""
    ax.set_yticks(np.arange(len(rows)) + 0.5, [str(row) for row in rows])
    ax.set_xticks(np.arange(len(columns)) + 0.5, [str(column) for column in columns])


def attention_triptych(S: ArrayLike, M: ArrayLike, P: ArrayLike, labels: Sequence[object] | None = None) -> Figure:
    """Scores, masked scores and weights of one head side by side, the first two on one scale.

    S (T, T) scores, M (T, T) the additive mask of 0 and ``-inf``, P (T, T) weights; ``labels``: one for each position.
    """
    S, M, P = (np.asarray(a, dtype=float) for a in (S, M, P))
    labels = range(len(S)) if labels is None else labels
    masked = np.isneginf(M)
    limit = np.abs(S).max()
    fig = _figure(5.8, 3.1)
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
    fig = _figure(5.2, 2.5 * rows + 0.6)
    axes = _panels(fig, len(panels), columns=2)
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
    fig = _figure(5.8, 2.25 * rows + 0.3)
    axes = _panels(fig, len(panels), columns=3)
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


# --- Scores and scaling ---------------------------------------------------------------------------------------------


def softmax_bars(panels: Mapping[str, Series], ceiling: float = 1.0) -> Figure:
    """A few distributions over the same keys as bars, side by side: ``{title: probabilities}``."""
    fig = _figure(6, 2.4)
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
    fig = _figure(6.2, 3.1)
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
        _powers(ax, widths)
    fig.legend(*left.get_legend_handles_labels(), title=None, loc="outside lower center", ncols=len(measured))
    return fig


def entropy_by_width(
    widths: Sequence[int], panels: Mapping[int, Mapping[str, tuple[Series, Series, Series]]]
) -> Figure:
    """Entropy of the weights by width, one panel a number of keys: ``{n: {scale: (mean, low, high)}}``, in bits."""
    fig = _figure(6.2, 2.8)
    for ax, (n, curves) in zip(fig.subplots(1, len(panels)), panels.items(), strict=True):
        for name, (mean, low, high) in curves.items():
            ax.fill_between(widths, low, high, color=SCALES[name]["color"], alpha=0.18, linewidth=0)
            ax.plot(widths, mean, label=name, markersize=4, **SCALES[name])
        ax.axhline(np.log2(n), color=COLORS["baseline"][0], linestyle=":")
        ax.set(xscale="log", xlabel="width D", title=f"{n} keys", ylim=(0, 1.08 * np.log2(n)))
        _powers(ax, widths)
    fig.axes[0].set_ylabel("entropy (bits)")
    fig.legend(*fig.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SCALES), title=None)
    return fig


def gradient_by_width(
    widths: Sequence[int], panels: Mapping[str, Mapping[str, tuple[Series, Series, Series, Series]]]
) -> Figure:
    """Norms of derivatives by width: ``{title: {scale: (low, median, high, mean)}}``; the mean is a thin line."""
    fig = _figure(6.2, 3.3)
    for ax, (title, curves) in zip(fig.subplots(1, len(panels)), panels.items(), strict=True):
        for name, (low, median, high, mean) in curves.items():
            style = SCALES[name]
            ax.fill_between(widths, low, high, color=style["color"], alpha=0.18, linewidth=0)
            ax.plot(widths, median, label=name, markersize=4, **style)
            ax.plot(widths, mean, color=style["color"], linewidth=0.8)
        ax.set(xscale="log", yscale="log", xlabel="width D", title=title)
        ax.set_ylim(bottom=max(ax.get_ylim()[0], 3e-6))  # below, the band of the raw scores goes on without end
        _powers(ax, widths)
    fig.axes[0].set_ylabel("spectral norm")
    fig.legend(*fig.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SCALES))
    return fig


def spread_dial(spreads: Series, entropy_share: Series, slope: Series, marks: Mapping[str, float]) -> Figure:
    """Entropy (share of its maximum) and the derivative's norm by the scores' standard deviation, with named points."""
    fig = _figure(5.8, 3.5)
    ax = fig.subplots()
    ax.plot(spreads, entropy_share, color=COLORS["attention"][0], label="entropy ÷ log₂ n")
    ax.plot(spreads, slope, color=INK, linestyle="--", label="‖∂p/∂q‖ relative to its largest")
    for name, at in marks.items():
        ax.axvline(at, color=COLORS["baseline"][0], linestyle=":", linewidth=1)
        ax.text(at, 1.03, name, ha="center", va="bottom", fontsize=9, color=INK)
    ax.set(xscale="log", xlabel="standard deviation of the scores", ylabel="share", ylim=(0, 1.02))
    fig.legend(loc="outside lower center", ncols=2)
    return fig


def _powers(ax: Axes, widths: Sequence[int]) -> None:
    """Name the widths themselves on a logarithmic axis, every second one where they are many."""
    step = 1 if len(widths) <= 5 else 2
    ax.set_xticks(list(widths)[::step], [str(w) for w in list(widths)[::step]])
    ax.minorticks_off()


# --- The causal mask ------------------------------------------------------------------------------------------------


def leak_losses(curves: Mapping[str, Series], floor: float) -> Figure:
    """Training loss of a causal and of a leaking model on the same random text: ``{name: losses}``, floor in nats."""
    fig = _figure(6, 2.8)
    ax = fig.subplots()
    styles = {"solid": COLORS["train"][0], "--": INK}
    for (name, losses), (style, colour) in zip(curves.items(), styles.items(), strict=False):
        ax.plot(losses, color=colour, linestyle=style, label=name, linewidth=1.4)
    ax.axhline(floor, color=COLORS["baseline"][0], linestyle=":", label="floor: the entropy of the text")
    ax.set(xlabel="step", ylabel="loss (nats per token)", ylim=(0, None))
    ax.legend()
    return fig


# --- Many heads -----------------------------------------------------------------------------------------------------

TINTS = (0.12, 0.4, 0.68)  # how strong the queries' colour is in head 0, 1, 2


def origins(panels: Mapping[str, tuple[Array, Array]], roles: bool = False) -> Figure:
    """Where the elements of a reshaped tensor come from: ``{title: (positions, heads)}``, arrays of (G, rows, columns).

    One row of G grids a title; a cell's tint is the head that the element belongs to, its number the position. With
    ``roles`` the second array says 0 query, 1 key, 2 value, and a cell has that hue.
    """
    sizes = {title: np.shape(marks[0]) for title, marks in panels.items()}
    G, rows, columns = next(iter(sizes.values()))
    fig = _figure(7, len(panels) * (0.34 * rows + 0.65))
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


# --- The feed-forward network ---------------------------------------------------------------------------------------

ACTIVATIONS: dict[str, Style] = {
    "ReLU": {"color": INK, "linestyle": "--"},
    "GELU": {"color": COLORS["ffn"][0], "linestyle": "-"},
}


def activations(x: Series, curves: Mapping[str, tuple[Series, Series]]) -> Figure:
    """Activation functions (left) and their slopes (right) over the same inputs: ``{name: (values, slopes)}``."""
    fig = _figure(6, 2.9)
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
    fig = _figure(6, 3)
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
    fig = _figure(6, 0.45 * len(counts) + 1.2)
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


# --- The block ------------------------------------------------------------------------------------------------------

NORMS: dict[str, Style] = {
    "pre-norm": {"color": COLORS["stream"][0], "linestyle": "-", "marker": "o"},
    "post-norm": {"color": INK, "linestyle": "--", "marker": "s"},
}


def contributions(attention: Series, ffn: Series, stream: Series) -> Figure:
    """Size of what the L attention and the L feed-forward branches write, and of the stream between them (2L + 1)."""
    fig = _figure(6.5, 3.2)
    ax = fig.subplots()
    ax.plot(range(len(stream)), stream, color=COLORS["stream"][0], label="stream")
    ax.plot(range(1, len(stream), 2), attention, "o", color=COLORS["attention"][0], label="attention writes")
    ax.plot(range(2, len(stream), 2), ffn, "s", color=COLORS["ffn"][0], label="feed-forward writes")
    ax.set(xlabel="branches passed", ylabel="root mean square", ylim=(0, None), xticks=range(0, len(stream), 2))
    fig.legend(loc="outside lower center", ncols=3)
    return fig


def gradient_by_layer(curves: Mapping[str, Series]) -> Figure:
    """Gradient norm at each layer of models that are equally deep: ``{kind: norms}``."""
    fig = _figure(5.8, 3.0)
    ax = fig.subplots()
    for (kind, norms), dash in zip(curves.items(), ("-", "--", ":", "-."), strict=False):
        ax.plot(range(1, len(norms) + 1), norms, dash, color=INK, marker="o", markersize=4, label=kind)
    ax.set(yscale="log", xlabel="layer", ylabel="gradient norm")
    ax.locator_params(axis="x", integer=True)
    fig.legend(loc="outside lower center", ncols=len(curves))
    return fig


def gradient_by_depth(profile: Mapping[str, Series], depths: Sequence[int], relative: Mapping[str, Series]) -> Figure:
    """Left: gradient norm at each layer, ``{kind: (L,)}``. Right: at the last layer by depth, relative to the first."""
    fig = _figure(7, 3.1)
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
    fig = _figure(6.5, 3.3)
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


# --- Training and what came of it -----------------------------------------------------------------------------------


def training_curves(
    history: Losses, reference: Mapping[int, float] | None = None, ladder: Mapping[str, float] | None = None
) -> Figure:
    """Both losses of a ``History`` over its updates, in nats; ``reference`` {step: loss} of another run beside it.

    ``ladder`` {name: loss} are levels to compare with.
    """
    fig = _figure(7, 3.9)
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
    fig = _figure(6.5, 0.42 * len(losses) + 0.8)
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
    fig = _figure(6, 3.1)
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
    fig = _figure(6, 3.1)
    ax = fig.subplots()
    ax.plot(range(len(on_train)), on_train, "-o", color=COLORS["train"][0], markersize=4, label="training text")
    ax.plot(range(len(on_valid)), on_valid, "--s", color=COLORS["valid"][0], markersize=4, label="validation text")
    ax.set(xlabel="order n: characters counted together", ylabel="loss, nats a character", ylim=(0, None))
    ax.set_xticks(range(len(on_valid)))
    ax.legend()
    return fig


def head_scores(scores: ArrayLike, title: str) -> Figure:
    """One number in [0, 1] for each layer (row) and head (column), as a heat map on the scale of weights."""
    fig = _figure(4.6, 3.4)
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
    fig = _figure(6.2, 5.6)
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


def loss_by_layer(losses: Series) -> Figure:
    """Validation loss, nats, of reading the stream off with the unembedding after 0 to L blocks (L + 1)."""
    fig = _figure(6, 3.1)
    ax = fig.subplots()
    ax.plot(range(len(losses)), losses, "-o", color=COLORS["stream"][0])
    for i, loss in enumerate(losses):
        ax.annotate(f"{loss:.2f}", (i, loss), (0, 7), textcoords="offset points", ha="center", fontsize=9, color=INK)
    ax.set(xlabel="blocks passed", ylabel="loss, nats", xticks=range(len(losses)))
    ax.margins(y=0.2)
    return fig


KINDS = {
    "vowels": ("o", 0.6), "consonants": ("s", 0.2), "capitals": ("^", 0.4), "punctuation": ("D", 0.2),
}  # fmt: skip


def characters(points: Mapping[str, Mapping[str, tuple[float, float]]]) -> Figure:
    """Characters in the plane, by kind: ``{kind: {character: (x, y)}}``; each is written at its place."""
    fig = _figure(6.5, 5.2)
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


# --- The whole model ------------------------------------------------------------------------------------------------


def stream_loudness(panels: Mapping[str, Mapping[int, Series]]) -> Figure:
    """Root mean square of the stream over the share of the depth, ``{title: {L: levels (L + 1)}}``, on one axis."""
    fig = _figure(7, 3.2)
    axes = fig.subplots(1, len(panels), sharey=True)
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for style, (layers, levels) in zip((":", "--", "-"), curves.items(), strict=False):
            share = np.linspace(0, 1, len(levels))
            ax.plot(share, levels, style, color=COLORS["stream"][0], label=f"{layers} layers")
        ax.set(title=title, xlabel="share of the depth", xlim=(0, 1), ylim=(0, None))
    axes[0].set_ylabel("root mean square of the stream")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def architecture() -> Figure:
    """The whole model as a diagram: the residual stream, one block with its two branches, both ends."""
    fig = _figure(6.4, 5.6)
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


# --- Generation -----------------------------------------------------------------------------------------------------


def distributions(labels: Sequence[str], panels: Mapping[str, Series]) -> Figure:
    """One row of logits as bars over the same characters, side by side: ``{title: probabilities}``."""
    shown = [{" ": "␣", "\n": "↵"}.get(c, c) for c in labels]
    fig = _figure(6.5, 2.5)
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
    fig = _figure(6, 3.2)
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
    fig = _figure(6.5, 3.0)
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
    fig = _figure(6, 3.1)
    ax = fig.subplots()
    ax.plot(lengths, without, "--s", color=INK, markersize=4, label="without the cache")
    ax.plot(lengths, cached, "-o", color=COLORS["attention"][0], markersize=4, label="with the cache")
    ax.set(xscale="log", yscale="log", xlabel="positions in context", ylabel="milliseconds for one token")
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ax.set_xticks([], minor=True)
    ax.legend()
    return fig


# --- Faster and leaner ----------------------------------------------------------------------------------------------

PATHS: dict[str, Style] = {
    "four lines": {"color": INK, "linestyle": "--", "marker": "s"},
    "fused": {"color": COLORS["attention"][0], "linestyle": "-", "marker": "o"},
}


def attention_cost(lengths: Series, seconds: Mapping[str, Series], nbytes: Mapping[str, Series]) -> Figure:
    """Seconds (left) and peak bytes (right) by length of the text, logarithmic: ``{path: values}``, paths as in PATHS.

    Thin dotted lines through the first point show the powers 1 and 2.
    """
    fig = _figure(6.2, 3.3)
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
        _powers(ax, [int(T) for T in lengths])
    fig.legend(*fig.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def roofline(devices: Mapping[str, tuple[float, float]], marks: Mapping[str, float]) -> Figure:
    """Attainable FLOP/s by intensity: ``{name: (peak, bandwidth)}``, and named intensities in FLOPs a byte."""
    fig = _figure(6, 3.4)
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


# --- Debugging ------------------------------------------------------------------------------------------------------


def loss_gaps(rows: Mapping[str, tuple[Series, Series]], guessing: float) -> Figure:
    """Distances from the floor in nats, a row a model: ``{name: (all at once, honestly)}``, one mark a seed."""
    fig = _figure(6.2, 0.33 * len(rows) + 1.3)
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
    fig = _figure(6.2, 0.3 * len(table) + 1.6)
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
    fig = _figure(5.8, 3.0)
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
    fig = _figure(6.2, 2.3 * -(-len(runs) // 2))
    axes = fig.subplots(-(-len(runs) // 2), 2, sharex=True, sharey=True, squeeze=False)
    for ax, (name, norms) in zip(axes.flat, runs.items(), strict=False):
        ax.plot(norms, color=COLORS["train"][0], linewidth=1.2)
        ax.axhline(clip, color=COLORS["baseline"][0], linestyle=":")
        ax.set(title=name, yscale="log", xlabel="step")
    for ax in axes[:, 0]:
        ax.set_ylabel("gradient norm")
    return fig
