"""How a bug is planted: exact edits of model.py's own source, run as a module of its own, beside the right one."""

import difflib
import linecache
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType

from .. import model
from ..model import GPTConfig, TinyGPT

Edit = tuple[str, str]  # (the text that stands in the source exactly once, what it becomes)

# Two preparations change how the model computes and not what. Attention spelled out in four lines, so that each can
# be changed; and generation without a cache, so that it runs the same code as forward, mistake included.
OPEN: Edit = ("    fused = True\n", "    fused = False\n")
CACHED_STEP = """\
                if idx.size(1) <= longest:
                    logits = self._logits(idx[:, caches[0].length :], caches)  # (B, 1, V) after the first step
                else:
                    logits = self._logits(idx[:, -longest:])  # (B, block_size, V)
"""
STEP = "                logits = self._logits(idx[:, -longest:])  # (B, T, V)\n"
UNCACHED: Edit = (CACHED_STEP, STEP)


@dataclass(frozen=True)
class Planting:
    """One way to plant a bug: ``edits`` of the right source, after the preparations ``on``."""

    name: str
    description: str  # one sentence: what the learner wrote
    edits: tuple[Edit, ...]
    on: tuple[Edit, ...] = ()

    def build(self) -> tuple[type[TinyGPT], type[GPTConfig]]:
        """The model class and the config class with this bug in them."""
        return build(self)

    def diff(self) -> str:
        """What is wrong, as a unified diff against the prepared right source; line numbers and file names left out."""
        right, wrong = edited(source(), self.on).splitlines(), combined(self).splitlines()
        lines = list(difflib.unified_diff(right, wrong, lineterm="", n=1))[2:]
        return "\n".join("…" if line.startswith("@@") else line for line in lines).removeprefix("…\n")


def planting(name: str, description: str, *edits: Edit, on: tuple[Edit, ...] = ()) -> Planting:
    """A Planting, its edits as arguments."""
    return Planting(name, description, edits, on)


def swap(line: str, old: str, new: str) -> Edit:
    """The edit of ``line`` in which ``old``, which stands there once, becomes ``new``."""
    return line, edited(line, ((old, new),))


@cache
def source() -> str:
    """The right model's source."""
    return Path(model.__file__).read_text(encoding="utf-8")


def edited(text: str, edits: Iterable[Edit]) -> str:
    """``text`` with every edit made, in order. Raises ValueError if an old text does not stand there exactly once."""
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"an edit expects to find this once, and finds it {text.count(old)} times:\n{old}")
        text = text.replace(old, new)
    return text


def combined(*plantings: Planting) -> str:
    """The source with all of these bugs in it. Raises ValueError if one of them rewrites what another one needs."""
    preparations = dict.fromkeys(chain.from_iterable(p.on for p in plantings))
    return edited(source(), (*preparations, *chain.from_iterable(p.edits for p in plantings)))


def build(*plantings: Planting) -> tuple[type[TinyGPT], type[GPTConfig]]:
    """The model class and the config class with all of these bugs; without any, a fresh copy of the right ones."""
    return run(combined(*plantings), "_".join(p.name for p in plantings))


def run(text: str, name: str = "") -> tuple[type[TinyGPT], type[GPTConfig]]:
    """Run ``text`` as a module of its own and return its TinyGPT and GPTConfig."""
    module = ModuleType(f"tiny_gpt_{name.replace('-', '_')}")
    module.__file__ = f"<{name or 'tiny_gpt'}>"
    linecache.cache[module.__file__] = (len(text), None, text.splitlines(True), module.__file__)  # for tracebacks
    sys.modules[module.__name__] = module  # where a dataclass looks for the module that it is defined in
    try:
        exec(compile(text, module.__file__, "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module.TinyGPT, module.GPTConfig


@dataclass(frozen=True)
class Bug:
    """A mistake that people make in a GPT, and ways to plant it."""

    id: str
    family: str
    title: str
    symptom: str  # as a learner meets it, before knowing the cause
    section: str  # where the book explains it: "page#label"
    common: str  # "very common", "common", "seen" or "rare"
    reports: tuple[str, ...]  # public threads in which it was reported
    plantings: tuple[Planting, ...]
