"""A run's dealings with the terminal: the progress bar, and Ctrl-C."""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import torch
from tqdm import tqdm

from .config import TrainConfig

LONG = 300.0  # seconds from which on a run's length is said beforehand


def _duration(seconds: float) -> str:
    """A time in the unit that suits it: "7 minutes", "3 hours"."""
    unit, size = ("minutes", 60) if seconds < 5400 else ("hours", 3600) if seconds < 2 * 86400 else ("days", 86400)
    return f"{seconds / size:.0f} {unit}"


class Interrupts:
    """``with`` it, Ctrl-C only sets ``asked``, so that no update is cut in two; a second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Callable[[int, FrameType | None], object] | int | None = None

    def __enter__(self) -> "Interrupts":
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) not in (None, signal.SIG_IGN):
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


class Bar:
    """The progress bar: steps, loss, tokens a second, time left."""

    def __init__(self, config: TrainConfig, step: int, block_size: int, shown: bool):
        self.shown = shown
        self.tokens_per_step = config.batch_size * config.accumulate * block_size
        self.steps, self.seconds = 0, 0.0  # since this call began, evaluations not counted
        self.config = config
        self._losses = ""  # what the bar says of the latest update
        self._shown_at = 0.0
        self.estimate: float | None = None  # seconds that the rest will take, once a batch has been timed
        shape = "{l_bar}{bar}| step {n_fmt}/{total_fmt}{postfix}"  # until something is known of the time left
        self.bar = tqdm(total=config.max_steps, initial=step, disable=not shown, bar_format=shape, mininterval=0.5)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def update(self, seconds: float) -> None:
        """One more step, which took so long."""
        self.steps += 1
        self.seconds += seconds
        self.bar.bar_format = "{l_bar}{bar}| step {n_fmt}/{total_fmt}{postfix}, {remaining} left"
        self.bar.update(1)

    def foresee(self, batch: float, device: torch.device) -> None:
        """Say how long the rest takes, from the seconds that one batch without gradients took."""
        config, left = self.config, self.config.max_steps - int(self.bar.n)
        evaluations = 1 + math.ceil(left / config.eval_every)
        # a backward pass costs about two forward passes
        self.estimate = batch * (3 * config.accumulate * left + 2 * config.eval_batches * evaluations)
        if self.estimate < LONG:
            return
        suits = ""
        if device.type == "cpu":
            suits = ". For a CPU there are --preset cpu (a minute or two) and cpu-long (an hour or two)"
        self.say(f"This run will take about {_duration(self.estimate)} on this {device.type}{suits}")

    def show_evaluation(self, batch: int, batches: int) -> None:
        """How far an evaluation has come."""
        if self.shown:
            done = batch == batches
            self.bar.set_postfix_str(self._losses if done else f"evaluating {batch}/{batches}", refresh=False)
            if time.monotonic() - self._shown_at > self.bar.mininterval or batch == 1:
                self.bar.refresh()
                self._shown_at = time.monotonic()

    def show(self, loss: float) -> None:
        if self.shown:
            speed = f", {self.tokens_per_step * self.steps / self.seconds:,.0f} tokens/s" if self.steps else ""
            self._losses = f"loss {loss:.3f}{speed}"
            self.bar.set_postfix_str(self._losses, refresh=False)

    def say(self, text: str) -> None:
        if self.shown:
            self.bar.write(text, file=sys.stderr)
