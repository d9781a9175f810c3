"""Marking: the checker over a folder of submissions, each in a sandbox where it can harm neither the rest nor you."""

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS = 120  # by the clock, Python's start included; the check has limits of its own (sandbox.py)
MEMORY = 6 << 30  # bytes
WRITTEN = 64 << 20  # bytes in one file

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
    """The Python files in a folder, and those in the folders within it, one for each learner."""
    found = [path for pattern in ("*.py", "*/*.py") for path in folder.glob(pattern) if path.is_file()]
    return sorted(found)


def protects() -> bool:
    """Whether bubblewrap is here and allowed to make a sandbox (some systems forbid that to all but root)."""
    if shutil.which(BUBBLEWRAP) is None:
        return False
    return subprocess.run([*_sandbox(None, None), "true"], capture_output=True).returncode == 0


def mark(file: Path, *, hidden: Path | None = None, protected: bool = True, seconds: float = SECONDS) -> Mark:
    """Check one file in a process of its own, on a copy. ``hidden``, the folder it is from, it shall find empty.

    ``protected`` runs it in bubblewrap: no network, no other process, every file read-only but for an empty /tmp.
    """
    submission = str(file.relative_to(hidden)) if hidden else file.name
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name, file.name)
        shutil.copyfile(file, copy)
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
    try:
        report = json.loads(out)
        found = tuple(finding["id"] for finding in report["findings"])
        return Mark(submission, report["passed"], found, tuple(report["unwritten"]))
    except (ValueError, KeyError, TypeError):
        said = err.strip().splitlines()[-1:] or [f"the check ended with {process.returncode}"]
        reason = said[0].removeprefix("tiny-gpt: error: ").replace(str(copy), file.name)
        return Mark(submission, False, refused=reason)


def write_table(marks: list[Mark], path: Path) -> None:
    """A CSV file for a spreadsheet: a line for each submission."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["submission", "passed", "findings", "not written", "not marked because"])
        for one in marks:
            table.writerow([one.submission, one.passed, " ".join(one.findings), " ".join(one.unwritten), one.refused])


def _sandbox(hidden: Path | None, shown: Path | None) -> list[str]:
    """The start of a command line that runs the rest of it in bubblewrap."""
    parts = [BUBBLEWRAP, "--die-with-parent", "--unshare-all", "--new-session", "--ro-bind", "/", "/"]
    parts += ["--dev", "/dev", "--proc", "/proc"]
    if hidden is not None:
        parts += ["--tmpfs", str(hidden.resolve())]
    if shown is not None:
        parts += ["--tmpfs", "/tmp", "--bind", str(shown), str(shown), "--chdir", str(shown)]
    return parts


def _limit() -> None:
    import resource

    for limit, value in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_FSIZE, WRITTEN), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (value, value))


def _end(process: subprocess.Popen[str]) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
