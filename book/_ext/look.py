"""The book's style sheets: book/assets/book.css as it is, and the palette's colours as CSS variables."""

from pathlib import Path

from tiny_gpt import palette

SHEET = Path(__file__).parent.parent / "assets" / "book.css"


def register(app):
    # by hand, not as html_static_path, which would also publish whatever else lies in that folder
    app.add_css_file("palette.css", priority=800)
    app.add_css_file("book.css", priority=801)  # after the theme's own


def write(app):
    if app.builder.format == "html":
        static = Path(app.outdir, "_static")
        static.mkdir(parents=True, exist_ok=True)
        (static / "palette.css").write_text(palette.css(), encoding="utf-8")
        (static / "book.css").write_text(SHEET.read_text(encoding="utf-8"), encoding="utf-8")


def setup(app):
    app.connect("builder-inited", register)
    app.connect("builder-inited", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
