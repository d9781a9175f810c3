"""Builds tiny Sphinx projects of notebooks, for the tests of sphinx-anywidget."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

PLAIN = "---\norphan: true\n---\n"
NOTEBOOK = """\
---
orphan: true
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""


@pytest.fixture(scope="session")
def build():
    """``build(folder, pages, **settings)``: what a build left behind. A page that holds a cell becomes a notebook."""

    def run(folder: Path, pages: dict[str, str], *, parallel: int = 1, **settings) -> SimpleNamespace:
        for name, text in pages.items():
            (folder / f"{name}.md").write_text((NOTEBOOK if "code-cell" in text else PLAIN) + text, encoding="utf-8")
        out = folder / "_build" / "html"
        conf = {
            "extensions": ["myst_nb", "sphinx_anywidget"],
            "exclude_patterns": ["_build"],
            "html_theme": "basic",
            "nb_execution_mode": "cache",
            **settings,
        }
        warnings, read = io.StringIO(), set()
        with patch_docutils(None), docutils_namespace():
            doctrees = folder / "_build" / ".doctrees"
            streams = {"status": None, "warning": warnings}
            app = Sphinx(folder, None, out, doctrees, "html", confoverrides=conf, parallel=parallel, **streams)
            app.connect("source-read", lambda app, name, source: read.add(name))
            app.build()

        def html(page: str = "index") -> str:
            return (out / f"{page}.html").read_text(encoding="utf-8")

        return SimpleNamespace(outdir=out, warnings=warnings.getvalue(), updated=read, html=html)

    return run
