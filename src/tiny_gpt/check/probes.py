"""What all probes share: the model under test, the report, and what earlier probes learnt about its inside."""

from collections.abc import Callable

from .anatomy import Anatomy
from .report import Finding, Report
from .settings import Settings
from .subject import Stop, Subject, crash, said
from .trace import Trace


class Probes:
    """What one probe leaves for the next, and the guard around each."""

    def __init__(self, subject: Subject, report: Report):
        self.subject, self.report = subject, report
        self.anatomy: Anatomy | None = None
        self.trace: Trace | None = None
        self.doing = ""  # the name of the running probe

    def add(self, finding: Finding) -> None:
        if not any(known.id == finding.id for known in self.report.findings):
            self.report.findings.append(finding)

    def found(self, id: str, evidence: str, where: str = "") -> None:
        self.add(Finding(id, evidence, where))

    def note(self, words: str) -> None:
        if words not in self.report.notes:
            self.report.notes.append(words)

    def has(self, *ids: str) -> bool:
        return any(finding.id in ids for finding in self.report.findings)

    def guarded(self, name: str, probe: "Callable[[Probes], None]") -> None:
        """Run one probe; an error in the reader's code is a finding, a part that is not written is listed as such."""
        settings = Settings()
        self.doing = name
        try:
            probe(self)
            self.report.checked.append(name)
        except NotImplementedError:
            self.report.unwritten.append(name)
        except Stop:
            raise
        except (Exception, SystemExit) as error:
            found = crash(error, f"while its {name} was checked")
            if found.where or isinstance(error, SystemExit):
                self.add(found)
            else:  # none of the reader's lines is to blame
                self.note(f"{name} could not be checked: {said(error)}")
        finally:
            self.unchanged(settings, f"when {name} was checked")

    def unchanged(self, settings: Settings, when: str) -> None:
        for change in settings.changes():
            self.found("global-state", f"{when}, the code changed the {change}")
        settings.restore()
