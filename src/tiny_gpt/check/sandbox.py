"""A check runs in a process of its own, where the reader's code can crash, loop and print without harm."""

import contextlib
import faulthandler
import io
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn

import torch

from .report import Finding, Report
from .settings import Settings
from .subject import TookTooLong, is_library

SECONDS = 20  # of computing time
PATIENCE = 3  # times as long by the clock, for a busy machine
MEMORY = 2 << 30  # bytes more than at the start
PRINTED = 200_000  # characters that a check may print
STORM = 5_000_000  # at this many it is stopped


def apart(name: str, work: Callable[[], Report], seconds: float = SECONDS) -> Report:
    """The report that ``work`` makes in a forked process; without fork (Windows), in this one.

    ValueError that ``work`` raises with a sentence for the caller is raised here.
    """
    if not hasattr(os, "fork"):
        settings = Settings()
        try:
            return work()
        finally:
            settings.restore()
    with tempfile.TemporaryFile() as printed:
        inlet, outlet = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of fork beside threads; the child starts none
            child = os.fork()
        if child == 0:
            os.close(inlet)
            _run(work, outlet, printed, seconds)
        os.close(outlet)
        try:
            received, ended = _receive(inlet, child, printed, seconds)
        finally:
            os.close(inlet)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        size = os.fstat(printed.fileno()).st_size
        printed.seek(max(0, size - 20_000))
        return _understood(name, received, ended, status, size, printed.read().decode(errors="replace"))


# --- In the child -----------------------------------------------------------------------------------------------


def _run(work: Callable[[], Report], outlet: int, printed: IO[bytes], seconds: float) -> NoReturn:
    answer: dict[str, Any] = {}
    me = os.getpid()
    try:
        os.setsid()
        torch.set_num_threads(1)
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # who asks for input reads an end of file
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), errors="backslashreplace", line_buffering=True)
        sys.stdout = sys.stderr = stream
        sys.__stdout__ = sys.__stderr__ = stream  # type: ignore[misc]  # final for others; here nothing may get past it
        faulthandler.enable(file=printed.fileno())
        _limit_memory()

        def ring(*_: object) -> None:
            raise TookTooLong(seconds)

        signal.signal(signal.SIGPROF, ring)
        signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
        answer = {"report": work().as_dict()}
        signal.setitimer(signal.ITIMER_PROF, 0)
        stream.flush()
    except ValueError as error:
        answer = {"refused": str(error)}
    except BaseException:  # whatever it is, the parent is told
        answer = {"error": traceback.format_exc()}
    finally:
        with contextlib.suppress(BaseException):
            signal.setitimer(signal.ITIMER_PROF, 0)
            data = json.dumps(answer).encode()
            while data and os.getpid() == me:  # what the reader's code forks does not report as well
                data = data[os.write(outlet, data) :]
        os._exit(0)


def _limit_memory() -> None:
    try:
        import resource

        with open("/proc/self/status") as status:
            now = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (now + MEMORY, now + MEMORY))
    except (ImportError, OSError, ValueError, StopIteration):
        pass  # no such limit on this system


# --- In the parent ----------------------------------------------------------------------------------------------


def _receive(inlet: int, child: int, printed: IO[bytes], seconds: float) -> tuple[bytes, str]:
    """All that the child sends, and how it ended: "done", "late" or "storm"."""
    parts: list[bytes] = []
    end = time.monotonic() + PATIENCE * seconds
    while True:
        ready, _, _ = select.select([inlet], [], [], 0.1)
        if ready:
            part = os.read(inlet, 1 << 16)
            if not part:
                return b"".join(parts), "done"
            parts.append(part)
        if os.fstat(printed.fileno()).st_size > STORM:
            return b"", "storm"
        if time.monotonic() > end:
            return b"", "late"


def _understood(name: str, received: bytes, ended: str, status: int, size: int, printed: str) -> Report:
    report = Report(name)
    answer = json.loads(received) if received else {}
    if "refused" in answer:
        raise ValueError(answer["refused"])
    if "report" in answer:
        report = Report.from_dict(answer["report"])
    elif ended == "late":
        report.findings.append(Finding("does-not-end", "the check had to be stopped"))
    elif ended == "storm":
        report.findings.append(Finding("prints-too-much", f"more than {STORM:,} characters, then it was stopped"))
        return report
    elif "error" in answer:
        report.findings.append(Finding("crashes", answer["error"].strip().splitlines()[-1]))
    elif os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        frames = re.findall(r'^ *File "(.+)", line (\d+) in (\S+)', printed, re.MULTILINE)
        own = [f"{Path(path).name}, line {line}, in {name}" for path, line, name in frames if not is_library(path)]
        said = f"the process was ended by {signal.Signals(os.WTERMSIG(status)).name}"
        report.findings.append(Finding("crashes", said, own[0] if own else ""))
    else:
        report.findings.append(Finding("crashes", "the code ended the whole process"))
    if size > PRINTED:
        report.findings.append(Finding("prints-too-much", f"{size:,} characters in one check"))
    return report
