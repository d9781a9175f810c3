"""Tiny GPT: the package behind the book. Importing it defines names and does nothing else."""

from typing import TYPE_CHECKING, Any

from .data import CharTokenizer, get_batch, load_shakespeare, load_text, split
from .model import GPTConfig, TinyGPT

if TYPE_CHECKING:
    from .own import load_my as load_my

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


def __getattr__(name: str) -> Any:
    if name == "load_my":  # only now: it brings the checker along, which a reader of the models never needs
        from .own import load_my

        return load_my
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
