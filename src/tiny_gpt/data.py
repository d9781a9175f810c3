"""What a model learns from: the Shakespeare text, characters as ids, batches, and toy sources of known entropy.

Shapes: N tokens in a text, B batch, T time (positions), V vocabulary. Entropies and losses are in nats.
"""

import contextlib
import hashlib
import http.client
import json
import math
import os
import sys
import time
import urllib.request
import warnings
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int64, Integer
from torch import Tensor

# --- Characters as ids ----------------------------------------------------------------------------------------


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
            unknown = "".join(sorted(set(text) - set(self.vocab)))
            shown = ", ".join(repr(character) for character in unknown[:10])
            more = f" and {len(unknown) - 10} more" if len(unknown) > 10 else ""
            raise ValueError(
                f"{shown}{more} not among the {self.vocab_size} characters of this vocabulary: remove or replace "
                f"them, or make a tokenizer from a text that has them. The vocabulary is {self.vocab!r}"
            ) from None

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


# --- The text ---------------------------------------------------------------------------------------------------

SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SHAKESPEARE_BYTES = 1_115_394
MIRRORS = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "https://cdn.jsdelivr.net/gh/karpathy/char-rnn@master/data/tinyshakespeare/input.txt",
)
TIMEOUT = 15.0  # seconds that a mirror may stay silent
DEADLINE = 120.0  # seconds that a mirror may take altogether


class DownloadError(OSError):
    """No mirror could be reached, or none sent the whole file."""


@dataclass(frozen=True)
class Text:
    """A text to train on, and in plain words which one it is."""

    text: str
    name: str  # what it is: "Tiny Shakespeare", a file's name, "Python's language reference"
    is_shakespeare: bool  # whether it is the very text that published losses are measured on
    source: str  # where it came from, a phrase for a sentence; no path of a machine in it
    problem: str = ""  # why it is not Shakespeare, if that was wanted: what each mirror did


def load_shakespeare(path: str | os.PathLike[str] | None = None) -> str:
    """Tiny Shakespeare, 1,115,394 characters: from ``path``, else TINY_GPT_DATA, else the cache, else a download.

    Whatever it comes from, the bytes must have the known SHA-256, so that losses can be compared: ValueError with
    both hashes if they have not, FileNotFoundError if a named file is missing, DownloadError if it has to be
    fetched and no mirror answers. Nothing but the right bytes is ever put into the cache.
    """
    return _find_shakespeare(path)[0]


def load_text(path: str | os.PathLike[str] | None = None) -> Text:
    """A text to train on: any UTF-8 file at ``path``; without one Shakespeare, as ``load_shakespeare`` finds it.

    If Shakespeare would have to be downloaded and no mirror can be reached, the text is one that every Python
    carries, its language reference, and ``name``, ``source`` and ``problem`` say so. Wrong bytes are an error here too.
    """
    if path is not None:
        data = _read(Path(path))
        if hashlib.sha256(data).hexdigest() == SHAKESPEARE_SHA256:
            return Text(data.decode(), "Tiny Shakespeare", True, "the file that you named")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text ({error}): save it as UTF-8") from None
        if not text:
            raise ValueError(f"{path} is empty: there is nothing to learn from")
        return Text(text, Path(path).name, False, "the file that you named")
    try:
        text, source = _find_shakespeare(None)
    except DownloadError as error:
        source = "the standard library, because Shakespeare could not be downloaded"
        return Text(_language_reference(), "Python's language reference", False, source, str(error))
    return Text(text, "Tiny Shakespeare", True, source)


def cache_folder() -> Path:
    """Where downloads are kept: ``tiny-gpt`` in XDG_CACHE_HOME if that is set, else in the platform's own place."""
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # a relative one is to be ignored, says the XDG specification
        base = Path(xdg)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path.home() / ".cache"
    return base / "tiny-gpt"


def _find_shakespeare(path: str | os.PathLike[str] | None) -> tuple[str, str]:
    """The text, and in words where it was found."""
    if path is not None:
        return _verified(_read(Path(path)), f"{path}", "name the right file"), "the file that you named"
    if named := os.environ.get("TINY_GPT_DATA"):
        what_to_do = "let TINY_GPT_DATA name the right file, or unset it"
        return _verified(_read(Path(named)), f"TINY_GPT_DATA={named}", what_to_do), "the file that TINY_GPT_DATA names"
    cached = cache_folder() / "tinyshakespeare.txt"
    if cached.exists():
        return _verified(_read(cached), f"the cached file {cached}", "delete it and try again"), "the cache"
    data, url = _download()
    _write_beside_and_rename(cached, data)
    return data.decode(), f"a download from {url.split('/')[2]}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{path} is a folder: name the text file in it") from None


def _wrong_bytes(data: bytes) -> str:
    """What is wrong with bytes that should be Shakespeare; empty if nothing is."""
    found = hashlib.sha256(data).hexdigest()
    if found == SHAKESPEARE_SHA256:
        return ""
    return (
        f"is not Tiny Shakespeare: expected {SHAKESPEARE_BYTES} bytes with sha256 {SHAKESPEARE_SHA256}, "
        f"found {len(data)} bytes with sha256 {found}"
    )


