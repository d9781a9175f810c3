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
from typing import IO, Any, NoReturn

import torch

from .report import Finding, Report
from .settings import Settings
from .subject import TookTooLong, base_name, is_library, while_read

SECONDS = 20  # of computing time
PATIENCE = 3  # times as long by the clock, for a busy machine
MEMORY = 2 << 30  # bytes more than at the start
PRINTED = 200_000  # characters that a check may print
STORM = 5_000_000  # at this many it is stopped
END = b"\n"  # after a whole answer; JSON has none within


def in_own_process(name: str, work: Callable[[], Report], seconds: float = SECONDS) -> Report:
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
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            left_behind = _end_group(child)
        size = os.fstat(printed.fileno()).st_size
        printed.seek(max(0, size - 20_000))
        report = _understood(name, received, ended, status, size, printed.read().decode(errors="replace"))
    if left_behind:
        report.notes.append("A process that the code had started was still running after the check, and was ended.")
    return report


# --- In the child -----------------------------------------------------------------------------------------------


def _run(work: Callable[[], Report], outlet: int, printed: IO[bytes], seconds: float) -> NoReturn:
    answer: dict[str, Any] = {}
    me = os.getpid()
    try:
        os.setsid()
        torch.set_num_threads(1)
        _hide_accelerators()
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
            data = json.dumps(answer).encode() + END
            while data and os.getpid() == me:  # what the reader's code forks does not report as well
                data = data[os.write(outlet, data) :]
        os._exit(0)


def _hide_accelerators() -> None:
    """Only the CPU is there for the reader's code, and ``torch.compile`` compiles nothing.

    CUDA and MPS cannot be used in a process that was forked after they had started. A compiler may be missing, and
    needs longer than the whole check.
    """
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "TORCHDYNAMO_DISABLE": "1"}
    for module in (torch.cuda, torch.backends.mps, *filter(None, [getattr(torch, "accelerator", None)])):
        vars(module).update(is_available=lambda: False, device_count=lambda: 0)
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].config.disable = True


def _limit_memory() -> None:
    try:
        import resource

        with open("/proc/self/status") as status:
            now = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (now + MEMORY, now + MEMORY))
    except (ImportError, OSError, ValueError, StopIteration):
        pass  # no such limit on this system


# --- In the parent ----------------------------------------------------------------------------------------------


def _end_group(child: int) -> bool:
    """End what the child started and left behind; whether there was anything."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _receive(inlet: int, child: int, printed: IO[bytes], seconds: float) -> tuple[bytes, str]:
    """All that the child sends, and how it ended: "done", "late" or "storm".

    An answer counts when it is whole, even if a process that the child left behind keeps the pipe open.
    """
    received = b""
    end = time.monotonic() + PATIENCE * seconds
    while True:
        ready, _, _ = select.select([inlet], [], [], 0.1)
        if ready:
            part = os.read(inlet, 1 << 16)
            received += part
            if not part or received.endswith(END):
                return received, "done"
        if os.fstat(printed.fileno()).st_size > STORM:
            return b"", "storm"
        if time.monotonic() > end:
            os.kill(child, signal.SIGABRT)  # faulthandler prints where it is
            time.sleep(0.2)
            return b"", "late"


def _understood(name: str, received: bytes, ended: str, status: int, size: int, printed: str) -> Report:
    report = Report(name)
    answer = json.loads(received) if received else {}
    if "refused" in answer:
        raise ValueError(answer["refused"])
    if "report" in answer:
        report = Report.from_dict(answer["report"])
    elif ended == "late":
        frames = _own_frames(printed)
        said = f"the check had to be stopped{while_read(frames)}"
        report.findings.append(Finding("does-not-end", said, _innermost(frames)))
    elif ended == "storm":
        report.findings.append(Finding("prints-too-much", f"more than {STORM:,} characters, then it was stopped"))
        return report
    elif "error" in answer:
        report.findings.append(Finding("crashes", answer["error"].strip().splitlines()[-1]))
    elif os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        said = f"the process was ended by {signal.Signals(os.WTERMSIG(status)).name}"
        report.findings.append(Finding("crashes", said, _innermost(_own_frames(printed))))
    else:
        report.findings.append(Finding("crashes", "the code ended the whole process"))
    if size > PRINTED:
        report.findings.append(Finding("prints-too-much", f"{size:,} characters in one check"))
    return report


def _own_frames(printed: str) -> list[tuple[str, str, str]]:
    """The reader's own (file, line, function) in what faulthandler printed, the innermost first."""
    frames = re.findall(r'^ *File "(.+)", line (\d+) in (\S+)', printed, re.MULTILINE)
    start = next((n for n, (path, _, name) in enumerate(frames) if (path, name) == (__file__, _run.__name__)), None)
    here = os.path.dirname(__file__)
    return [(base_name(p), line, name) for p, line, name in frames[:start] if not (is_library(p) or p.startswith(here))]


def _innermost(frames: list[tuple[str, str, str]]) -> str:
    return "{}, line {}, in {}".format(*frames[0]) if frames else ""
