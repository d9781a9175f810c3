"""A run's dealings with the terminal: the progress bar, and Ctrl-C."""

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from tqdm import tqdm

from .config import TrainConfig


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
        shape = "{l_bar}{bar}| step {n_fmt}/{total_fmt}{postfix}, {remaining} left"
        self.bar = tqdm(total=config.max_steps, initial=step, disable=not shown, bar_format=shape, mininterval=0.5)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def update(self, seconds: float) -> None:
        """One more step, which took so long."""
        self.steps += 1
        self.seconds += seconds
        self.bar.update(1)

    def show(self, loss: float) -> None:
        if self.shown:
            speed = f", {self.tokens_per_step * self.steps / self.seconds:,.0f} tokens/s" if self.steps else ""
            self.bar.set_postfix_str(f"loss {loss:.3f}{speed}", refresh=False)

    def say(self, text: str) -> None:
        if self.shown:
            self.bar.write(text, file=sys.stderr)
