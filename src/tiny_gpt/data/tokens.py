"""Characters as ids, the split into training and validation text, and batches of windows.

Shapes: N tokens in a text, B batch, T time (positions), V vocabulary.
"""

import json
import unicodedata
from collections.abc import Iterable

import torch
from jaxtyping import Int64, Integer
from torch import Tensor


class CharTokenizer:
    """One id for each character: its position in the sorted list of the characters that occur.

    Made from a whole text or from a vocabulary string: only which characters occur in it counts, so
    ``CharTokenizer(tokenizer.vocab) == tokenizer``. Raises ValueError if there is no character at all.
    """

    def __init__(self, text: str):
        self.vocab = "".join(sorted(set(text)))  # V characters, the id of each is its index
        if not self.vocab:
            raise ValueError("a tokenizer needs at least one character, got an empty text")
        self._ids = {character: i for i, character in enumerate(self.vocab)}

    @property
    def vocab_size(self) -> int:
        """V: how many different characters there are."""
        return len(self.vocab)

    def encode(self, text: str) -> Int64[Tensor, "N"]:
        """The ids (N,), int64, of a text of N characters. Raises ValueError for characters outside ``vocab``."""
        try:
            return torch.tensor([self._ids[character] for character in text], dtype=torch.int64)  # (N,)
        except KeyError:
            unknown = _listed(repr(character) for character in sorted(set(text) - set(self.vocab)))
            raise ValueError(
                f"{unknown} not among the {self.vocab_size} characters of this vocabulary: remove or replace "
                "them, or make a tokenizer from a text that has them. The vocabulary is "
                f"{_listed(self.vocab, 100, '')!r}"
            ) from None

    def in_known_form(self, text: str) -> str:
        """``text`` in the Unicode form whose characters are all in ``vocab``, if there is one; else as it is.

        An é is one character or two, e and an accent, as a keyboard or a file has it; a line end is \\n or \\r\\n.
        """
        plain = text.replace("\r\n", "\n")
        forms = [text, plain, *(unicodedata.normalize(form, plain) for form in ("NFC", "NFD"))]
        return next((form for form in forms if set(form) <= self._ids.keys()), text)

    def decode(self, ids: Integer[Tensor, "N"] | Iterable[int]) -> str:
        """The text of N characters that ids (N,) stand for. Raises ValueError for an id outside 0 to V - 1."""
        if isinstance(ids, Tensor):
            if ids.dim() != 1:
                raise ValueError(
                    f"decode takes the ids (N,) of one text, got shape {tuple(ids.shape)}: take a row, ids[0]"
                )
            ids = ids.tolist()
        characters = []
        for i in ids:
            if not 0 <= i < self.vocab_size:
                raise ValueError(f"id {i} is outside 0 to {self.vocab_size - 1}, the ids of this vocabulary")
            characters.append(self.vocab[i])
        return "".join(characters)

    def to_json(self) -> str:
        """The tokenizer as a JSON string, for ``from_json``."""
        return json.dumps(self.vocab)

    @classmethod
    def from_json(cls, text: str) -> "CharTokenizer":
        """The tokenizer that ``to_json`` described. Raises ValueError if ``text`` is not a JSON string."""
        vocab = json.loads(text)
        if not isinstance(vocab, str):
            raise ValueError(f"a tokenizer is saved as one JSON string of characters, got {type(vocab).__name__}")
        return cls(vocab)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharTokenizer) and self.vocab == other.vocab

    def __hash__(self) -> int:
        return hash(self.vocab)

    def __repr__(self) -> str:
        return f"CharTokenizer({self.vocab!r})"


def _listed(things: Iterable[str], most: int = 10, between: str = ", ") -> str:
    """The first ``most`` of some things, and how many more there are."""
    things = list(things)
    more = f" and {len(things) - most} more" if len(things) > most else ""
    return between.join(things[:most]) + more


def split(
    ids: Integer[Tensor, "N"], fraction: float = 0.9
) -> tuple[Integer[Tensor, "N_train"], Integer[Tensor, "N_valid"]]:
    """The first ``fraction`` of the tokens (N,) for training, the rest for validation, in order.

    Raises ValueError if ``fraction`` is not between 0 and 1 or leaves one part empty.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction}")
    cut = int(fraction * len(ids))
    if not 0 < cut < len(ids):
        raise ValueError(f"{len(ids)} tokens are too few to be split at {fraction}: one part would be empty")
    return ids[:cut], ids[cut:]


def get_batch(
    ids: Integer[Tensor, "N"],
    batch_size: int,
    block_size: int,
    *,
    generator: torch.Generator,
    device: str | torch.device | None = None,
) -> tuple[Int64[Tensor, "B T"], Int64[Tensor, "B T"]]:
    """B windows of T tokens from random places of the text (N,): inputs x (B, T) and targets y (B, T).

    y is x one token later: ``y[b, t]`` is what comes after ``x[b, t]``. Every place is equally likely, drawn with
    ``generator``. The windows are cut where ``ids`` lives, in one index operation, and then moved to ``device``.
    Raises ValueError if a size is not positive or the text is shorter than one window, T + 1 tokens.
    """
    if batch_size < 1 or block_size < 1:
        raise ValueError(f"batch_size and block_size must be 1 or more, got {batch_size} and {block_size}")
    places = len(ids) - block_size  # a window is T inputs and one more target
    if places < 1:
        raise ValueError(
            f"the text has {len(ids)} tokens, and a window of block_size={block_size} needs {block_size + 1}: "
            "take a longer text or a smaller block_size"
        )
    starts = torch.randint(places, (batch_size, 1), generator=generator, device=generator.device)  # (B, 1)
    offsets = torch.arange(block_size + 1, device=ids.device)  # (T + 1,)
    windows = ids[starts.to(ids.device) + offsets].long().to(device or ids.device)  # (B, T + 1)
    return windows[:, :-1], windows[:, 1:]  # (B, T) each, two views of one tensor
