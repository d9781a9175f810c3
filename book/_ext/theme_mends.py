"""Mends of the theme: no script that the book does not use, no request that fails, the system's light or dark theme.

Each mend says what is wrong without it. A mend of a template that finds nothing to mend is a warning (and so an error
in a strict build): after an update of the theme somebody looks again, instead of a problem coming back unseen.
"""

import re
from pathlib import Path

from docutils import nodes
from jinja2 import TemplateNotFound
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

LOG = logging.getLogger(__name__)

DARK = 'matchMedia("(prefers-color-scheme: dark)").matches'
# template: [(pattern of what is there, what takes its place)]
TEMPLATES = {
    # 1.5 MB of JavaScript that draws the icons again, which the theme's style sheet and font have drawn already
    "static/webpack-macros.html": [(r"<script [^>]*fontawesome\.js.*?</script>", "")],
    # The mode "auto" is written into data-theme as it is, where the style sheets know only "light" and "dark": a page
    # without colours if there is no JavaScript, and a flash of light in a dark room until the deferred script has run.
    "pydata_sphinx_theme/layout.html": [
        (r"{% if default_mode %}data-theme=.*?{% endif %}", 'data-theme="light"'),
        (
            r'dataset\.theme = localStorage\.getItem\("theme"\).*?;',
            f'dataset.theme = document.documentElement.dataset.mode === "auto" ? ({DARK} ? "dark" : "light")'
            " : document.documentElement.dataset.mode;",
        ),
    ],
}


class MendedLoader:
    """A loader of the templates in TEMPLATES, mended; the loaders behind it supply what is mended, and all others."""

    def __init__(self, behind):
        self.behind = behind

    def get_source(self, environment, template):
        if template in TEMPLATES:
            for loader in self.behind:
                try:
                    source, filename, fresh = loader.get_source(environment, template)
                except TemplateNotFound:
                    continue
                return mend(template, source), filename, fresh
        raise TemplateNotFound(template)


def mend(template: str, source: str) -> str:
    for pattern, replacement in TEMPLATES[template]:
        source, found = re.subn(pattern, lambda _, new=replacement: new, source, flags=re.S)
        if not found:
            LOG.warning("nothing in the theme's %s matches %r any more", template, pattern, type="theme_mends")
    return source


def set_options(app, config):
    # Set here, one by one: theme options in _config.yml would replace all those that Jupyter Book has set.
    config.html_theme_options["navbar_persistent"] = []  # else a second search box, in a bar of its own
    # the mode before the reader has chosen; left open, the theme's script reports an error on each page
    config.html_context.setdefault("default_mode", "auto")


def mend_templates(app):
    if app.builder.format == "html":
        loaders = app.builder.templates.loaders
        loaders.insert(0, MendedLoader(list(loaders)))


def silence_thebe(app):
    """Take back all that sphinx-thebe has set up, which Jupyter Book loads whether it is wanted or not.

    It would start a kernel on somebody's server, which no page of this book asks for, and it declares its constants in
    two inline scripts: a SyntaxError on each page.
    """
    for event in app.events.listeners.values():
        event[:] = [listener for listener in event if not listener.handler.__module__.startswith("sphinx_thebe")]


class DistinctExercises(SphinxPostTransform):
    """Take the id off what is in an exercise or a solution: sphinx-exercise gives every one on a page the same."""

    default_priority = 10
    formats = ("html",)

    def run(self, **kwargs):
        for section in self.document.findall(nodes.section):
            if section["ids"] in (["exercise-content"], ["solution-content"]):
                section["ids"] = []


def mend_page(app, pagename, templatename, context, doctree):
    # the label hides from a screen reader what the line says: "Show code cell source"
    context["body"] = context.get("body", "").replace('<summary aria-label="Toggle hidden content">', "<summary>")
    files = context.get("css_files", [])
    files[:] = [file for file in files if "sphinx-thebe" not in str(getattr(file, "filename", file))]


def drop_files(app, exception):
    """Publish only what a page may ask for: not the dropped script, maps for debugging, or a font's other format."""
    if app.builder.format == "html" and not exception:
        static = Path(app.outdir, "_static")
        for path in {*static.glob("scripts/fontawesome.js*"), *static.rglob("*.map"), *static.rglob("*.ttf")}:
            path.unlink()


def setup(app):
    silence_thebe(app)
    app.connect("config-inited", set_options)
    app.connect("builder-inited", mend_templates)
    app.add_post_transform(DistinctExercises)
    app.connect("html-page-context", mend_page)
    app.connect("build-finished", drop_files)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
