"""The reading experience's own script (reading.js: reading marks, paper, the theme's name), and ways to the exercises.

Each exercise names its section. Here the section answers: at its end stand the exercises that practise it.
"""

from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from .static_files import publish

SCRIPT = Path(__file__).with_name("reading.js")


class SectionsToExercises(SphinxPostTransform):
    default_priority = 30  # after sphinx-exercise has resolved its titles and references (20 to 22)
    formats = ("html",)

    def run(self, **kwargs):
        sections = {name: section for section in self.document.findall(nodes.section) for name in section["ids"]}
        exercises = {}
        for meta in self.document.findall(nodes.paragraph):
            if "exercise-meta" not in meta["classes"]:
                continue
            for reference in meta.findall(nodes.reference):
                if reference.get("refid") in sections:
                    exercise = next(node for node in parents(meta) if node.tagname.startswith("exercise"))
                    exercises.setdefault(reference["refid"], []).append(exercise)
        numbers = self.env.toc_fignumbers.get(self.env.docname, {}).get("exercise", {})
        for section, several in exercises.items():
            line = nodes.paragraph("", "Practise: ", classes=["practise"])
            for number, exercise in enumerate(several):
                if number:
                    line += nodes.Text(", ")
                name = exercise["ids"][0]
                number = ".".join(map(str, numbers.get(name, ())))
                title = " ".join(exercise[0].astext().split()).strip("()")
                line += nodes.reference("", f"Exercise {number} ({title})", internal=True, refid=name)
            after_own_text(sections[section], line)


def parents(node):
    while node.parent is not None:
        node = node.parent
        yield node


def after_own_text(section, line) -> None:
    """Put the line at the section's end, before the first of its subsections."""
    place = next((i for i, child in enumerate(section) if isinstance(child, nodes.section)), len(section))
    # a label of what follows belongs to what follows
    while place and isinstance(section[place - 1], nodes.target):
        place -= 1
    section.insert(place, line)


def add(app):
    publish(app, SCRIPT.name, SCRIPT.read_text(encoding="utf-8"))
    app.add_js_file(SCRIPT.name, priority=700, loading_method="defer")


def connect(app, on):
    on("builder-inited", add)
    app.add_post_transform(SectionsToExercises)
