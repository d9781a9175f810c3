"""Executes stale pages before Sphinx reads any, two at a time; every other page is read from Jupyter's cache.

A page is stale when its cells have changed, or anything that `dependencies` finds they use, or the packages that ours
runs on, or a TINY_GPT_* variable that this code asks for. Jupyter's cache knows a notebook by its cells alone, so each
page has a cache for each state of everything else, in a folder that is named by a hash of it:
_build/.jupyter_cache/PAGE/STATE. A change of style sheets, of a widget's front end or of these extensions changes no
state: pages are then written again, but not executed.
"""

import hashlib
import importlib.metadata
import os
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

from myst_nb.core.execute import ExecutionError, create_client
from myst_nb.core.read import create_nb_reader
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.errors import ExtensionError
from sphinx.util import logging

from tiny_gpt.data import Text, load_text

from .dependencies import Package, code_of, named_files

LOG = logging.getLogger(__name__)
MYST_NB = logging.getLogger(f"{__name__}.myst_nb")  # which would say three things about each page
MYST_NB.setLevel("ERROR")
KEPT = 4  # states of a page, so that going to another branch and back costs nothing
AT_A_TIME = 2  # pages; each is a process of its own, with a PyTorch of about 1 GB
CELL = re.compile(r"^(```+|:::+) *\{code-cell\}[^\n]*\n(.*?)^\1\s*$", re.S | re.M)
OPTIONS = re.compile(r"\A(?:---\n.*?\n---\n|(?::[\w-]+:[^\n]*\n)*)", re.S)
VARIABLE = re.compile(r"TINY_GPT_[A-Z_]+")


@cache
def text() -> Text:
    """The text that pages find when they ask for one."""
    return load_text()


def code_cells(page: str) -> list[str]:
    """The code of a page's cells."""
    return [OPTIONS.sub("", match[2], count=1) for match in CELL.finditer(page)]


def runs_on() -> list[str]:
    """What the package runs on, with versions: a new PyTorch may give other numbers."""
    names = [re.match(r"[\w-]+", line)[0] for line in importlib.metadata.requires("tiny-gpt") if "extra" not in line]
    return [f"Python {sys.version_info.major}.{sys.version_info.minor}"] + [
        f"{name} {importlib.metadata.version(name)}" for name in sorted(names)
    ]


class States:
    """The state of each page: a hash of all that its outputs depend on, besides its own cells."""

    def __init__(self, root: Path, environ: dict[str, str]):
        self.root, self.environ = root, environ
        self.package = Package(root / "src" / "tiny_gpt")
        self.versions = runs_on()
        self.digest = cache(lambda path: hashlib.sha256(path.read_bytes()).digest())

    def of(self, page: Path) -> str | None:
        """The state of a page, or None if it has no cells."""
        cells = code_cells(page.read_text(encoding="utf-8"))
        if not cells:
            return None
        tree = code_of(cells)
        files = set(self.package.modules.values()) | set(self.package.data)  # if a cell cannot be understood
        if tree is not None:
            files = self.package.reached(tree) | named_files(tree, page.parent)
        digest = hashlib.sha256("\n".join(self.versions).encode())
        code = [*cells]
        for path in sorted(files):
            digest.update(f"{path.relative_to(self.root).as_posix()}\0".encode() + self.digest(path))
            if path.suffix == ".py":
                code.append(self.package.read(path).decode())
        for name in sorted({name for part in code for name in VARIABLE.findall(part)}):
            digest.update(f"{name}={self.environ.get(name)}\0".encode() + self.named_by(name))
        return digest.hexdigest()[:16]

    def named_by(self, variable: str) -> bytes:
        """What is in the file that a variable names; without TINY_GPT_DATA the text is found elsewhere."""
        path = Path(self.environ.get(variable) or "")
        if path.is_file():
            return path.read_bytes()
        return text().text.encode() if variable == "TINY_GPT_DATA" and variable not in self.environ else b""


