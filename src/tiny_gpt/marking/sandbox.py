"""The sandbox: a command runs on a copy of a folder in bubblewrap, with limits; it sees Python but nothing of yours."""

import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import site
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

BUBBLEWRAP = "bwrap"  # 0.8 or newer: older ones cannot bound a tmpfs, or forbid namespaces within

SECONDS = 120  # by the clock, Python's start included; the check has limits of its own (check/process.py)
MEMORY = 6 << 30  # bytes: of all processes where systemd can hold them to it, else of each one
WRITTEN = 64 << 20  # bytes in /tmp, in /dev/shm, and in one file
READ = 1 << 20  # bytes of what it prints that are read
PROCESSES = 1000  # threads count as well; without systemd, more than the user has at the start

PLACE = "/tmp/handed_in"  # where the copy lies in the sandbox, and where the command runs
SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/sys/devices/system/cpu"]
SYSTEM += ["/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"]


@dataclass(frozen=True)
class Outcome:
    """``code`` is the exit code, None if it had to be ended; ``out`` is None if it printed more than READ bytes."""

    code: int | None
    out: str | None
    err: str


def protects() -> bool:
    """Whether bubblewrap is here and allowed to make a sandbox (some systems forbid that to all but root)."""
    if shutil.which(BUBBLEWRAP) is None:
        return False
    with tempfile.TemporaryDirectory() as copy:
        return run(["true"], Path(copy), hidden=None).code == 0


def starts(hidden: Path | None) -> bool:
    """Whether Python finds itself and what the check needs in the sandbox."""
    needed = ("tiny_gpt", "torch", "tyro")
    script = f"import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, {needed})))"
    with tempfile.TemporaryDirectory() as copy:
        return run([sys.executable, "-P", "-c", script], Path(copy), hidden=hidden).code == 0


def run(
    command: Sequence[str], copy: Path, *, hidden: Path | None, protected: bool = True, seconds: float = SECONDS
) -> Outcome:
    """Run a command in the folder ``copy``, or in a sandbox that has its content; the folder ``hidden`` is not in it.

    All that the command started is ended with it.
    """
    environment = _environment(copy)
    if protected:
        command, environment = [*command_line(copy, hidden), *command], dict(os.environ)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command,
            cwd=copy,
            stdin=subprocess.DEVNULL,
            stdout=out,  # a file, which has a limit, and not a pipe, which a submission could flood
            stderr=err,
            start_new_session=True,  # so that all that it starts can be ended
            preexec_fn=_limit if os.name == "posix" else None,
            env=environment,
        )
        code: int | None = None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _end(process)
        return Outcome(code, _text(out), _text(err) or "")


def command_line(copy: Path, hidden: Path | None) -> list[str]:
    """The start of a command line that runs the rest of it in the sandbox, on the content of ``copy``."""
    size = str(WRITTEN)
    parts = [*_bounded(), BUBBLEWRAP, "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    parts += ["--die-with-parent", "--new-session", "--clearenv"]
    for name, value in _environment(Path("/tmp/home")).items():
        parts += ["--setenv", name, value]
    parts += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    parts += ["--size", size, "--tmpfs", "/tmp"]
    parts += _shown(hidden)
    parts += ["--dir", "/tmp/home", "--dir", PLACE, "--ro-bind", str(copy), "/handed_in", "--chdir", PLACE]
    parts += ["--remount-ro", "/"]  # it is a tmpfs itself, without a bound
    return [*parts, "--", "sh", "-c", 'cp -R /handed_in/. . && exec "$@"', "sh"]


def _shown(hidden: Path | None) -> list[str]:
    """bubblewrap's arguments for what Python needs, read-only, and an empty folder where ``hidden`` lies within."""
    torch = importlib.util.find_spec("torch")
    libraries = [Path(torch.origin).parents[1]] if torch and torch.origin else []
    own = [Path(sys.base_prefix), Path(sys.prefix), Path(sys.executable).resolve().parents[1], *libraries]
    own += [Path(__file__).parents[1], *([Path(site.getusersitepackages())] if site.ENABLE_USER_SITE else [])]
    paths = dict.fromkeys(name for path in [*map(Path, SYSTEM), *own] for name in (path, path.resolve()))
    hidden = hidden and hidden.resolve()
    within = [path for path in paths if hidden and path.is_relative_to(hidden)]
    parts = []
    for path in sorted(set(paths) - set(within)):  # a folder before what lies in it
        if path.is_symlink() and path.parent == Path("/"):  # /lib is usr/lib on most systems
            parts += ["--symlink", os.readlink(path), str(path)]
        else:
            parts += ["--ro-bind-try", str(path), str(path)]
    if hidden and any(hidden.is_relative_to(path) for path in paths):
        parts += ["--size", str(WRITTEN), "--tmpfs", str(hidden)]
    for path in within:
        parts += ["--ro-bind", str(path), str(path)]
    return parts


def _environment(home: Path) -> dict[str, str]:
    """What a submission sees of the environment."""
    kept = ("PYTHONPATH", "SYSTEMROOT")  # where Python's packages are; what Windows cannot start a program without
    made = {name: os.environ[name] for name in kept if name in os.environ}
    if site.ENABLE_USER_SITE:
        made["PYTHONUSERBASE"] = site.getuserbase()
    made |= {"PATH": os.defpath if os.name == "posix" else os.environ["PATH"], "HOME": str(home), "USER": "learner"}
    return made | {"LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@functools.cache
def _bounded() -> tuple[str, ...]:
    """The start of a command line whose rest systemd holds to MEMORY and PROCESSES; empty where it does not."""
    if shutil.which("systemd-run") is None:
        return ()
    parts = ["systemd-run", "--quiet", "--scope", *([] if os.getuid() == 0 else ["--user"])]
    for limit in (f"MemoryMax={MEMORY}", "MemorySwapMax=0", f"TasksMax={PROCESSES}"):
        parts += ["--property", limit]
    works = subprocess.run([*parts, "true"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    return (*parts, "--") if works else ()


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


def _text(printed: IO[bytes]) -> str | None:
    if os.fstat(printed.fileno()).st_size > READ:
        return None
    printed.seek(0)
    return printed.read(READ).decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
