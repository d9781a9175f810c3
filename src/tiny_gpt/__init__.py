"""Tiny GPT: the package behind the book. Importing it defines names and does nothing else."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data import CharTokenizer, get_batch, load_shakespeare, load_text, split
    from .model import GPTConfig, TinyGPT
    from .own import load_my

__version__ = "0.1.0"
__all__ = [
    "CharTokenizer",
    "GPTConfig",
    "TinyGPT",
    "__version__",
    "get_batch",
    "load_my",
    "load_shakespeare",
    "load_text",
    "split",
]


HOMES = {"GPTConfig": ".model", "TinyGPT": ".model", "load_my": ".own"}  # the other names are data's


def __getattr__(name: str) -> Any:
    """The names above, when they are asked for: they need PyTorch, which takes seconds, and ``--help`` does not."""
    if name in ("data", "model"):
        return importlib.import_module(f".{name}", __name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES.get(name, ".data"), __name__), name)
