"""Tiny GPT: the package behind the book. Importing it defines names and does nothing else."""

from .data import CharTokenizer, get_batch, load_shakespeare, load_text, split
from .model import GPTConfig, TinyGPT

__version__ = "0.1.0"
__all__ = [
    "CharTokenizer",
    "GPTConfig",
    "TinyGPT",
    "__version__",
    "get_batch",
    "load_shakespeare",
    "load_text",
    "split",
]
