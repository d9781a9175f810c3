"""How every part publishes a file of its own: written into _static, and only if it would be another than before."""

from pathlib import Path


def publish(app, name: str, text: str) -> None:
    """Write _static/NAME, unless the builder makes no HTML."""
    path = Path(app.outdir, "_static", name)
    if app.builder.format == "html" and not (path.exists() and path.read_text(encoding="utf-8") == text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
