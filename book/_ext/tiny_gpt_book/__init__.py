"""The book's Sphinx extension: all that makes its pages other than Jupyter Book would.

PARTS stand in the order in which they act on each event. They act after every other extension, so a part sees what
Sphinx, MyST-NB and the theme have made, and what the parts above it have made of that.
"""

from pathlib import Path

from . import (
    bundle,
    execution,
    inline_svg,
    mathml,
    notebooks,
    playground_models,
    reading,
    security_policy,
    single_build,
    site_address,
    site_files,
    solutions,
    style_sheets,
    theme_patches,
    translation,
)

AFTER_OTHERS = 900  # Sphinx calls handlers in the order of such a number; 500 is what extensions have
PARTS = (
    # before anything is read: another build has to end, and pages have to be executed
    single_build,
    execution,
    # what the book is: with or without solutions, published where, and so with which addresses, cards and links
    solutions,
    site_address,
    site_files,
    # what a page holds
    mathml,
    inline_svg,
    notebooks,
    playground_models,
    # how it looks: the theme's faults first, then the book's own style sheets and script, which come after the theme's
    theme_patches,
    style_sheets,
    reading,
    translation,
    # once every file that pages ask for is known, they become one style sheet and one script
    bundle,
    # last, since it names each script in a page by its hash
    security_policy,
)


def connect(app, parts) -> None:
    """Set up these parts.

    A part has `connect(app, on)`, where `on(event, handler)` connects a handler in the order of the parts, or
    `finish(app, pages)`, which changes the site's pages, {path: HTML}, once all are written; or both.
    """

    def on(event, handler):
        app.connect(event, handler, priority=AFTER_OTHERS)

    def finish(app, exception):
        """Read every page of the site once, let each part change it, and write it once if it is another."""
        if exception or app.builder.format != "html":
            return
        out = Path(app.outdir)
        paths = [path for path in out.rglob("*.html") if "_static" not in path.relative_to(out).parts]
        before = {path: path.read_text(encoding="utf-8") for path in paths}
        pages = dict(before)
        for part in parts:
            if hasattr(part, "finish"):
                part.finish(app, pages)
        for path, text in pages.items():
            if text != before[path]:
                path.write_text(text, encoding="utf-8")

    on("build-finished", finish)
    for part in parts:
        if hasattr(part, "connect"):
            part.connect(app, on)


def setup(app):
    app.setup_extension("sphinx_anywidget")
    connect(app, PARTS)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
