"""ShapeWalk: a tensor's way through multi-head attention, line by line, and where its elements came from."""

import numpy as np
import traitlets
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .. import figures
from .base import Explorer, front_end, style

RESHAPES = ("right", "view-alone", "all-at-once", "merge-without-transpose")
STEPS = 9


class ShapeWalk(Explorer):
    """From x (B, T, C) through queries, heads and scores back to (B, T, C), one line of code a step, 0 to 8.

    ``reshape`` is ``"right"`` or one of three mistakes: heads split by ``view`` alone; q, k and v and the heads cut
    ``all at once``; heads merged without the transpose. ``elements()`` gives the tensor at the present step. All
    traits are live both ways.
    """

    _esm = front_end("shapes")
    _css = style("shapes")
    _room = (540, 908)
    B = traitlets.Int(1, min=1, max=2).tag(sync=True)
    T = traitlets.Int(4, min=2, max=5).tag(sync=True)
    C = traitlets.Int(6, min=1, max=12).tag(sync=True)
    H = traitlets.Int(3, min=1, max=3).tag(sync=True)
    reshape = traitlets.Enum(RESHAPES, "right").tag(sync=True)
    step = traitlets.Int(0, min=0, max=STEPS - 1).tag(sync=True)

    @traitlets.validate("C", "H")
    def _check_heads(self, proposal: traitlets.Bunch) -> int:
        C, H = ({"C": self.C, "H": self.H} | {proposal["trait"].name: proposal["value"]}).values()
        if C % H:
            raise traitlets.TraitError(f"C must be a multiple of H, got {C} channels for {H} heads")
        value: int = proposal["value"]
        return value

    def elements(self, step: int | None = None) -> NDArray[np.intp]:
        """The tensor at ``step``, or at the present one. An element is the number of where it was in qkv (B, T, 3C).

        x has the numbers that its queries will have. Scores (B, H, T, T) have no place in qkv: theirs is that of the
        first channel of their query. What attention returns keeps the numbers of its queries, as if each position
        attended to itself alone.
        """
        step = self.step if step is None else step
        B, T, C, H = self.B, self.T, self.C, self.H
        D = C // H
        qkv = np.arange(B * T * 3 * C).reshape(B, T, 3 * C)
        q = qkv[:, :, :C]  # (B, T, C)
        split = q.reshape(B, T, H, D)
        heads = split.transpose(0, 2, 1, 3)  # (B, H, T, D)
        if self.reshape == "view-alone":
            split = heads = q.reshape(B, H, T, D)
        if self.reshape == "all-at-once":
            q = split = heads = qkv.reshape(3, B, H, T, D)[0]
        scores = np.broadcast_to(heads[..., :1], (B, H, T, T))
        back = heads.transpose(0, 2, 1, 3)  # (B, T, H, D)
        if self.reshape == "merge-without-transpose":
            back = heads
        merged = back.reshape(B, T, C)
        return [qkv[:, :, :C], qkv, q, split, heads, scores, heads, back, merged][step]

    def origins(self, step: int | None = None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The position and the head that each of ``elements`` was made for."""
        numbers = self.elements(step)
        return numbers // (3 * self.C) % self.T, numbers % self.C // (self.C // self.H)

    def picture(self) -> Figure:
        positions, owners = (a.reshape(-1, *a.shape[-2:]) for a in self.origins())
        return figures.origins({"": (positions, owners)})

    def describe(self) -> str:
        shape = ", ".join(map(str, self.elements().shape))
        return f"Step {self.step} of {STEPS - 1}: a tensor of shape ({shape}). Tint: the head; number: the position."
