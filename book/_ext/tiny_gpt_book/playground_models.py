"""The trained models that pages run, as scripts in _static/models/, which a page adds when its reader wants them."""

from tiny_gpt import weights
from tiny_gpt.widgets.playground import scripts

from .static_files import publish


def write(app):
    if app.builder.format == "html":
        for name in (*weights.carried(), weights.STRANGERS):
            for file, text in scripts(name).items():
                publish(app, f"models/{file}", text)


def connect(app, on):
    on("builder-inited", write)
