"""How every file of the project is written: beside its place, then renamed, so that it is never there half."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_beside(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write beside and rename: whenever the machine stops, ``path`` is the old file or the new one, whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")  # two processes may write the same file
    try:
        with open(beside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        # torch ends a file that could not be written with a RuntimeError of its own; the reason is what came before.
        cause = error.__context__ if isinstance(error, RuntimeError) and error.__context__ else error
        if not isinstance(cause, OSError):  # a second Ctrl-C
            raise cause from None
        if not path.parent.is_dir():
            raise OSError(
                f"the folder {path.parent} has gone, so {path.name} could not be saved: if it was on a drive, mount "
                "that again and resume"
            ) from error
        reason = cause.strerror or str(cause)  # without the number, and without the name of the file beside
        kept = "; what was there before is still there" if path.exists() else ", and nothing of it is left"
        raise OSError(f"{path} could not be written ({reason}){kept}") from error
