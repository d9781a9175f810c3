"""What a check answers: findings with their cause, evidence and a hint, printed for people or as JSON."""

import html
import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .causes import CAUSES, Cause


@dataclass
class Finding:
    """One cause. ``follows`` are the other things that were seen and are explained by it."""

    id: str
    evidence: str
    where: str = ""  # the reader's file, line and code, if an exception has one
    follows: list[str] = field(default_factory=list)

    @property
    def about(self) -> Cause:
        return CAUSES[self.id]

    @property
    def cause(self) -> str:
        return self.about.cause

    @property
    def section(self) -> str:
        return self.about.section.said

    @property
    def hint(self) -> str:
        return self.about.hint


@dataclass
class Report:
    """The outcome of a check. ``passed`` only if what was checked is written and nothing was found."""

    name: str
    checked: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # another design, or what could not be looked at: no failures
    unwritten: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.findings and not self.unwritten

    @property
    def verdict(self) -> str:
        parts = []
        if self.findings:
            parts.append("1 finding" if len(self.findings) == 1 else f"{len(self.findings)} findings")
        if self.unwritten:
            parts.append(f"not written yet: {', '.join(self.unwritten)}")
        return "; ".join(parts) or "all that was checked holds"

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.verdict}."]
        if self.checked:
            lines += _wrapped(f"Checked: {', '.join(self.checked)}.", "  ")
        for number, found in enumerate(self.findings, 1):
            lines += ["", f"{number}. {found.id}", *_wrapped(found.cause, "   ")]
            lines += _wrapped(found.evidence, "   seen   ", "          ")
            if found.where:
                lines += [f"   at     {line}" for line in found.where.splitlines()]
            lines += _wrapped(found.section, "   read   ", "          ")
            lines += _wrapped(found.hint, "   think  ", "          ")
            if found.follows:
                lines += _wrapped("; ".join(found.follows), "   hence  ", "          ")
        if self.notes:
            lines.append("")
            for note in self.notes:
                lines += _wrapped(note, "   note   ", "          ")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def text(words: str) -> str:
            return html.escape(words)

        rows = []
        for found in self.findings:
            cells = {"seen": text(found.evidence), "at": f"<code>{text(found.where)}</code>" if found.where else ""}
            cells |= {"read": text(found.section), "think": text(found.hint), "hence": text("; ".join(found.follows))}
            said = "".join(f"<dt>{name}</dt><dd>{what}</dd>" for name, what in cells.items() if what)
            rows.append(f"<li><p><code>{found.id}</code> {text(found.cause)}</p><dl>{said}</dl></li>")
        parts = [f"<p><strong>{text(self.name)}</strong>: {text(self.verdict)}.</p>"]
        if self.checked:
            parts.append(f"<p><small>Checked: {text(', '.join(self.checked))}.</small></p>")
        if rows:
            parts.append(f"<ol>{''.join(rows)}</ol>")
        parts += [f"<p><small>Note: {text(note)}</small></p>" for note in self.notes]
        return f'<div class="tiny-gpt-report">{"".join(parts)}</div>'

    def as_dict(self) -> dict[str, Any]:
        names = ("id", "cause", "evidence", "where", "section", "hint", "follows")
        findings = [{name: getattr(found, name) for name in names} for found in self.findings]
        rest = {name: getattr(self, name) for name in ("checked", "notes", "unwritten")}
        return {"name": self.name, "passed": self.passed, "findings": findings, **rest}

    @classmethod
    def from_dict(cls, made: Mapping[str, Any]) -> "Report":
        """The report that ``as_dict`` described."""
        findings = [Finding(f["id"], f["evidence"], f["where"], f["follows"]) for f in made["findings"]]
        return cls(made["name"], made["checked"], findings, made["notes"], made["unwritten"])

    def to_json(self) -> str:
        """The report as JSON, with one object a finding."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False)


def _wrapped(words: str, first: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(  # as wide as the book's text column, so that nothing is cut there
        words, 76, initial_indent=first, subsequent_indent=first if rest is None else rest, break_on_hyphens=False
    )
