"""Widgets alive on a page without a kernel: each anywidget in a notebook becomes a <div> that host.js starts.

The usual way needs require.js, an HTML manager and a CDN. Here a widget's state goes into the page as JSON, and its
front end (the `_esm` and `_css` of its class), once for each distinct content, into _static/widgets/. Works over http
and from file:// alike, and asks no other server for anything.
"""

import hashlib
import html
import importlib
import json
import re
from pathlib import Path

from docutils import nodes
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

__version__ = "0.1.0"
LOG = logging.getLogger(__name__)
HOST = Path(__file__).with_name("host.js")
# what myst-nb makes of an output that is a widget's view
VIEW = re.compile(r'\s*<script type="application/vnd\.jupyter\.widget-view\+json">(.*)</script>\s*$', re.S)
MARK = re.compile(r'<div class="static-widget" data-module="([0-9a-f]+)"')
# traits of ipywidgets' DOMWidget that mean nothing without a kernel
DROPPED = {"layout", "tabbable", "tooltip"}


def script_json(data) -> str:
    """JSON that may stand within a <script>: no `<` in it can end the script or begin a comment."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def page_state(env, docname: str) -> dict:
    """The state of a page's widgets, by model id.

    myst-nb has no public way to it: it keeps the state as the body of a script for the HTML manager, in the metadata
    of the page, which are in Sphinx's environment and so survive into incremental builds.
    """
    entry = NbMetadataCollector.get_js_files(env, docname).get("ipywidgets_state")
    return json.loads(entry[1]["body"])["state"] if entry else {}


def current_front_end(config, state: dict) -> tuple[str, str]:
    """(module, style sheet) of a widget.

    Those of its class as it is now, if its package is in `anywidget_current`; else those that the notebook's outputs
    carry, which are as old as the outputs.
    """
    module, _, name = state.get("_anywidget_id", "").rpartition(".")
    if module.split(".")[0] in config.anywidget_current:
        widget = getattr(importlib.import_module(module), name)
        return str(widget._esm), str(getattr(widget, "_css", ""))
    return state["_esm"], state.get("_css") or ""


def front_ends(config, states: dict) -> dict[str, tuple[str, str]]:
    """The front end of each anywidget on a page, by model id."""
    widgets = {name: model["state"] for name, model in states.items() if model["model_module"] == "anywidget"}
    return {name: current_front_end(config, state) for name, state in widgets.items() if "_esm" in state}


def find_other_front_ends(app, env, added, changed, removed):
    """Have Sphinx read, and so write, the pages whose widgets were written with another front end."""
    noted = {name: env.metadata[name].get("anywidget_front_ends") for name in env.found_docs}
    return [name for name, note in noted.items() if note and note != note_of(app, name)]


def note_of(app, docname: str) -> str:
    return digest(repr(sorted(front_ends(app.config, page_state(app.env, docname)).items())))


def note_front_ends(app, doctree):
    if page_state(app.env, app.env.docname):
        app.env.metadata[app.env.docname]["anywidget_front_ends"] = note_of(app, app.env.docname)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class WidgetsToStatic(SphinxPostTransform):
    default_priority = 6  # after myst-nb has chosen one format of each output (4): then its view is a raw node
    formats = ("html",)

    def run(self, **kwargs):
        state = None
        for node in list(self.document.findall(nodes.raw)):
            view = VIEW.match(node.astext())
            if not view:
                continue
            if state is None:
                state = page_state(self.env, self.env.docname)
            model_id = json.loads(view[1])["model_id"]
            model = state.get(model_id)
            if model is None or model["model_module"] != "anywidget":
                what = model["model_name"] if model else "one whose state was not saved"
                LOG.warning(
                    "a widget that does nothing without a kernel: only an anywidget does, this is %s",
                    what,
                    location=node,
                    type="anywidget",
                )
                node.replace_self(nodes.raw("", '<p class="widget-error">This needs a kernel.</p>', format="html"))
                continue
            node.replace_self(nodes.raw("", self.markup(model_id, model), format="html"))

    def markup(self, model_id: str, model: dict) -> str:
        state = model["state"]
        source, css = current_front_end(self.config, state)
        key = digest(f"{source}\0{css}")
        # named by its content: whoever writes it, and however often, writes the same
        parts = script_json([key, source, name_of(state, key)])
        script = f"(window.staticWidgets ??= []).push({parts});\n"
        write_if_other(widgets_folder(self.app) / f"{key}.js", script)
        write_if_other(widgets_folder(self.app) / f"{key}.css", css)
        public = {k: v for k, v in state.items() if not k.startswith("_") and k not in DROPPED}
        body = {"id": model_id, "esm": key, "state": public, "buffers": model.get("buffers") or []}
        # what stands here until the widget starts, and stays without JavaScript: a class may bring its own, as HTML,
        # and another extension may change it
        still = state.get("_still") or "<noscript>This interactive figure needs JavaScript.</noscript>"
        still = self.app.emit_firstresult("anywidget-still", still, f"w{model_id[:8]}-") or still
        return (
            f'<div class="static-widget" data-module="{key}" data-name="{html.escape(name_of(state, key))}">'
            f'<script type="application/json">{script_json(body)}</script>{still}</div>'
        )


def name_of(state: dict, key: str) -> str:
    """The widget class's name for people, as in `tiny_gpt.widgets.scaling.ScalingExplorer`."""
    return state.get("_anywidget_id") or key


def widgets_folder(app) -> Path:
    return Path(app.outdir, "_static", "widgets")


def write_if_other(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def choose(app, config):
    config.nb_ipywidgets_js = {}  # neither require.js nor the HTML manager, which myst-nb would link from a CDN


def write_host(app):
    if app.builder.format == "html":
        write_if_other(widgets_folder(app) / "host.js", HOST.read_text(encoding="utf-8"))


def add_scripts(app, pagename, templatename, context, doctree):
    """Link the modules that a page needs, and the host, before the bundle of what all pages share.

    Which ones is read from the page's body, which is at hand here however the page came to be written: in this process
    or in another, with all pages or alone.
    """
    keys = dict.fromkeys(MARK.findall(context.get("body", "")))
    for key in keys:
        app.add_js_file(f"widgets/{key}.js", priority=90, loading_method="async")
        app.add_css_file(f"widgets/{key}.css", priority=600)  # not by script: the still picture is styled by it too
    if keys:
        app.add_js_file("widgets/host.js", priority=90, loading_method="async")


def drop_state(app, pagename, templatename, context, doctree):
    # myst-nb has just added the whole page's state as a script for the HTML manager; here each widget has its own
    scripts = context.get("script_files", [])
    for script in list(scripts):
        if getattr(script, "attributes", {}).get("type") == "application/vnd.jupyter.widget-state+json":
            scripts.remove(script)


def setup(app):
    app.add_config_value("anywidget_current", [], "env", types=[list])
    app.add_event("anywidget-still")  # (app, HTML, what ids in it have to begin with): the HTML to show instead
    app.add_post_transform(WidgetsToStatic)
    app.connect("config-inited", choose)
    app.connect("builder-inited", write_host)
    app.connect("env-get-outdated", find_other_front_ends)
    app.connect("doctree-read", note_front_ends)
    app.connect("html-page-context", add_scripts)
    app.connect("html-page-context", drop_state, priority=600)  # after myst-nb's handler (500)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
