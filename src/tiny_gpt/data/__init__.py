"""What a model learns from: the Shakespeare text, characters as ids, batches, and toy sources of known entropy."""

from .sources import CopySource, MarkovSource, ToySource
from .text import DownloadError, Text, cache_folder, load_shakespeare, load_text
from .tokens import CharTokenizer, get_batch, split

__all__ = [
    "CharTokenizer", "CopySource", "DownloadError", "MarkovSource", "Text", "ToySource", "cache_folder", "get_batch",
    "load_shakespeare", "load_text", "split",
]  # fmt: skip
