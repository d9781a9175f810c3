"""Marking: the checker over a folder of submissions, each in a sandbox where it can harm neither the rest nor you."""

import contextlib
import csv
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .causes import CAUSES
from .file import MODELS
from .report import Report

SECONDS = 120  # by the clock, Python's start included; the check has limits of its own (sandbox.py)
MEMORY = 6 << 30  # bytes
WRITTEN = 64 << 20  # bytes in one file
PROCESSES = 1000  # threads count as well; more than the user has at the start, who may work on meanwhile

BUBBLEWRAP = "bwrap"


@dataclass(frozen=True)
class Mark:
    """What became of one submission. ``findings`` are ids, the root cause first; ``refused`` says why it has none."""

    submission: str
    passed: bool
    findings: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    refused: str = ""

    @property
    def verdict(self) -> str:
        if self.refused:
            return f"not marked: {self.refused}"
        if self.passed:
            return "all holds"
        missing = f"not written: {', '.join(self.unwritten)}" if self.unwritten else ""
        return "; ".join(filter(None, [", ".join(self.findings), missing]))


def submissions(folder: Path) -> list[Path]:
    """The Python files in a folder, and in the folders within it, one for each learner, those that define a GPT.

    To define one is to have a line ``class TinyGPT`` (or another of MODELS); nothing is run for it. In a learner's
    folder where no file does, all are submissions. What begins with "." or "__" is none: systems and zips add that.
    """
    found = _python_files(folder)
    for own in folder.iterdir():
        if own.is_dir() and not _added(own):
            files = _python_files(own)
            found += [file for file in files if _defines_model(file)] or files
    return sorted(found)


def _python_files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.py") if path.is_file() and not _added(path)]


def _added(path: Path) -> bool:
    return path.name.startswith((".", "__"))


def _defines_model(file: Path) -> bool:
    text = file.read_bytes().decode(errors="replace")
    return re.search(rf"^class\s+({'|'.join(MODELS)})\b", text, re.MULTILINE) is not None


def protects() -> bool:
    """Whether bubblewrap is here and allowed to make a sandbox (some systems forbid that to all but root)."""
    if shutil.which(BUBBLEWRAP) is None:
        return False
    return subprocess.run([*_sandbox(None, None), "true"], capture_output=True).returncode == 0


def starts(hidden: Path) -> bool:
    """Whether Python finds itself and this package in the sandbox, with the folder ``hidden`` empty."""
    needed = ("tiny_gpt", "torch", "tyro")
    script = f"import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, {needed})))"
    with tempfile.TemporaryDirectory() as name:
        command = [*_sandbox(hidden, Path(name)), sys.executable, "-P", "-c", script]
        return subprocess.run(command, capture_output=True).returncode == 0


def mark(file: Path, *, hidden: Path | None = None, protected: bool = True, seconds: float = SECONDS) -> Mark:
    """Check one file in a process of its own, on a copy. ``hidden``, the folder of all, it shall find empty.

    If it is from a folder within that, it can import the Python files beside it, which are copied too.
    ``protected`` runs it in bubblewrap: no network, no other process, every file read-only but for an empty /tmp.
    """
    submission = _printable(str(file.relative_to(hidden)) if hidden else file.name)
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name, file.name)
        beside = _python_files(file.parent) if hidden and file.parent != hidden else []
        for one in {file, *beside}:
            shutil.copyfile(one, copy.with_name(one.name))
        command = [sys.executable, "-P", "-m", "tiny_gpt", "check", str(copy), "--json"]
        if protected:
            command = [*_sandbox(hidden, copy.parent), *command]
        process = subprocess.Popen(
            command,
            cwd=copy.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that all that it starts can be ended
            preexec_fn=_limit if os.name == "posix" else None,
            env={**os.environ, "HOME": name, "OMP_NUM_THREADS": "1"},
        )
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Mark(submission, False, refused=f"it did not end within {seconds:g} seconds")
        finally:
            _end(process)
    if process.returncode == 2:  # refused, with a line on stderr that says why
        said = err.strip().splitlines()[-1:] or ["the check refused it without a reason"]
        reason = said[0].removeprefix("tiny-gpt: error: ").replace(str(copy), file.name)
        return Mark(submission, False, refused=_printable(reason))
    try:
        report = _understood(out, process.returncode)
    except ValueError as error:
        return Mark(submission, False, refused=str(error))
    return Mark(submission, report.passed, tuple(found.id for found in report.findings), tuple(report.unwritten))


