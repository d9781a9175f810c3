"""The reader's checker: it takes what the reader wrote and says what holds and what does not, never the answer."""

import dis
import linecache
import reprlib
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any


@dataclass
class ExerciseReport:
    """What ``exercise`` found: ``passed`` only if the function is written and every property holds."""

    name: str
    written: bool
    held: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    came: list[str] = field(default_factory=list)  # beside each that failed: what came instead, "" if said before

    @property
    def passed(self) -> bool:
        return self.written and not self.failed

    def __str__(self) -> str:
        if not self.written:
            return f"{self.name}: not written yet.\nFill in the cell above, run it, then run this one again."
        lines = [f"{self.name}: {'all ' if self.passed else ''}{len(self.held)} of {self.total} properties hold."]
        lines += [f"  ok   {sentence}" for sentence in self.held]
        for sentence, came in zip(self.failed, self.came, strict=True):
            lines += [f"  no   {sentence}", *(f"       {line}" for line in came.splitlines())]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def total(self) -> int:
        return len(self.held) + len(self.failed)


def exercise(
    yours: Callable[..., Any], properties: Mapping[str, Callable[[Callable[..., Any]], object]]
) -> ExerciseReport:
    """Judge a function or class that the reader writes by the properties it must have.

    ``properties`` maps a sentence ("rows sum to one") to a test of ``yours``, which returns True or False. Beside a
    property that fails stands what ``yours`` returned; an exception is quoted once, with the reader's line if it was
    raised there. A body that is still ``...`` or raises NotImplementedError is "not written yet".
    """
    report = ExerciseReport(getattr(yours, "__name__", str(yours)), written=True)
    watched = _Watch(yours)
    for sentence, holds in properties.items():
        watched.last = ""
        try:
            good, came = bool(holds(watched)), watched.last
        except NotImplementedError:
            return ExerciseReport(report.name, written=False)
        except Exception as error:  # the reader's code may raise anything
            good, came = False, _quoted(error, yours) or f"{watched.last}\nThe check cannot use that: {error}".strip()
        if watched.unwritten:
            return ExerciseReport(report.name, written=False)
        if good:
            report.held.append(sentence)
        else:
            report.failed.append(sentence)
            report.came.append("" if came in report.came else came)
    return report


def _code(yours: Any) -> list[CodeType]:
    """The code of a function, or of the methods of a class."""
    members = vars(yours).values() if isinstance(yours, type) else [yours]
    return [member.__code__ for member in members if hasattr(member, "__code__")]


def _quoted(error: Exception, yours: Any) -> str:
    """The exception and the last of the reader's lines that it went through, or nothing if it went through none."""
    own = set(_code(yours))
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_code in own:
            line = linecache.getline(frame.f_code.co_filename, number).strip()
            return f"{type(error).__name__}: {error}\nin line {number}: {line}"
    return ""


def _brief(value: Any) -> str:
    shape = getattr(value, "shape", ())
    return f"{type(value).__name__} of shape {tuple(shape)}" if len(shape) else reprlib.repr(value)


class _Watch:
    """Calls what the reader wrote and notes what it returned last, and whether its body is still empty."""

    def __init__(self, yours: Callable[..., Any]):
        self.yours, self.last, self.calls, self.nothing = yours, "", 0, 0
        # an empty body only returns a constant
        steps = {step.opname for code in _code(yours) for step in dis.get_instructions(code)}
        self.empty = steps <= {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.yours(*args, **kwargs)
        self.calls += 1
        self.nothing += result is None or result is Ellipsis
        if not isinstance(self.yours, type):
            self.last = f"It returned {_brief(result)}." + (" Is a `return` missing?" if result is None else "")
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.yours, name)

    @property
    def unwritten(self) -> bool:
        return self.empty and self.calls > 0 and self.nothing == self.calls