def _verified(data: bytes, what: str, what_to_do: str) -> str:
    if wrong := _wrong_bytes(data):
        raise ValueError(f"{what} {wrong}. To do: {what_to_do}")
    return data.decode()


def _download() -> tuple[bytes, str]:
    """The right bytes, and the mirror that sent them. Mirrors are tried in order."""
    silent, wrong = [], []
    for url in MIRRORS:
        host = url.split("/")[2]
        try:
            data = _fetch(url)
        except (OSError, http.client.HTTPException) as error:
            silent.append(f"{host}: {error or type(error).__name__}")
            continue
        if reason := _wrong_bytes(data):
            wrong.append(f"what {host} sent {reason}")
            continue
        return data, url
    what_to_do = "Try again, or fetch the file yourself and let TINY_GPT_DATA name it"
    if wrong:  # somebody answered with other bytes: that is not the same as being offline
        raise ValueError(f"{'; '.join(wrong + silent)}. Nothing was kept. {what_to_do}")
    raise DownloadError(f"no mirror sent Tiny Shakespeare: {'; '.join(silent)}. {what_to_do}")


def _fetch(url: str) -> bytes:
    """The body at ``url``, at most a byte more than Shakespeare has. OSError if it is late or stops half-way."""
    end = time.monotonic() + DEADLINE
    data = bytearray()
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        promised = response.headers.get("Content-Length")
        while chunk := response.read1(1 << 16):
            data += chunk
            if len(data) > SHAKESPEARE_BYTES:
                return bytes(data)
            if time.monotonic() > end:
                raise TimeoutError(f"only {len(data)} bytes came in {DEADLINE:.0f} s")
    if promised is not None and len(data) < int(promised):
        raise ConnectionError(f"the connection ended after {len(data)} of {promised} bytes")
    return bytes(data)


def _write_beside_and_rename(path: Path, data: bytes) -> None:
    """Put a file into the cache so that it is never there half; a cache that cannot be written is only a warning."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where a folder cannot be made, nothing can be removed either
            beside.unlink()
        warnings.warn(f"the text could not be kept for the next time: {error}", stacklevel=2)


def _language_reference() -> str:
    """The language reference that ``help()`` shows, its topics in sorted order."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


# --- Splits and batches -----------------------------------------------------------------------------------------


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


# --- Sources whose entropy is known -----------------------------------------------------------------------------