def cache_folder(app, docname: str) -> Path:
    folder = Path(app.outdir).resolve().parent / ".jupyter_cache" / docname.replace("/", "-")
    return folder / app.env.page_states[docname]


def find_stale(app, env, added, changed, removed):
    """Have Sphinx read the pages whose state is another than when it read them last."""
    states = States(Path(app.srcdir), dict(os.environ))
    found = {docname: states.of(Path(env.doc2path(docname))) for docname in sorted(env.found_docs)}
    env.page_states = {docname: state for docname, state in found.items() if state}
    return [name for name, state in env.page_states.items() if env.metadata[name].get("page_state") != state]


def note_state(app, doctree):
    if state := app.env.page_states.get(app.env.docname):
        app.env.metadata[app.env.docname]["page_state"] = state


def choose_cache(app, docname, source):
    """Let MyST-NB, which reads a page next, find its outputs."""
    if docname in app.env.page_states:
        folder = cache_folder(app, docname)
        app.env.mystnb_config = app.env.mystnb_config.copy(execution_cache_path=str(folder))


def execute(app, docname: str) -> str:
    """Put a page's outputs into its cache unless they are there. Returns the traceback of a cell that failed, or ""."""
    page, folder = Path(app.env.doc2path(docname)), cache_folder(app, docname)
    content = page.read_text(encoding="utf-8")
    config = app.env.mystnb_config.copy(execution_cache_path=str(folder), execution_raise_on_error=True)
    reader = create_nb_reader(str(page), app.env.myst_config, config, content)
    began = time.monotonic()
    client = create_client(reader.read(content), str(page), config, MYST_NB, reader.read_fmt)
    try:
        client.start_client()
    except ExecutionError as error:
        return str(error.__cause__)
    if client.exec_metadata["mtime"] > time.time() - (time.monotonic() - began):
        LOG.info("executed %s in %.0f s", docname, client.exec_metadata["runtime"])
    os.utime(folder)
    drop_old(folder)
    return ""


def drop_old(newest: Path) -> None:
    states = sorted(newest.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in states[KEPT:]:
        shutil.rmtree(old)


def execute_stale(app, env, docnames):
    """Execute the pages that are about to be read, the longest first; fail once all have been tried."""
    pages = [name for name in docnames if name in env.page_states]
    ran = {name: NbMetadataCollector.get_exec_data(env, name) or {} for name in pages}
    # what has never run goes first, the end of the book before its beginning: that is where models are trained
    pages = sorted(reversed(pages), key=lambda name: -(ran[name].get("runtime") or float("inf")))
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the kernels: several threads each would wait for one another
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        errors = pool.map(partial(execute, app), pages)
    failed = {name: error for name, error in zip(pages, errors, strict=True) if error}
    for name, error in failed.items():
        LOG.error("a cell failed:\n%s", error, location=name)
    if failed:
        raise ExtensionError(f"not built, because a cell failed: {', '.join(failed)}")


def say_which_text(app, env):
    if any("load_text" in Path(env.doc2path(name)).read_text(encoding="utf-8") for name in env.page_states):
        LOG.info("The text that the pages use: %s, from %s. %s", text().name, text().source, text().problem)


def note_extensions(app, config):
    """Have Sphinx read every page again, from the cache, when one of these extensions has changed."""
    digest = hashlib.sha256()
    root = Path(app.srcdir)
    for path in sorted([*(root / "book" / "_ext").rglob("*.*"), *(root / "packages").glob("*/src/**/*.*")]):
        if path.suffix in (".py", ".js"):
            digest.update(path.read_bytes())
    config.extensions_state = digest.hexdigest()


def connect(app, on):
    app.add_config_value("extensions_state", "", "env")
    on("config-inited", note_extensions)
    on("env-get-outdated", find_stale)
    on("env-before-read-docs", execute_stale)
    on("source-read", choose_cache)
    on("doctree-read", note_state)
    on("env-updated", say_which_text)
