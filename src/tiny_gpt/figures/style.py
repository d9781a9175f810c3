"""What all figures share: the book's style, sizes, the line styles that recur, and heat maps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from ..palette import COLORS, P_MAP, S_MAP

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

Array = NDArray[Any]
Series = Sequence[float] | Array  # numbers in a row
Style = dict[str, Any]  # how a line looks: keywords of ``Axes.plot``


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


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; 7 is the widest that the text column holds, 6 stays readable on a phone."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))


def panel_axes(fig: Figure, count: int, columns: int) -> NDArray[np.object_]:
    """Axes for ``count`` panels, row by row; those of the last row that stay empty show nothing."""
    axes: NDArray[np.object_] = fig.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for ax in axes[count:]:
        ax.set_axis_off()
    return axes


def name_widths(ax: Axes, widths: Sequence[int]) -> None:
    """Name the widths themselves on a logarithmic axis, every second one where they are many."""
    step = 1 if len(widths) <= 5 else 2
    ax.set_xticks(list(widths)[::step], [str(w) for w in list(widths)[::step]])
    ax.minorticks_off()


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
    return heat_map(ax, S, hidden, S_MAP, Normalize(-limit, limit), "{:.1f}", write)


def heat_weights(ax: Axes, P: ArrayLike, masked: ArrayLike | None = None, write: bool | None = None) -> ScalarMappable:
    """Weights or probabilities (T, S) on the sequential map, from 0 to 1; ``masked`` cells are hatched grey.

    NaN is drawn as a crossed-out cell. Numbers are written into the cells where there are few, or as ``write`` says.
    """
    P = np.asarray(P, dtype=float)
    hidden = np.zeros(P.shape, dtype=bool) if masked is None else np.asarray(masked, dtype=bool)
    return heat_map(ax, P, hidden, P_MAP, Normalize(0.0, 1.0), "{:.2f}", write)


def heat_map(
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
