"""The reader's checker: it takes what the reader wrote and says what holds and what does not, never the answer.

``check(TinyGPT, GPTConfig)`` judges a whole model, ``check.head(Head)`` and its like a part of one. Each runs in a
process of its own and returns a Report.
"""

from collections.abc import Callable
from typing import Any

from .causes import CAUSES, explain
from .exercise import ExerciseReport, exercise
from .parts import block, causal_head, configure_optimizers, drop_in, feed_forward, generate, head, multi_head
from .process import SECONDS, in_own_process
from .report import Finding, Report
from .subject import Sizes, Subject
from .whole import check_whole

PARTS = (causal_head, head, multi_head, feed_forward, block, generate, configure_optimizers, drop_in)
__all__ = ["CAUSES", "PARTS", "ExerciseReport", "Finding", "Report", "check", "exercise", "explain"]
__all__ += [part.__name__ for part in PARTS]


def check(Model: type, Config: Callable[..., Any] | None = None, *, seconds: float = SECONDS) -> Report:
    """Judge a whole GPT: ``Model(config)`` with forward(idx, targets=None) and generate(...).

    ``Config`` takes the seven fields as keywords; if not given, the GPTConfig beside the model is used. Raises
    ValueError if ``Model`` is not a class.
    """
    if not callable(Model):
        raise ValueError(f"check needs the model's class, got {Model!r}: pass TinyGPT, not TinyGPT(config)")
    if not isinstance(Model, type) and hasattr(Model, "forward"):
        raise ValueError("check needs the model's class, got a model: pass TinyGPT, not TinyGPT(config)")
    return in_own_process(getattr(Model, "__name__", "model"), lambda: check_whole(Subject(Model, Config)), seconds)


def _check_here(
    Model: type, Config: Callable[..., Any] | None = None, seed: int = 0, sizes: Sizes | None = None
) -> Report:
    """The same in this process, for tests of the checker itself: no protection, no time limit."""
    return check_whole(Subject(Model, Config, seed, sizes))


for _part in PARTS:  # so that check.head(Head) works after "from tiny_gpt.check import check"
    setattr(check, _part.__name__, _part)
