"""MaskExplorer: one attention head on the reader's own text, with its causal mask right or wrong."""

import numpy as np
import traitlets
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .. import figures
from ..numpy_head import softmax
from .base import Explorer, front_end, normals, style

LONGEST, D = 12, 8  # characters shown; the head's width
MASKS = ("right", "sees-next", "excludes-self", "missing", "after-softmax")


class MaskExplorer(Explorer):
    """A causal head of width 8 with random weights, on ``text``, of which the first 12 characters count.

    ``mask``: ``"right"``; ``"sees-next"`` and ``"excludes-self"``, off by one either way; ``"missing"``;
    ``"after-softmax"``, applied to the weights instead of the scores. ``changed`` is the position of a character that
    is replaced by another, or -1: ``moved()`` says how far each output moves then. All traits are live both ways.
    """

    _esm = front_end("mask")
    _css = style("mask")
    _room = (586, 1188)
    text = traitlets.Unicode("To be.").tag(sync=True)
    mask = traitlets.Enum(MASKS, "right").tag(sync=True)
    changed = traitlets.Int(-1, min=-1, max=LONGEST - 1).tag(sync=True)
    seed = traitlets.Int(3, min=0, max=2**31 - 1).tag(sync=True)

    @traitlets.validate("text")
    def _cut(self, proposal: traitlets.Bunch) -> str:
        text: str = proposal["value"]
        return text[:LONGEST]

    def scores(self, changed: int = -1) -> NDArray[np.float64]:
        """S = Q Kᵀ/√D (T, T), with the character at position ``changed`` replaced."""
        return self._head(changed)[0]

    def allowed(self) -> NDArray[np.bool_]:
        """Which keys (columns) the mask lets each query (row) see: (T, T), True or False."""
        T = len(self.text)
        reach = {"sees-next": 1, "excludes-self": -1, "missing": T}.get(self.mask, 0)
        return np.tri(T, k=reach, dtype=bool)

    def weights(self, changed: int = -1) -> NDArray[np.float64]:
        """P (T, T): a row without a key to attend to is NaN."""
        if not self.text:
            return np.zeros((0, 0))
        S, allowed = self.scores(changed), self.allowed()
        if self.mask == "after-softmax":
            return softmax(S) * allowed
        with np.errstate(invalid="ignore"):  # -inf - -inf, in a row without a key
            return softmax(np.where(allowed, S, -np.inf))

    def outputs(self, changed: int = -1) -> NDArray[np.float64]:
        """P V (T, 8)."""
        return self.weights(changed) @ self._head(changed)[1]

    def moved(self) -> NDArray[np.float64]:
        """How far each position's output moves when the character at ``changed`` is replaced: (T,), Euclidean."""
        distances: NDArray[np.float64] = np.linalg.norm(self.outputs(self.changed) - self.outputs(), axis=-1)
        return distances

    def _head(self, changed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        codes = [ord(c) + (t == changed) for t, c in enumerate(self.text)]
        tokens = [normals(self.seed + 7919 * code, D) for code in codes]
        positions = [normals(self.seed + 104729 * (t + 1), D) for t in range(len(codes))]
        x = np.reshape(tokens, (-1, D)) + np.reshape(positions, (-1, D))  # (T, D)
        W = normals(self.seed + 1, 3 * D * D).reshape(3, D, D) / np.sqrt(D)
        q, k, v = (x @ W[i] for i in range(3))  # (T, D) each
        return q @ k.T / np.sqrt(D), v

    def picture(self) -> Figure | None:
        if not self.text:
            return None
        hidden = np.where(self.allowed(), 0, -np.inf)
        return figures.attention_triptych(self.scores(), hidden, self.weights(), labels=list(self.text))

    def describe(self) -> str:
        sums = self.weights().sum(axis=1)
        return (
            f"Scores, masked scores and weights of one head on “{self.text}”, mask: {self.mask.replace('-', ' ')}. "
            f"The rows of P sum to {', '.join('NaN' if np.isnan(x) else f'{x:.2f}' for x in sums)}."
        )
