"""The book's style sheets: book/assets/book.css as it is, and the palette's colours as CSS variables."""

from pathlib import Path

from tiny_gpt import palette

from .static_files import publish

SHEET = Path(__file__).parents[2] / "assets" / "book.css"


def add(app):
    # by hand, not as html_static_path, which would also publish whatever else lies in that folder
    publish(app, "palette.css", palette.css())
    publish(app, "book.css", SHEET.read_text(encoding="utf-8"))
    app.add_css_file("palette.css", priority=800)
    app.add_css_file("book.css", priority=801)  # after the theme's own


def connect(app, on):
    on("builder-inited", add)
