"""What the checker can name: causes.toml, read. For each id its cause, the place in the book, a hint, and more."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Section:
    """A labelled heading of the book."""

    page: str
    label: str
    heading: str

    @property
    def said(self) -> str:
        chapter = f"chapter {int(self.page[:2])}" if self.page[:2].isdigit() else f"page {self.page}"
        return f"{chapter}, '{self.heading}' ({self.page}.html#{self.label})"


@dataclass(frozen=True)
class Cause:
    """One kind of mistake. What stands after the hint is empty where the catalogue does not have it."""

    id: str
    cause: str
    section: Section  # where the book explains it
    hint: str
    family: str = ""
    title: str = ""
    symptom: str = ""  # as a learner meets it, before knowing the cause
    common: str = ""  # "very common", "common", "seen" or "rare"
    reports: tuple[str, ...] = ()  # public threads in which it was reported


def _table() -> tuple[dict[str, Section], dict[str, Cause]]:
    table = tomllib.loads((Path(__file__).parent / "causes.toml").read_text(encoding="utf-8"))
    sections = {
        label: Section(page, label, heading)
        for page, headings in table.pop("sections").items()
        for label, heading in headings.items()
    }
    return sections, {
        id: Cause(id, **{**entry, "section": sections[entry["section"]], "reports": tuple(entry.get("reports", ()))})
        for id, entry in table.items()
    }


SECTIONS, CAUSES = _table()


def explain(id: str) -> str:
    """What an id of a finding means, where to read, and what to think about. ValueError if there is no such id."""
    if id not in CAUSES:
        words = set(id.split("-"))
        near = sorted(CAUSES, key=lambda known: -len(words & set(known.split("-"))))[:3]
        raise ValueError(f"there is no finding {id!r}; near it: {', '.join(near)}. All: {', '.join(CAUSES)}")
    about = CAUSES[id]
    return f"{id}\n{about.cause}\nRead: {about.section.said}\nThink: {about.hint}"
