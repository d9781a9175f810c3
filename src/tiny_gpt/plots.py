"""The book's figures: the one style that they share."""

import matplotlib as mpl

from . import palette

STYLE = {
    "figure.figsize": (6.5, 3.6),
    "figure.constrained_layout.use": True,
    "font.size": 11,
    "text.color": palette.COLORS["ink"][0],
    "axes.labelcolor": palette.COLORS["ink"][0],
    "axes.edgecolor": palette.COLORS["ink"][0],
    "axes.titlesize": "medium",
    "axes.facecolor": "none",  # what is under a figure is the page
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": palette.COLORS["grid"][0],
    "grid.linewidth": 0.6,
    "xtick.color": palette.COLORS["ink"][0],
    "ytick.color": palette.COLORS["ink"][0],
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
