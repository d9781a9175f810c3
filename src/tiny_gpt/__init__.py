"""Tiny GPT: the package behind the book. Importing it defines names and does nothing else."""

from .model import GPTConfig, TinyGPT

__version__ = "0.1.0"
__all__ = ["GPTConfig", "TinyGPT", "__version__"]
