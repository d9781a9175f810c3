"""A change of the package, its pins or its variables runs every page again; nothing else does."""

import os

import pytest
from sphinx_project import NOTEBOOK, build

# each run of a cell leaves a line in a file: what the tests count
PAGE = """
# {title}

```{{code-cell}} python
---
mystnb:
  figure:
    caption: {caption}
---
from pathlib import Path
from IPython.display import HTML
with Path("{log}").open("a") as file:
    file.write("{title}\\n")
HTML("<b>" + Path("{package}").read_text() + "</b>")
```
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A function that builds a book of two pages beside a tiny package, and returns the site and which pages ran."""
    for name in [n for n in os.environ if n.startswith("TINY_GPT_")]:
        monkeypatch.delenv(name)
    package = tmp_path / "src" / "tiny_gpt"
    package.mkdir(parents=True)
    (package / "part.txt").write_text("one")
    (tmp_path / "requirements.txt").write_text("a==1\n")
    log = tmp_path / "ran.txt"

    def make(caption="What to see.", **settings):
        log.write_text("")
        values = {"log": log, "package": package / "part.txt", "caption": caption}
        pages = {
            "index": NOTEBOOK + PAGE.format(title="First", **values),
            "second": NOTEBOOK + PAGE.format(title="Second", **values),
        }
        for name in list(pages):  # an unchanged page is not touched
            path = tmp_path / f"{name}.md"
            if path.exists() and path.read_text() == pages[name]:
                del pages[name]
        site = build(tmp_path, pages, ["execution_cache"], exclude_patterns=["_build", "src"], **settings)
        assert site.warnings == ""
        return site, sorted(log.read_text().split())

    make.root = tmp_path
    return make


def test_nothing_changed_nothing_runs(book):
    assert book()[1] == ["First", "Second"]
    site, ran = book()
    assert ran == []
    assert site.updated == set()


def test_a_change_of_the_package_runs_and_rewrites_every_page(book):
    site, _ = book()
    assert "<b>one</b>" in site.html("second")
    (book.root / "src" / "tiny_gpt" / "part.txt").write_text("two")
    site, ran = book()
    assert ran == ["First", "Second"]
    assert "<b>two</b>" in site.html("index")
    assert "<b>two</b>" in site.html("second")


def test_going_back_to_a_state_shows_its_outputs_without_running(book):
    part = book.root / "src" / "tiny_gpt" / "part.txt"
    book()
    part.write_text("two")
    book()
    part.write_text("one")
    site, ran = book()
    assert ran == []
    assert "<b>one</b>" in site.html()


@pytest.mark.parametrize(
    "what", ["a new file", "a renamed file", "the pins", "a variable", "the file a variable names", "a record"]
)
def test_everything_else_that_outputs_are_made_from(book, what, monkeypatch):
    text = book.root / "text.txt"
    text.write_text("old")
    if what == "the file a variable names":
        monkeypatch.setenv("TINY_GPT_DATA", str(text))
    (book.root / "src" / "tiny_gpt" / "x.mjs").write_text("x")
    book()
    match what:
        case "a new file":
            (book.root / "src" / "tiny_gpt" / "new.py").write_text("")
        case "a renamed file":
            (book.root / "src" / "tiny_gpt" / "x.mjs").rename(book.root / "src" / "tiny_gpt" / "y.mjs")
        case "a record":
            (book.root / "book" / "assets" / "runs").mkdir(parents=True)
            (book.root / "book" / "assets" / "runs" / "gpu.json").write_text("{}")
        case "the pins":
            (book.root / "requirements.txt").write_text("a==2\n")
        case "a variable":
            monkeypatch.setenv("TINY_GPT_FAST", "1")
        case "the file a variable names":
            text.write_text("new")
    assert book()[1] == ["First", "Second"]


def test_bytecode_is_no_change(book):
    book()
    cache = book.root / "src" / "tiny_gpt" / "__pycache__"
    cache.mkdir()
    (cache / "part.pyc").write_bytes(b"\0")
    assert book()[1] == []


def test_a_new_caption_shows_though_the_code_is_the_same(book):
    book()
    assert "Something else to see." in book(caption="Something else to see.")[0].html()


def test_old_states_are_thrown_away(book):
    import execution_cache as extension

    for number in range(6):
        (book.root / "src" / "tiny_gpt" / "part.txt").write_text(str(number))
        folder = book.root / "_build" / ".jupyter_cache" / extension.state(book.root, {})
        folder.mkdir(parents=True)
        os.utime(folder, (number, number))
    book()
    assert len(list((book.root / "_build" / ".jupyter_cache").iterdir())) == extension.KEEP