class ToySource(ABC):
    """Text whose least possible loss is known exactly: no model that sees only the past can do better on average.

    ``floors(T)`` is that least loss for each of the T targets of a window that ``batch`` makes, in nats;
    ``floor(T)`` is their mean, what a model's own loss is to be compared with.
    """

    vocab_size: int  # V

    @property
    @abstractmethod
    def entropy_rate(self) -> float:
        """Nats a token, in the long run: exact, not estimated."""

    @abstractmethod
    def windows(self, batch_size: int, length: int, *, generator: torch.Generator) -> Int64[Tensor, "B length"]:
        """B independent stretches of text (B, length)."""

    @abstractmethod
    def floors(self, block_size: int) -> Float[Tensor, "T"]:
        """The least expected loss at each target (T,) of a window of T tokens, in nats, float64."""

    @abstractmethod
    def loss(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The loss (B, T), nats, of the perfect model on windows from ``batch``: -ln p(y | all of the past)."""

    def sample(self, n: int, *, generator: torch.Generator) -> Int64[Tensor, "n"]:
        """A text of n tokens, ids (n,)."""
        return self.windows(1, n, generator=generator)[0]

    def batch(
        self, batch_size: int, block_size: int, *, generator: torch.Generator
    ) -> tuple[Int64[Tensor, "B T"], Int64[Tensor, "B T"]]:
        """B fresh windows: inputs x (B, T) and targets y (B, T). Nothing comes twice, so nothing can be memorised."""
        windows = self.windows(batch_size, block_size + 1, generator=generator)  # (B, T + 1)
        return windows[:, :-1], windows[:, 1:]  # (B, T) each

    def floor(self, block_size: int) -> float:
        """The least expected mean loss over the T targets of a window, in nats."""
        return float(self.floors(block_size).mean())


class MarkovSource(ToySource):
    """A chain in which the next symbol depends on the present one only.

    ``transition`` (V, V): row i is the distribution of what follows symbol i. Text starts in the stationary
    distribution, so every stretch of it looks alike. Raises ValueError if a row is not a distribution, or if the
    chain falls apart into several that never meet (then its entropy rate depends on where it starts).
    """

    def __init__(self, transition: Float[Tensor, "V V"] | list[list[float]]):
        P = torch.as_tensor(transition, dtype=torch.float64)  # (V, V)
        if P.dim() != 2 or P.size(0) != P.size(1):
            raise ValueError(f"transition must be a square matrix (V, V), got {tuple(P.shape)}")
        for i, row in enumerate(P):
            if not (row >= 0).all() or abs(float(row.sum()) - 1) > 1e-6:
                raise ValueError(f"row {i} of transition must be 0 or more and sum to 1, got {row.tolist()}")
        self.transition = P / P.sum(dim=1, keepdim=True)  # (V, V)
        self.vocab_size = V = P.size(0)
        # The stationary distribution solves pi P = pi with sum 1; it is unique if 1 is a simple eigenvalue of P.
        balance = self.transition.T - torch.eye(V, dtype=torch.float64)  # (V, V), rank V - 1 if unique
        if int(torch.linalg.matrix_rank(balance, atol=1e-9)) < V - 1:
            raise ValueError("the chain has several stationary distributions: let its symbols be reachable")
        system = torch.cat([balance, torch.ones(1, V, dtype=torch.float64)])  # (V + 1, V)
        right = torch.zeros(V + 1, 1, dtype=torch.float64)  # (V + 1, 1)
        right[-1] = 1
        self.stationary = torch.linalg.lstsq(system, right).solution[:, 0].clamp_min(0)  # (V,)
        rows = torch.cat([self.transition, self.stationary[None]])  # (V + 1, V): the last row starts a text
        cumulative = rows.cumsum(dim=1)  # (V + 1, V)
        self._cumulative = (cumulative / cumulative[:, -1:]).tolist()

    @property
    def entropy_rate(self) -> float:
        """The rows' entropies, weighted by how often each symbol occurs: nats a token."""
        row_entropies = -torch.special.xlogy(self.transition, self.transition).sum(dim=1)  # (V,)
        return float(self.stationary @ row_entropies)

    def windows(self, batch_size: int, length: int, *, generator: torch.Generator) -> Int64[Tensor, "B length"]:
        """B independent stretches of the chain (B, length), each begun in the stationary distribution."""
        draws = torch.rand(batch_size, length, generator=generator, dtype=torch.float64).tolist()
        rows = []
        for row in draws:
            symbol, symbols = self.vocab_size, []  # the extra row: no symbol before the first
            for u in row:
                symbol = bisect_right(self._cumulative[symbol], u)  # the first symbol whose cumulative exceeds u
                symbols.append(symbol)
            rows.append(symbols)
        return torch.tensor(rows, dtype=torch.int64).view(batch_size, length)

    def floors(self, block_size: int) -> Float[Tensor, "T"]:
        """The entropy rate at each of the T targets: the symbol before is always in the window, more never helps."""
        return torch.full((block_size,), self.entropy_rate, dtype=torch.float64)

    def loss(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """-ln P[x, y] at every target (B, T), nats."""
        return -self.transition[x, y].log()


class CopySource(ToySource):
    """``length`` random symbols, then the same again, then new ones: half can only be guessed, half is known.

    Windows start where a first half starts. A model that copies needs to find the place ``length`` - 1 tokens back
    and to hand over what stood there: attention's own trade.
    """

    def __init__(self, vocab_size: int, length: int):
        if vocab_size < 1 or length < 1:
            raise ValueError(f"vocab_size and length must be 1 or more, got {vocab_size} and {length}")
        self.vocab_size, self.length = vocab_size, length

    @property
    def entropy_rate(self) -> float:
        """Half of ln V: nats a token."""
        return math.log(self.vocab_size) / 2

    def windows(self, batch_size: int, length: int, *, generator: torch.Generator) -> Int64[Tensor, "B length"]:
        """B stretches (B, length), each begun with a first half."""
        n = self.length
        pairs = -(-length // (2 * n))  # enough first-and-second halves to cover the stretch
        halves = torch.randint(self.vocab_size, (batch_size, pairs, 1, n), generator=generator)
        return halves.expand(-1, -1, 2, -1).reshape(batch_size, -1)[:, :length]  # (B, length)

    def floors(self, block_size: int) -> Float[Tensor, "T"]:
        """ln V at the targets (T,) that are new symbols, 0 at those that are copies."""
        guesses = torch.full((block_size,), math.log(self.vocab_size), dtype=torch.float64)  # (T,)
        return guesses.masked_fill(self.is_copy(block_size), 0.0)  # (T,)

    def is_copy(self, block_size: int) -> Tensor:
        """Which of the T targets of a window repeat an earlier symbol: (T,) of booleans."""
        place = torch.arange(1, block_size + 1)  # (T,): target t is token t + 1 of its window
        return place % (2 * self.length) >= self.length  # (T,)

    def loss(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """``floors(T)`` for each window (B, T), nats; infinite where a copy is not one."""
        floors = self.floors(y.size(1)).expand(y.shape)  # (B, T)
        window = torch.cat([x, y[:, -1:]], dim=1)  # (B, T + 1)
        source = torch.arange(1, y.size(1) + 1).sub(self.length).clamp_min(0)  # (T,): where a copy is copied from
        broken = self.is_copy(y.size(1)) & (window[:, source] != y)  # (B, T)
        return floors.masked_fill(broken, math.inf)
