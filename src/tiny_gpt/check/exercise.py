"""The reader's checker: it takes what the reader wrote and says what holds and what does not, never the answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ExerciseReport:
    """What ``exercise`` found: ``passed`` only if the function is written and every property holds."""

    name: str
    written: bool
    held: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return self.written and not self.failed

    def __str__(self) -> str:
        if not self.written:
            return f"{self.name}: not written yet.\nFill in the cell above, run it, then run this one again."
        lines = [f"{self.name}: {'all ' if self.passed else ''}{len(self.held)} of {self.total} properties hold."]
        lines += [f"  ok   {sentence}" for sentence in self.held]
        lines += [f"  no   {sentence}" for sentence in self.failed]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def total(self) -> int:
        return len(self.held) + len(self.failed)


def exercise(
    yours: Callable[..., Any], properties: Mapping[str, Callable[[Callable[..., Any]], object]]
) -> ExerciseReport:
    """Judge a function or class that the reader writes by the properties it must have.

    ``properties`` maps a sentence ("rows sum to one") to a test of ``yours``, which returns True or False. An
    exception in the reader's code fails that property and is quoted beside it. A body that is still ``...`` or
    raises NotImplementedError is "not written yet".
    """
    report = ExerciseReport(getattr(yours, "__name__", str(yours)), written=True)
    watched = _Watch(yours)
    for sentence, holds in properties.items():
        try:
            good = bool(holds(watched))
            reason = ""
        except NotImplementedError:
            return ExerciseReport(report.name, written=False)
        except Exception as error:  # the reader's code may raise anything
            good, reason = False, f" ({type(error).__name__}: {error})"
        if watched.unwritten:
            return ExerciseReport(report.name, written=False)
        (report.held if good else report.failed).append(sentence + reason)
    return report


class _Watch:
    """Calls the reader's function and notes whether all it ever gave was nothing: then it is not written."""

    def __init__(self, yours: Callable[..., Any]):
        self.yours, self.calls, self.nothing = yours, 0, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.yours(*args, **kwargs)
        self.calls += 1
        self.nothing += result is None or result is Ellipsis
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.yours, name)

    @property
    def unwritten(self) -> bool:
        return self.calls > 0 and self.nothing == self.calls
