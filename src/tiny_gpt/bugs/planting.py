"""How a mistake is planted: exact edits of a right source, read from a text file, run as a module of its own."""

import difflib
import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType

from .. import model
from ..model import GPTConfig, TinyGPT

Edit = tuple[str, str]  # (the lines that stand in the source exactly once, what they become)

# Two preparations change how the model computes and not what. Attention spelled out in four lines, so that each can
# be changed; and generation without a cache, so that it runs the same code as forward, mistake included.
OPEN: Edit = ("    fused = True\n", "    fused = False\n")
CACHED_STEP = """\
                if idx.size(1) <= longest:
                    logits = self._logits(idx[:, caches[0].length :], caches)  # (B, 1, V) after the first step
                else:
                    logits = self._logits(idx[:, -longest:])  # (B, block_size, V)
"""
UNCACHED: Edit = (CACHED_STEP, "                logits = self._logits(idx[:, -longest:])  # (B, T, V)\n")
PREPARATIONS = {"open-attention": OPEN, "uncached": UNCACHED}


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


ENTRY = re.compile(r"^=== (?P<id>\S+) (?P<name>\S+)(?: after (?P<on>.+))?\n(?P<body>(?:(?!=== ).*\n)*)", re.M)
EDIT = re.compile(r"^<<<<<<<\n((?:.*\n)*?)=======\n((?:.*\n)*?)>>>>>>>\n", re.M)


def read(path: Path) -> Iterator[tuple[str, Planting]]:
    """The ids and plantings in a text file; how it is written stands at its top.

    Raises ValueError if an entry has no edits, if a line of it is no part of an edit, or if a preparation is unknown.
    """
    text = path.read_text(encoding="utf-8")
    for line in re.findall("^=== .*\n", text, re.M):
        if not ENTRY.match(line):
            raise ValueError(
                f"{path.name}: an entry begins with '=== id name' or '=== id name after preparations'; got {line!r}"
            )
    for entry in ENTRY.finditer(text):
        where = f"{path.name}: the entry {entry['id']} {entry['name']}"
        edits = tuple((old, new) for old, new in EDIT.findall(entry["body"]))
        words = EDIT.sub("", entry["body"]).strip()
        if not edits or "\n" in words or re.search("<<<<|====|>>>>", words):
            raise ValueError(f"{where} needs one sentence at most, then edits <<<<<<<, =======, >>>>>>>; got {words!r}")
        names = entry["on"].split(", ") if entry["on"] else []
        if unknown := set(names) - set(PREPARATIONS):
            raise ValueError(f"{where} wants {', '.join(unknown)}; there is {', '.join(PREPARATIONS)}")
        yield entry["id"], Planting(entry["name"], words, edits, tuple(PREPARATIONS[name] for name in names))


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
