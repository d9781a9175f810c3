"""Marks: what the check says of a submission, as a line, as a row of a table, and as a page for the learner."""

import contextlib
import csv
import html
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..check.causes import CAUSES
from ..check.report import Report
from .sandbox import SECONDS, run
from .submissions import Submission, beside


@dataclass(frozen=True)
class Mark:
    """What became of one submission. ``findings`` are ids, the root cause first; ``refused`` says why it has none."""

    submission: str
    passed: bool
    findings: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    refused: str = ""
    report: Report | None = None

    @property
    def verdict(self) -> str:
        if self.refused:
            return f"not marked: {self.refused}"
        if self.passed:
            return "all holds"
        missing = f"not written: {', '.join(self.unwritten)}" if self.unwritten else ""
        return "; ".join(filter(None, [", ".join(self.findings), missing]))


def mark(one: Submission, *, hidden: Path | None = None, protected: bool = True, seconds: float = SECONDS) -> Mark:
    """Check one submission in a process of its own, on a copy, which it can write on.

    ``protected`` runs it in the sandbox, where the folder ``hidden``, that of all submissions, is not to be seen.
    """
    name = _printable(one.name)
    if one.refused:
        return Mark(name, False, refused=_printable(one.refused))
    file = f"./{one.file.name}"  # so that no name is taken for an option
    with tempfile.TemporaryDirectory() as made:
        for path in beside(one):
            copy = Path(made, path.relative_to(one.file.parent))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        command = [sys.executable, "-P", "-m", "tiny_gpt", "check", file, "--json"]
        done = run(command, Path(made), hidden=hidden, protected=protected, seconds=seconds)
    if done.code is None:
        return Mark(name, False, refused=f"it did not end within {seconds:g} seconds")
    if done.code == 2:  # refused, with a line on stderr that says why
        said = done.err.strip().splitlines()[-1:] or ["the check refused it without a reason"]
        reason = said[0].removeprefix("tiny-gpt: error: ").replace(file, one.file.name)
        return Mark(name, False, refused=_printable(reason)[:500])
    try:
        report = _understood(done.out, done.code)
    except ValueError as error:
        return Mark(name, False, refused=str(error))
    if absent := _absent(report):
        return Mark(name, False, refused=absent)
    ids = tuple(found.id for found in report.findings)
    return Mark(name, report.passed, ids, tuple(report.unwritten), report=report)


ABSENT = re.compile(r"(ModuleNotFoundError): No module named '([^']+)'|(FileNotFoundError): .*: '([^']+)'$")


def _absent(report: Report) -> str:
    """Why it cannot be judged here: what it needs is absent, which the marker can mend and the learner did not see."""
    seen = ABSENT.search(report.findings[0].evidence) if report.findings else None
    if seen is None or report.findings[0].id != "crashes":
        return ""
    _, module, _, file = seen.groups()
    if module:
        return f"it imports {module}, which is neither installed here nor handed in beside it"
    return f"it reads the file {file}, which was not handed in beside it, or is too large to come along"


def _printable(words: str) -> str:
    """Without what would steer a terminal: names in a file can be such that they paint over other lines."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in words)


def _understood(out: str | None, code: int) -> Report:
    """The report that a check printed before it ended with ``code``. Code by others ran near it: nothing is trusted."""
    if code not in (0, 1):
        raise ValueError(f"the check was broken off (exit code {code}), which the file may have done: read it")
    if out is None:
        raise ValueError("it printed more than any report has, which the file may have done: read it")
    try:
        report = Report.from_dict(json.loads(out))
        words = [report.name, *report.checked, *report.notes]
        for found in report.findings:
            words += [CAUSES[found.id].cause, found.evidence, found.where, *found.follows]
        if not all(isinstance(word, str) for word in words) or not all(part.isprintable() for part in report.unwritten):
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
        file = path.open("w", newline="", encoding="utf-8-sig")  # without the signature Excel takes it for Latin-1
    except OSError as error:
        raise ValueError(f"the table {path} cannot be written: {error.strerror}") from None
    with file:
        rows = csv.writer(file)

        def add(one: Mark) -> None:
            cells = [one.submission, str(one.passed), " ".join(one.findings), " ".join(one.unwritten), one.refused]
            rows.writerow([_harmless(cell) for cell in cells])
            file.flush()

        rows.writerow(["submission", "passed", "findings", "not written", "not marked because"])
        yield add


def _harmless(cell: str) -> str:
    """So that a spreadsheet does not take a learner's words for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell


def report_page(one: Mark, folder: Path) -> Path:
    """Write a page for the learner into a folder: what ``check`` says, or why the submission was not marked.

    Raises ValueError if it cannot be written.
    """
    said = one.report._repr_html_() if one.report else ""
    if one.refused:
        said = f"<p>{html.escape(one.verdict)}</p>{said}"
    title = html.escape(one.submission)
    path = folder / f"{one.submission}.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
            "<style>body { max-width: 45rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui } "
            "dt { font-weight: bold } code { overflow-wrap: anywhere }</style>"
            f"<h1>{title}</h1>{said}</html>\n",
            encoding="utf-8",
        )
    except OSError as error:
        raise ValueError(f"the page {path} cannot be written: {error.strerror}") from None
    return path
