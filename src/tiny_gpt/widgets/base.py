"""What the widgets share in Python: how a front end is put together, the still picture, and numbers from a seed.

A widget NAME is a class in NAME.py and its front end in NAME.mjs (and perhaps NAME.css). ``front_end`` puts the
colours, base.mjs and NAME.mjs together into the one module that a notebook or the static site loads.
"""

import html
import io
import json
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import numpy as np
import traitlets
from numpy.typing import NDArray

from ..palette import COLORS, P_MAP, S_MAP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).parent


@cache
def read(name: str) -> str:
    """The text of a file beside this one."""
    return (HERE / name).read_text(encoding="utf-8")


@cache
def _colour_maps(stops: int = 33) -> str:
    """The heat maps' colours as JSON, ``{"weights": [[r, g, b], ...], "scores": ...}``, at even steps from 0 to 1."""
    import matplotlib as mpl

    at = np.linspace(0, 1, stops)
    maps = {"weights": mpl.colormaps[P_MAP], "scores": mpl.colormaps[S_MAP]}
    table = {name: (255 * colours(at)[:, :3]).round().astype(int).tolist() for name, colours in maps.items()}
    return json.dumps(table, separators=(",", ":"))


def front_end(name: str, before: str = "") -> str:
    """The ES module of widget ``name``, complete: it imports nothing. ``before`` is text that it builds upon."""
    return f"const COLOUR_MAPS = {_colour_maps()};\n{read('base.mjs')}\n{before}\n{read(f'{name}.mjs')}"


def style(name: str = "") -> str:
    """The style sheet of widget ``name``. Each colour is the page's ``--tg-NAME`` where there is one (the book)."""
    light, dark = ("".join(f"--w-{key}:var(--tg-{key},{pair[i]});" for key, pair in COLORS.items()) for i in (0, 1))
    themes = '[data-jp-theme-light="false"], html[theme="dark"]'  # JupyterLab's dark themes, and Colab's
    own = read(f"{name}.css") if name and (HERE / f"{name}.css").exists() else ""
    return f".tgw{{{light}}}\n:is({themes}) .tgw{{{dark}}}\n{read('base.css')}{own}"


class Explorer(anywidget.AnyWidget):
    """An interactive figure. A subclass has traits, ``picture()`` and ``describe()``, and NAME.mjs.

    ``_room`` is the height in pixels that it takes on a wide page and on a phone: the still picture keeps that room,
    so that nothing moves when the widget starts.
    """

    _still = traitlets.Unicode().tag(sync=True)  # what the static site shows until the widget starts, or without it
    _room = (400, 600)

    def __init__(self, **traits: Any):
        super().__init__(**traits)
        self._still = self._draw_still()

    def picture(self) -> "Figure | None":
        """The widget's present state as a matplotlib figure, or None if there is nothing to draw."""
        raise NotImplementedError

    def describe(self) -> str:
        """The widget's present state in a sentence or two."""
        raise NotImplementedError

    def _draw_still(self) -> str:
        import matplotlib as mpl

        from ..figures import STYLE

        file = io.StringIO()
        with mpl.rc_context(STYLE), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the page's font draws the text
            picture = self.picture()
            if picture:
                picture.savefig(file, format="svg", metadata={"Date": None})
        svg = file.getvalue()
        svg = svg[svg.find("<svg") :] if svg else ""
        says = html.escape(self.describe())
        wide, narrow = self._room
        return (
            f'<div class="tgw tgw-figure tgw-still" style="--wide:{wide}px;--narrow:{narrow}px" '
            f'data-says="{says}">{svg}'
            f"<p>{says}</p><noscript><p>With JavaScript you can change what this picture shows.</p></noscript></div>"
        )


# What is drawn at random is drawn alike here and in the page, where a reader chooses the seed. Python's and NumPy's
# generators do not exist there, so the widgets' numbers come from one that is a few lines in either language.


def uniforms(seed: int, count: int) -> NDArray[np.float64]:
    """``count`` numbers in (0, 1] that depend on ``seed`` alone: mulberry32, as base.mjs computes it."""
    with np.errstate(over="ignore"):  # 32-bit arithmetic is meant to wrap
        state = np.uint32(seed % 2**32) + np.arange(1, count + 1, dtype=np.uint32) * np.uint32(0x6D2B79F5)
        t = (state ^ (state >> np.uint32(15))) * (state | np.uint32(1))
        t = (t + (t ^ (t >> np.uint32(7))) * (t | np.uint32(61))) ^ t
        numbers: NDArray[np.float64] = ((t ^ (t >> np.uint32(14))).astype(np.float64) + 1) / 2.0**32
    return numbers


def normals(seed: int, count: int) -> NDArray[np.float64]:
    """``count`` standard normal numbers from ``seed``, by the method of Box and Muller (1958)."""
    u = uniforms(seed, count + count % 2).reshape(-1, 2)  # (pairs, 2)
    radius, angle = np.sqrt(-2 * np.log(u[:, 0])), 2 * np.pi * u[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[:count]
