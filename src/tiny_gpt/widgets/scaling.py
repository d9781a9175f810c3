"""ScalingExplorer: what one query's weights become as the head widens, raw and scaled."""

from collections.abc import Callable, Sequence

import numpy as np
import traitlets
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .. import figures
from ..numpy_head import entropy, softmax
from .base import Explorer, front_end, normals, style

WIDEST, MOST_KEYS = 1024, 64
SCALES: dict[str, Callable[[int], float]] = {
    "none": lambda d: 1.0,
    "root": lambda d: d**-0.5,
    "width": lambda d: 1 / d,
    "model": lambda d: (8 * d) ** -0.5,
}
NAMES = {"none": "raw", "root": "1/√D", "width": "1/D", "model": "1/√C"}


class ScalingExplorer(Explorer):
    """One query and ``n_keys`` keys of ``d_k`` standard normal numbers each, drawn from ``seed``.

    The raw weights stand beside those of ``scaling``: ``"root"`` (1/√D), ``"width"`` (1/D), ``"model"`` (1/√C for a
    model of 8 heads) or ``"none"``. All traits are live both ways; ``probabilities()``, ``bits()`` and ``jacobian()``
    give what is shown.
    """

    _esm = front_end("scaling")
    _css = style("scaling")
    _room = (612, 956)
    d_k = traitlets.Int(64, min=1, max=WIDEST).tag(sync=True)
    n_keys = traitlets.Int(6, min=2, max=MOST_KEYS).tag(sync=True)
    scaling = traitlets.Enum(list(SCALES), "root").tag(sync=True)
    seed = traitlets.Int(11, min=0, max=2**31 - 1).tag(sync=True)

    def scores(self) -> NDArray[np.float64]:
        """The raw scores (n_keys,): the query's dot products with the keys."""
        drawn = normals(self.seed, (1 + MOST_KEYS) * WIDEST).reshape(1 + MOST_KEYS, WIDEST)
        return drawn[1 : 1 + self.n_keys, : self.d_k] @ drawn[0, : self.d_k]

    def probabilities(self, scaling: str | None = None) -> NDArray[np.float64]:
        """The weights (n_keys,) under ``scaling``, or under the trait."""
        return softmax(SCALES[scaling or self.scaling](self.d_k) * self.scores())

    def bits(self, scaling: str | None = None) -> float:
        """The entropy of those weights in bits, at most log2 of ``n_keys``."""
        return float(entropy(self.probabilities(scaling)))

    def jacobian(self, scaling: str | None = None) -> float:
        """Frobenius norm of ∂p/∂z = diag(p) - p pᵀ: 0 means that no gradient comes back through the softmax."""
        p = self.probabilities(scaling)
        return float(np.linalg.norm(np.diag(p) - np.outer(p, p)))

    def picture(self) -> Figure:
        shown: Sequence[str] = ["none", self.scaling]
        return figures.softmax_bars({f"{NAMES[s]}: {self.bits(s):.2f} bits": self.probabilities(s) for s in shown})

    def describe(self) -> str:
        return (
            f"Width {self.d_k}, {self.n_keys} keys: the raw weights have {self.bits('none'):.2f} bits of at most "
            f"{np.log2(self.n_keys):.2f}, those times {NAMES[self.scaling]} {self.bits():.2f}."
        )
