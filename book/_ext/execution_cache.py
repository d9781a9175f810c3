"""A page shows what today's package computes: a change of the package re-runs the pages, not only a change of a page.

Jupyter's cache knows a notebook by its cells and so answers with yesterday's outputs after a change in
src/. Here each state of the package, of the pinned versions and of the TINY_GPT_* variables has a cache of its own, in
a folder named by a hash of them all. The folder is a setting that Sphinx keeps with the documents it has read (its
rebuild class is "env"): when it changes, Sphinx reads, and so runs, every page again, and nothing else is needed.
A change of these extensions makes Sphinx read every page again as well, but from the cache, without running it.
"""

import hashlib
import os
import shutil
from pathlib import Path

KEEP = 4  # states, so that going to another branch and back costs nothing


def state(root: Path, environ: dict[str, str]) -> str:
    """A hash of everything, besides a page itself, that its outputs are made from."""
    digest = hashlib.sha256()

    def add(name: str, content: bytes):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)

    sources = [
        p for p in sorted((root / "src" / "tiny_gpt").rglob("*")) if p.is_file() and "__pycache__" not in p.parts
    ]
    runs = sorted((root / "book" / "assets" / "runs").glob("*.json"))  # records that pages show
    for path in [*sources, *runs, root / "requirements.txt"]:
        if path.exists():
            add(path.relative_to(root).as_posix(), path.read_bytes())
    for name in sorted(n for n in environ if n.startswith("TINY_GPT_")):
        add(name, environ[name].encode())
        path = Path(environ[name])  # a variable that names a file means what is in the file
        if path.is_file():
            add(f"{name} (file)", path.read_bytes())
    return digest.hexdigest()[:16]


def choose_cache(app, config):
    folder = Path(app.outdir).resolve().parent / ".jupyter_cache"
    chosen = folder / state(Path(app.srcdir), dict(os.environ))
    config.nb_execution_cache_path = str(chosen)
    if chosen.exists():
        os.utime(chosen)
    if folder.exists():
        others = sorted((p for p in folder.iterdir() if p != chosen), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in others[KEEP - 1 :]:
            shutil.rmtree(old) if old.is_dir() else old.unlink()


def note_extensions(app, config):
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.*")):
        digest.update(path.read_bytes())
    config.extensions_state = digest.hexdigest()


def setup(app):
    app.add_config_value("extensions_state", "", "env")
    app.connect("config-inited", note_extensions)
    app.connect("config-inited", choose_cache)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
