"""The book without its solutions, for a teacher: `make book SOLUTIONS=off` leaves them out of pages and notebooks."""

import os

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

LOG = logging.getLogger(__name__)
CHOICES = ("on", "off")


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
    if config.solutions not in CHOICES:
        LOG.warning("SOLUTIONS is %r: say on or off", config.solutions)
    if config.solutions == "off":  # the pages' sources, which a reader may download, hold them
        config.html_copy_source = False
        config.html_theme_options = {**config.html_theme_options, "use_download_button": False}


def setup(app):
    app.add_config_value("solutions", "on", "html")
    app.connect("config-inited", choose)
    app.add_post_transform(LeaveOut)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
