"""Patches of the theme: no script that the book does not use, no request that fails, the system's light or dark theme.

Each mend says what is wrong without it. A mend of a template that finds nothing to mend is a warning (and so an error
in a strict build): after an update of the theme somebody looks again, instead of a problem coming back unseen.
"""

import re
import shutil
from pathlib import Path

from docutils import nodes
from jinja2 import TemplateNotFound
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

LOG = logging.getLogger(__name__)

DARK = 'matchMedia("(prefers-color-scheme: dark)").matches'
UNWANTED = ("sphinx_thebe", "sphinx_togglebutton")
# a storage that forgets, in place of one that throws
STORAGE = """for (const name of ["localStorage", "sessionStorage"])
      try { window[name].getItem("mode"); } catch {
        const kept = new Map();
        Object.defineProperty(window, name, { value: {
          getItem: (key) => kept.get(key) ?? null,
          setItem: (key, value) => void kept.set(key, String(value)),
          removeItem: (key) => void kept.delete(key),
        } });
      }"""
# template: [(pattern of what is there, what takes its place)]
TEMPLATES = {
    # fontawesome.js is 1.5 MB that draws the icons again, which the theme's style sheet and font have drawn already;
    # the theme's own sheets and scripts are part of the bundle (bundle.py)
    "static/webpack-macros.html": [
        (r"<script [^>]*fontawesome\.js.*?</script>", ""),
        (r"<(link|script) [^>]*>(</script>)?", ""),
    ],
    # the search's 30 kB, which without search-as-you-type only its page needs; there, after the deferred bundle
    "search.html": [(r"<script src=", "<script defer src=")],
    # security_policy.py lets no handler run that stands in an attribute; reading.js does what it says
    "../macros/buttons.html": [(r'onclick="{{ javascript }}"', 'data-does="{{ javascript }}"')],
    # its name for a screen reader has to begin with what it says
    "search-button-field.html": [(r' title="[^"]*" aria-label="[^"]*"', "")],
    # The mode "auto" is written into data-theme as it is, where the style sheets know only "light" and "dark": a page
    # without colours if there is no JavaScript, and a flash of light in a dark room until the deferred script has run.
    "pydata_sphinx_theme/layout.html": [
        (r"{{ _webpack\.head_js_preload\(\) }}", ""),  # nothing is left of it
        # what is beside the navigation in the side bar (the title, the search) belongs to a landmark as well
        (r'<div id="pst-primary-sidebar"', '<div id="pst-primary-sidebar" role="region" aria-label="Book"'),
        (r"{% if default_mode %}data-theme=.*?{% endif %}", 'data-theme="light"'),
        (
            r"{% else %}\s*{# Load Sphinx's built-in search tools.*?{% endif %}",
            # The bundle brings the fonts, and a browser unpacks one when it meets the first text in it. That moves what
            # has been shown; so they are unpacked before there is any text. This script waits for the style sheets, and
            # what stands behind it is asked for no sooner: it is the last in the head.
            "{% endif %}\n  <script>document.fonts.forEach((font) => font.load())</script>",
        ),
        # where the browser keeps nothing (blocked, or a sandbox), asking for the storage is an error at each step
        (r'<script data-cfasync="false">', f'<script data-cfasync="false">\n    {STORAGE}'),
        (
            r'dataset\.theme = localStorage\.getItem\("theme"\).*?;',
            f'dataset.theme = document.documentElement.dataset.mode === "auto" ? ({DARK} ? "dark" : "light")'
            " : document.documentElement.dataset.mode;",
        ),
    ],
}

# in what Sphinx and its extensions write of a page
BODY = [
    # the label hides from a screen reader what the line says: "Show code cell source"
    (r'<summary aria-label="Toggle hidden content">', "<summary>"),
    # the corner of a table heads nothing
    (r'<th class="head([^"]*)"><p></p></th>', r'<td class="head\1"></td>'),
    # the title of a margin note that has none
    (r'<p class="sidebar-title"></p>\s*', ""),
    # no role for a <div>, and out of use
    (r'role="doc-biblioentry"', 'role="listitem"'),
    # a formula and the stop behind it, or the bracket before it, stay on one line
    (
        r'([(“‘]*)(<span class="math notranslate nohighlight"><math(?:(?!</math>).)*</math></span>)([.,;:!?)”’]*)',
        lambda m: f'<span class="together">{m[0]}</span>' if m[1] or m[3] else m[0],
    ),
]
# without one, a browser asks the server for a favicon.ico that is not there
ICON = (
    '<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27'
    "%3E%3Cg fill=%27%230072B2%27%3E%3Cpath d=%27M2 2h3v3H2zM2 6.5h3v3H2zM6.5 6.5h3v3h-3zM2 11h3v3H2z"
    'M6.5 11h3v3h-3zM11 11h3v3h-3z%27/%3E%3C/g%3E%3C/svg%3E" />'
)


