"""LossCurve: a training run, live while ``train`` runs and afterwards as it was, with the model's samples."""

from collections.abc import Mapping
from typing import Any

import traitlets
from matplotlib.figure import Figure

from .. import figures
from ..train import History
from .base import Explorer, front_end, style


class LossCurve(Explorer):
    """Give ``train`` its ``update`` as ``on_eval``: then it follows the run.

    ``reference`` is {name: {update: validation loss}} of other runs, ``ladder`` {name: loss} of levels to compare
    with, losses in nats. ``at`` is the number of the evaluation that the reader looks at, live both ways; it follows
    the run until the reader takes it elsewhere. ``tokens_per_step`` (batch · context) turns seconds into a rate.
    """

    _esm = front_end("losses")
    _css = style("losses")
    _room = (686, 726)
    eval_step = traitlets.List(traitlets.Int()).tag(sync=True)
    train_loss = traitlets.List(traitlets.Float()).tag(sync=True)
    valid_loss = traitlets.List(traitlets.Float()).tag(sync=True)
    lr = traitlets.List(traitlets.Float()).tag(sync=True)
    rate = traitlets.List(traitlets.Float()).tag(sync=True)
    samples: "traitlets.List[list[Any]]" = traitlets.List().tag(sync=True)
    reference = traitlets.Dict().tag(sync=True)
    ladder = traitlets.Dict().tag(sync=True)
    last_step = traitlets.Int(0).tag(sync=True)
    at = traitlets.Int(0, min=0).tag(sync=True)

    def __init__(
        self,
        last_step: int,
        tokens_per_step: int,
        *,
        reference: Mapping[str, Mapping[int, float]] | None = None,
        ladder: Mapping[str, float] | None = None,
    ):
        self.tokens_per_step = tokens_per_step
        pairs = {name: [[int(s), float(v)] for s, v in curve.items()] for name, curve in (reference or {}).items()}
        levels = {name: float(v) for name, v in (ladder or {}).items()}
        super().__init__(last_step=last_step, reference=pairs, ladder=levels)

    def update(self, history: History) -> None:
        """Show the run as it is now."""
        following = self.at >= len(self.eval_step) - 1
        count = len(history.eval_step)
        with self.hold_trait_notifications():
            self.eval_step = list(history.eval_step)
            self.train_loss = list(history.train_loss)
            self.valid_loss = list(history.valid_loss)
            # the learning rate of the last update before each evaluation, or of the first
            self.lr = [history.lr[max(0, s - 1)] if history.lr else 0.0 for s in history.eval_step]
            self.rate = [0.0] + [
                self.tokens_per_step * (history.eval_step[i] - history.eval_step[i - 1])
                / max(1e-9, history.seconds[i] - history.seconds[i - 1])
                for i in range(1, count)
            ]  # fmt: skip
            self.samples = [[step, text] for step, text in history.samples]
            if following:
                self.at = count - 1
        self._history = history
        self._still = self._draw_still()

    def picture(self) -> Figure:
        reference = next(iter(self.reference.values()), None)
        history = getattr(self, "_history", History())
        return figures.training_curves(history, dict(reference) if reference else None, self.ladder)

    def describe(self) -> str:
        if not self.eval_step:
            return "The run has not begun."
        return (
            f"After {self.eval_step[-1]} of {self.last_step} updates: training loss {self.train_loss[-1]:.3f}, "
            f"validation loss {self.valid_loss[-1]:.3f} nats."
        )
