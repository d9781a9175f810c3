"""The book without its solutions, for a teacher: `make book SOLUTIONS=off` leaves them out of pages and notebooks.

A folder holds a book of one kind. Before one of the other kind is built into it, it is cleared: no page's source, PDF
or notebook with solutions stays in a folder that is handed out. _build/solutions says which kind was built last, and
`make zip` and `make pdf` keep it.
"""

import os
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

LOG = logging.getLogger(__name__)
KINDS = {"on": "", "off": "-without-solutions"}  # and what the names of its files end in


class LeaveOut(SphinxPostTransform):
    """sphinx-exercise has a setting for this, which does not reach solutions that hold cells."""

    default_priority = 1  # before anything is resolved, so that nobody misses what only a solution refers to

    def run(self, **kwargs):
        if self.app.config.solutions == "off":
            for node in [node for node in self.document.findall(nodes.Element) if is_solution(node)]:
                node.parent.remove(node)


def is_solution(node) -> bool:
    return node.tagname.startswith("solution") and node.tagname.endswith("node")


def choose(app, config):
    config.solutions = os.environ.get("SOLUTIONS") or "on"
    if config.solutions not in KINDS:
        LOG.warning("SOLUTIONS is %r: say on or off", config.solutions)
        config.solutions = "off"  # whoever said anything meant to leave something out
    if config.solutions == "off":  # the pages' sources, which a reader may download, hold them
        config.html_copy_source = False
        config.html_theme_options = {**config.html_theme_options, "use_download_button": False}


def clear_other_kind(app):
    if app.builder.format != "html":
        return
    out, kind = Path(app.outdir), app.config.solutions
    record = out.parent / "solutions"
    if not record.exists() or record.read_text(encoding="utf-8") != kind:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        record.write_text(kind, encoding="utf-8")


def finish(app, pages):
    LOG.info("This is the book %s.", "with its solutions" if app.config.solutions == "on" else "WITHOUT SOLUTIONS")


def connect(app, on):
    app.add_config_value("solutions", "on", "html")
    app.add_post_transform(LeaveOut)
    on("config-inited", choose)
    # before any extension writes into the folder
    app.connect("builder-inited", clear_other_kind, priority=0)
