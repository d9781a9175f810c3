"""What was handed in: each entry of a folder as one submission or several, or the reason why it is none."""

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..check.file import MODELS

SMALL = 1 << 20  # bytes: files up to this size come along with a submission,
TOGETHER = 16 << 20  # up to this many,
NUMBER = 500  # and so many files
SUFFIXES = (".py", ".pyw", ".py.txt", ".ipynb")


@dataclass(frozen=True)
class Submission:
    """``name`` is its path in the folder. With ``accompanied``, the small files beside it belong to it.

    ``refused`` says why it cannot be marked.
    """

    name: str
    file: Path
    accompanied: bool = False
    refused: str = ""


def submissions(folder: Path, unpacked: Path) -> list[Submission]:
    """Every entry of a folder: a file, or a folder or zip for each learner; zips are unpacked into ``unpacked``.

    Of a learner's files those are submissions that define a GPT, that is, have a line ``class TinyGPT`` (or another of
    MODELS); where none does, all Python files and notebooks of the uppermost folder that has any. Nothing is run for
    it. What begins with "." or "__" is none: systems and zips add that.
    """
    found: list[Submission] = []
    for number, entry in enumerate(sorted(folder.iterdir())):
        if not _added(entry.name):
            found += _of_entry(entry, unpacked / str(number))
    return found


def _of_entry(entry: Path, place: Path) -> Iterator[Submission]:
    refused = ""
    if entry.is_symlink():
        refused = "it is a link, which may lead to a file of yours"
    elif entry.is_dir():
        yield from _of_learner(entry, entry)
        return
    elif not entry.is_file():
        refused = "it is neither a file nor a folder"
    elif entry.suffix.lower() == ".zip":
        try:
            _unpack(entry, place)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, ValueError) as error:
            refused = f"the zip cannot be read: {error}"
        else:
            yield from _of_learner(entry, place)
            return
    elif not (_is_code(entry) or _defines_model(entry)):
        refused = "it is no Python file, notebook, folder or zip"
    yield Submission(entry.name, entry, refused=refused)


def _of_learner(entry: Path, folder: Path) -> Iterator[Submission]:
    files = sorted(path for path in folder.rglob("*") if _is_code(path) and _is_own(path, folder))
    chosen = [path for path in files if _defines_model(path)] or files
    uppermost = min((len(path.parts) for path in chosen), default=0)
    chosen = [path for path in chosen if len(path.parts) == uppermost]
    for path in chosen:
        yield Submission(f"{entry.name}/{path.relative_to(folder).as_posix()}", path, accompanied=True)
    if not chosen:
        yield Submission(entry.name, entry, refused="there is no Python file and no notebook in it")


def beside(submission: Submission) -> list[Path]:
    """The file and, if it is accompanied, the small files in its folder and the folders within that."""
    folder, found, size = submission.file.parent, [submission.file], 0
    for path in sorted(folder.rglob("*")) if submission.accompanied else []:
        if path == submission.file or not _is_own(path, folder):
            continue
        length = path.stat().st_size
        if length <= SMALL and size + length <= TOGETHER and len(found) < NUMBER:
            found.append(path)
            size += length
    return found


def _is_own(path: Path, folder: Path) -> bool:
    """A regular file that the learner made; a link may lead to a file of the marker's."""
    names = path.relative_to(folder).parts
    steps = [folder.joinpath(*names[: n + 1]) for n in range(len(names))]
    return path.is_file() and not any(map(_added, names)) and not any(step.is_symlink() for step in steps)


def _is_code(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def _added(name: str) -> bool:
    return name.startswith((".", "__"))


def _defines_model(file: Path) -> bool:
    with file.open("rb") as opened:
        text = opened.read(SMALL).decode(errors="replace")
    start = r'^\s*"' if file.suffix.lower() == ".ipynb" else "^"  # a line of a cell, as JSON
    return re.search(rf"{start}class\s+({'|'.join(MODELS)})\b", text, re.MULTILINE) is not None


def _unpack(file: Path, place: Path) -> None:
    """Unpack the small files of a zip. Nothing outside ``place`` is written, whatever its names say."""
    place.mkdir()
    size = 0
    with zipfile.ZipFile(file) as packed:
        for info in packed.infolist()[:NUMBER]:
            name = PurePosixPath(info.filename.replace("\\", "/"))
            if info.is_dir() or name.is_absolute() or ".." in name.parts or ":" in info.filename:
                continue
            with packed.open(info) as member:
                data = member.read(SMALL + 1)  # what its header says of its size may be a lie
            size += len(data)
            if size > TOGETHER:
                raise ValueError(f"it holds more than {TOGETHER >> 20} MB")
            if len(data) <= SMALL:
                place.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
                place.joinpath(name).write_bytes(data)
