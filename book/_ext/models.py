"""The trained models that pages run, as scripts in _static/models/, which a page adds when its reader wants them."""

from pathlib import Path

from static_widgets import write_if_other

from tiny_gpt import weights
from tiny_gpt.widgets.playground import scripts


def write(app):
    if app.builder.format != "html":
        return
    for name in weights.carried():
        for file, text in scripts(name).items():
            write_if_other(Path(app.outdir, "_static", "models", file), text)


def setup(app):
    app.connect("builder-inited", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