def _printable(words: str) -> str:
    """Without what would steer a terminal: names in a file can be such that they paint over other lines."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in words)


def _understood(out: str, code: int) -> Report:
    """The report that a check printed before it ended with ``code``. Code by others ran near it: nothing is trusted."""
    if code not in (0, 1):
        raise ValueError(f"the check was broken off (exit code {code}), which the file may have done: read it")
    try:
        report = Report.from_dict(json.loads(out))
        known = all(found.id in CAUSES for found in report.findings)
        if not known or not all(part.isprintable() for part in report.unwritten):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("what the check printed is no report, which the file may have done: read it") from None
    if report.passed != (code == 0):
        raise ValueError("the check was broken off: its report and its exit code differ; read the file")
    return report


@contextlib.contextmanager
def table(path: Path) -> Iterator[Callable[[Mark], None]]:
    """Write a CSV file for a spreadsheet: gives what adds a line for a submission, which is in the file at once.

    Raises ValueError if the file cannot be written.
    """
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} for the table {path.name}")
    try:
        file = path.open("w", newline="", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"the table {path} cannot be written: {error.strerror}") from None
    with file:
        rows = csv.writer(file)

        def add(one: Mark) -> None:
            rows.writerow([one.submission, one.passed, " ".join(one.findings), " ".join(one.unwritten), one.refused])
            file.flush()

        rows.writerow(["submission", "passed", "findings", "not written", "not marked because"])
        yield add


def _sandbox(hidden: Path | None, shown: Path | None) -> list[str]:
    """The start of a command line that runs the rest of it in bubblewrap."""
    parts = [BUBBLEWRAP, "--die-with-parent", "--unshare-all", "--new-session", "--ro-bind", "/", "/"]
    parts += ["--dev", "/dev", "--proc", "/proc"]
    if shown is not None:
        parts += _emptied(Path("/tmp"))
    if hidden is not None:  # after /tmp, where it may lie in an environment that was put back
        parts += _emptied(hidden.resolve())
    if shown is not None:
        parts += ["--bind", str(shown), str(shown), "--chdir", str(shown)]
    return parts


def _emptied(folder: Path) -> list[str]:
    """bubblewrap's arguments for an empty folder, but for what Python needs to run the check."""
    package = Path(__file__).parents[1]
    torch = importlib.util.find_spec("torch")
    libraries = [Path(torch.origin).parents[1]] if torch and torch.origin else []
    parts = ["--tmpfs", str(folder)]
    for path in (Path(sys.base_prefix), Path(sys.prefix), *libraries, package):
        for name in dict.fromkeys((path, path.resolve())):
            if folder in name.parents:
                parts += ["--ro-bind", str(name), str(name)]
    return parts


def _limit() -> None:
    import resource

    limits = [(resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_FSIZE, WRITTEN), (resource.RLIMIT_CORE, 0)]
    if os.path.exists("/proc/self/task"):
        limits.append((resource.RLIMIT_NPROC, _threads() + PROCESSES))  # what this user has running counts too
    for limit, value in limits:
        highest = resource.getrlimit(limit)[1]
        value = value if highest == resource.RLIM_INFINITY else min(value, highest)
        resource.setrlimit(limit, (value, value))


def _threads() -> int:
    """How many threads this user has."""
    number = 0
    for task in Path("/proc").glob("[0-9]*/task"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if task.stat().st_uid == os.getuid():
                number += len(os.listdir(task))
    return number


def _end(process: subprocess.Popen[str]) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