class MendedLoader:
    """A loader of the templates in TEMPLATES, mended; the loaders behind it supply what is mended, and all others."""

    def __init__(self, behind):
        self.behind = behind
        self.unasked = set(TEMPLATES)

    def get_source(self, environment, template):
        if template in TEMPLATES:
            self.unasked.discard(template)
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
            LOG.warning("nothing in the theme's %s matches %r any more", template, pattern, type="theme_patches")
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


def report_unasked(app):
    unasked = app.builder.templates.loaders[0].unasked
    if unasked == set(TEMPLATES):  # nothing had changed, and no page was written
        return
    for template in sorted(unasked):
        LOG.warning("the theme has no use for a template %s any more", template, type="theme_patches")


def silence(app):
    """Take back all that two extensions have set up, which Jupyter Book loads whether they are wanted or not.

    sphinx-thebe would start a kernel on somebody's server, which no page of this book asks for, and it declares its
    constants in two inline scripts: a SyntaxError on each page. sphinx-togglebutton folds solutions by a script, after
    the page has been shown open, and not without JavaScript: here they are <details>.
    """
    for event in app.events.listeners.values():
        event[:] = [listener for listener in event if not listener.handler.__module__.startswith(UNWANTED)]


def visit_solution(self, node):
    """A solution as <details>, as its class "dropdown" means: it opens by keyboard, by a search, without a script."""
    # its title is a link to the exercise, which stands right above; and a link is not for a line that opens something
    title = " ".join(node.pop(0).astext().split())
    self.body.append(self.starttag(node, "details", "", CLASS="admonition"))
    self.body.append(f'<summary class="admonition-title">{self.encode(title)}</summary>\n')


def depart_solution(self, node):
    self.body.append("</details>\n")


def fold_solutions(app, config):
    if "sphinx_exercise" in app.extensions:
        from sphinx_exercise.nodes import solution_node

        app.add_node(solution_node, override=True, html=(visit_solution, depart_solution))


class DistinctExercises(SphinxPostTransform):
    """Take the id off what is in an exercise or a solution: sphinx-exercise gives every one on a page the same."""

    default_priority = 10
    formats = ("html",)

    def run(self, **kwargs):
        for section in self.document.findall(nodes.section):
            if section["ids"] in (["exercise-content"], ["solution-content"]):
                section["ids"] = []


def mend_page(app, pagename, templatename, context, doctree):
    body = context.get("body", "")
    for pattern, replacement in BODY:
        body = re.sub(pattern, replacement, body, flags=re.S)
    context["body"] = body
    context["metatags"] = context.get("metatags", "") + ICON
    files = context.get("css_files", [])
    files[:] = [f for f in files if not re.search("sphinx-thebe|togglebutton", str(getattr(f, "filename", f)))]


def drop_files(static: Path):
    """Publish only what a page may ask for: not the dropped script, maps for debugging, or a font's other format."""
    unwanted = [
        "scripts/fontawesome.js*",
        "sphinx-thebe.*",
        "togglebutton.*",
        "*macros.html",
        "**/*.map",
        "**/*.ttf",
    ]
    for path in {path for pattern in unwanted for path in static.glob(pattern)}:
        path.unlink()
    shutil.rmtree(static / "locales", ignore_errors=True)  # the theme's words in 60 languages


def finish(app, pages):
    report_unasked(app)
    drop_files(Path(app.outdir, "_static"))


def connect(app, on):
    silence(app)
    on("config-inited", set_options)
    on("config-inited", fold_solutions)
    on("builder-inited", mend_templates)
    app.add_post_transform(DistinctExercises)
    on("html-page-context", mend_page)
