"""Builds tiny Sphinx projects with parts of the book's extension, for the tests of those parts."""

import io
import re
import sys
from importlib import import_module
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

ROOT = Path(__file__).parent.parent
EXTENSIONS = ROOT / "book" / "_ext"
if str(EXTENSIONS) not in sys.path:
    sys.path.insert(0, str(EXTENSIONS))

import tiny_gpt_book  # noqa: E402

NOTEBOOK = """\
---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""


class Site:
    """What a build left behind: its warnings, and the pages."""

    def __init__(self, outdir: Path, warnings: str, status: str, updated: set[str]):
        self.outdir, self.status, self.updated = outdir, status, updated
        lines = re.sub(r"\x1b\[[0-9;]*m", "", warnings).splitlines(keepends=True)
        # these projects have no table of contents
        self.warnings = "".join(line for line in lines if "isn't included in any toctree" not in line)

    def html(self, page: str = "index") -> str:
        return (self.outdir / f"{page}.html").read_text(encoding="utf-8")


def write(folder: Path, pages: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


class Parts:
    """Some parts of the book's extension, as an extension that Sphinx finds in `sys.modules`."""

    def __init__(self, names: list[str]):
        self.parts = [import_module(f"tiny_gpt_book.{name}") for name in names]

    def setup(self, app):
        tiny_gpt_book.connect(app, self.parts)
        return {"parallel_read_safe": True, "parallel_write_safe": True}


def build(folder: Path, pages: dict[str, str], extensions: list[str], *, parallel: int = 1, **settings) -> Site:
    """Write the pages into `folder`, build what is there into `folder/_build/html`, return the result.

    Among the extensions may be names of parts of the book's own, which is then set up with those alone.
    """
    parts = [name for name in extensions if (EXTENSIONS / "tiny_gpt_book" / f"{name}.py").exists()]
    extensions = [name for name in extensions if name not in parts]
    sys.modules["parts_of_the_book"] = Parts(parts)
    write(folder, pages)
    outdir = folder / "_build" / "html"
    conf = {
        "extensions": ["myst_nb", *extensions, "parts_of_the_book"],
        "exclude_patterns": ["_build"],
        "html_theme": "basic",
        "nb_execution_mode": "cache",
        "nb_execution_raise_on_error": True,
        "myst_enable_extensions": ["dollarmath", "amsmath", "colon_fence"],
        "nitpicky": True,
        **settings,
    }
    status, warnings, updated = io.StringIO(), io.StringIO(), set()
    with patch_docutils(None), docutils_namespace():
        app = Sphinx(
            folder,
            None,
            outdir,
            folder / "_build" / ".doctrees",
            "html",
            confoverrides=conf,
            status=status,
            warning=warnings,
            parallel=parallel,
        )
        app.connect("source-read", lambda app, docname, source: updated.add(docname))
        app.build()
    return Site(outdir, warnings.getvalue(), status.getvalue(), updated)
