"""Notebooks of a small book: what the constructs of a page become, which cells stay, and how the package gets in."""

import ast
import re
import subprocess
import sys
import zipfile

import nbformat
import pytest
from markdown_it import MarkdownIt
from sphinx_project import NOTEBOOK, ROOT, build
from tiny_gpt_book.notebooks import (  # through sphinx_project
    build_wheel,
    code_span,
    escape,
    first_cell,
    launchers,
    paragraph,
)

import tiny_gpt

PAGE = (
    NOTEBOOK.replace("---\n", "---\naccelerator: GPU\n", 1)
    + """
(ch-a)=
# A title with $x_1$

:::{admonition} Audience and objectives
:class: objectives
- **Before:** nothing ([](ch-b)).
- **Afterwards** all.
:::

```{code-cell} python
:tags: [hide-cell]
value = 6 * 7
```

(sec-one)=
## One

Costs 5$ and a * star, `co|de`, {ref}`ch-b`, {ref}`here <sec-one>`, and {glue:text}`answer`; see {numref}`fig-x`.

$$a = b$$ (eq-a)

By {eq}`eq-a`:

```{code-cell} python
:tags: [remove-cell]
from myst_nb import glue
glue("answer", value)
```

| name | $x$ |
|:--|--:|
| `a\\|b` | 2 |

```{margin}
A side note.
```

```{code-cell} python
---
mystnb:
  figure:
    name: fig-x
    caption: |
      What *to see*.
tags: [hide-input]
---
from IPython.display import SVG, display
SVG('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>')
```

```{exercise-start} Add
:label: ex-add
```
{.exercise-meta}
Difficulty 1 of 5 · [Section](sec-one)

Add.

```{dropdown} Hint
Use `+`.
```

```{code-cell} python
def add(a, b):
    ...  # your code here
```
```{exercise-end}
```

```{solution-start} ex-add
:class: dropdown
```
Like this:

```{code-cell} python
def solved(a, b):
    return a + b
```
```{solution-end}
```
"""
)
PAGES = {"index": PAGE, "b": "(ch-b)=\n# Chapter B\n\nText.\n"}
EXTENSIONS = ["sphinx_design", "sphinx_exercise", "site_address", "notebooks"]
SETTINGS = {
    "myst_enable_extensions": ["dollarmath", "colon_fence", "attrs_block"],
    "numfig": True,
    "html_theme": "sphinx_book_theme",
    "html_title": "A book",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The site, and its one notebook, of a book of which no address is known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GITHUB_REPOSITORY", raising=False)
        site = build(tmp_path_factory.mktemp("book"), PAGES, EXTENSIONS, **SETTINGS)
    assert site.warnings == ""
    return site, nbformat.read(site.outdir / "notebooks" / "index.ipynb", as_version=4)


def prose(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_only_chapters_become_notebooks(made):
    site, notebook = made
    assert [path.name for path in (site.outdir / "notebooks").glob("*.ipynb")] == ["index.ipynb"]
    nbformat.validate(notebook)


def test_cells_that_are_the_books_own_and_outputs_are_left_out(made):
    _, notebook = made
    sources = [cell.source for cell in code(notebook)]
    assert not any("myst_nb" in source for source in sources)
    assert sources[1].endswith("value = 6 * 7")
    assert sources[2].endswith('\nglue("answer", value)')
    assert sources[3].endswith("</svg>')")
    assert sources[4:] == ["def add(a, b):\n    ...  # your code here"]
    assert not any(cell.outputs or cell.execution_count for cell in code(notebook))


def test_a_number_of_the_build_is_marked_and_that_of_the_readers_run_is_printed(made, capsys):
    cell = next(cell for cell in code(made[1]) if "glue(" in cell.source)
    exec(cell.source, {"value": 43})
    assert capsys.readouterr().out == "answer: 43\n"
    assert "the book's own run" in prose(made[1])


def test_folded_cells_are_folded_everywhere(made):
    _, notebook = made
    folded = [cell for cell in code(notebook) if "cellView" in cell.metadata]
    assert [cell.source.split("\n")[0] for cell in folded] == [
        "# @title Set-up: run this cell first",
        "# @title Imports",
        "# @title Numbers of the text, as your run has them",
        "# @title Draw Figure 1",
    ]
    assert all(cell.metadata["jupyter"]["source_hidden"] for cell in folded)


def test_the_constructs_become_markdown(made):
    text = prose(made[1])
    assert text.startswith("# A title with $x_1$\n\nA chapter of *A book*")
    assert "> **Audience and objectives**\n>\n> - **Before:** nothing (Chapter B).\n> - **Afterwards** all." in text
    assert "Costs 5\\$ and a \\* star, `co|de`, Chapter B, here, and *42*; see Fig. 1." in text
    assert "$$\na = b \\tag{1}\n$$\n\nBy (1):" in text
    assert "| name | $x$ |\n| :-- | --: |\n| `a\\|b` | 2 |" in text
    assert "> A side note." in text
    assert "**Figure 1.** What *to see*." in text
    assert "### Exercise 1: Add\n\nDifficulty 1 of 5 · Section One\n\nAdd." in text
    assert "<details>\n<summary>Hint</summary>\n\nUse `+`.\n\n</details>" in text
    solution = "Like this:\n\n```python\ndef solved(a, b):\n    return a + b\n```\n\n</details>"
    assert re.search(r"<details>\n<summary>Solution to Exercise 1 \(Add\)</summary>\n\n" + re.escape(solution), text)
    assert not re.search(r"\{[a-z][\w:-]*\}|^\(.*\)=$|^:::", text, re.M)


def test_a_chapter_may_ask_for_a_gpu(made):
    assert made[1].metadata["accelerator"] == "GPU"


def test_the_page_offers_what_works_where_no_address_is_known(made):
    page = made[0].html()
    assert re.search(r'href="notebooks/index\.ipynb"[^>]*>.*?Download \.ipynb', page, re.S)
    assert "colab" not in page
    assert "notebooks/" not in made[0].html("b")


@pytest.fixture
def published(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_REPOSITORY", "Ada/tiny-gpt")
    site = build(tmp_path, PAGES, EXTENSIONS, **SETTINGS)
    return site, nbformat.read(site.outdir / "notebooks" / "index.ipynb", as_version=4)


def test_with_an_address_links_lead_to_the_published_pages(published):
    text = prose(published[1])
    book = "https://ada.github.io/tiny-gpt/"
    assert text.startswith(f"# [A title with $x_1$]({book}index.html)\n\nA chapter of [A book]({book})")
    assert f"[Chapter B]({book}b.html#ch-b), [here]({book}index.html#sec-one)" in text


def test_with_a_repository_colab_opens_the_notebook(published):
    where = "Ada/tiny-gpt/blob/gh-pages/notebooks/index.ipynb"
    page = published[0].html()
    assert f'href="https://colab.research.google.com/github/{where}"' in page
    assert f"src=https://github.com/{where}" in page
    assert "Open in Colab" in page
    assert launchers("", "index.ipynb") == {}


def test_two_builds_write_the_same(published, tmp_path):
    path = tmp_path / "_build" / "html" / "notebooks" / "index.ipynb"
    before = path.read_bytes()
    path.unlink()
    build(tmp_path, {"index": PAGE + "\n"}, EXTENSIONS, **SETTINGS)
    assert path.read_bytes() == before


def test_a_page_that_is_gone_leaves_no_notebook(published, tmp_path):
    old = tmp_path / "_build" / "html" / "notebooks" / "old.ipynb"
    old.write_text("{}")
    build(tmp_path, PAGES, EXTENSIONS, **SETTINGS)
    assert not old.exists()


@pytest.mark.parametrize(
    "text",
    ["a*b*c", "_x_", "a_b_c", "1. one", "# one", "- one", "[a](b)", "<b>", "`a`", "5 $ and 6 $", "\\alpha", "2) two"],
)
def test_escaped_text_reads_as_it_was(text):
    """Judged by a CommonMark parser: what it shows is the text itself."""
    html = MarkdownIt().render(paragraph(escape(text)))
    shown = html.strip().removeprefix("<p>").removesuffix("</p>")
    assert shown == text.replace("<", "&lt;").replace(">", "&gt;")


@pytest.mark.parametrize("text", ["a", "a`b", "``", "`a"])
def test_a_code_span_holds_any_text(text):
    assert MarkdownIt().renderInline(code_span(text)) == f"<code>{text}</code>"


class Shell:
    """Runs a first cell, with pip's line in it recorded; `works`: whether pip installs anything."""

    def __init__(self, source, monkeypatch, found, works=True):
        import importlib.util

        self.installed = []
        real = importlib.machinery.ModuleSpec("tiny_gpt", None, origin=tiny_gpt.__file__)
        there = lambda name: real if found or (self.installed and works) else None  # noqa: E731
        monkeypatch.setattr(importlib.util, "find_spec", there)
        source = re.sub(r"%pip (.*)", lambda m: f"pip(f{m[1]!r})", source)
        exec(compile(ast.parse(source), "first cell", "exec"), {"pip": self.installed.append})


@pytest.mark.parametrize("source", [first_cell("a/b", "c0ffee", "", "w.whl"), first_cell("", "", "", "w.whl")])
def test_the_first_cell_says_that_it_worked_where_the_package_is(source, monkeypatch, capsys):
    assert Shell(source, monkeypatch, found=True).installed == []
    assert capsys.readouterr().out == f"tiny_gpt {tiny_gpt.__version__} is here: go on with the next cell.\n"


def test_the_first_cell_refuses_another_file_of_that_name_and_an_installation_that_failed(monkeypatch, tmp_path):
    source = first_cell("a/b", "c0ffee", "", "w.whl")
    with pytest.raises(ImportError, match=r"was not installed: above, pip says why"):
        Shell(source, monkeypatch, found=False, works=False)
    monkeypatch.undo()
    (tmp_path / "tiny_gpt.py").write_text("class TinyGPT: pass\n")
    source = ast.unparse(ast.parse(re.sub("%pip .*", "pass", source)))
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True)
    assert re.search(r"ImportError: \S*tiny_gpt\.py hides the book's package.*my_gpt\.py", done.stderr)


def test_the_first_cell_installs_the_commit_or_the_sites_wheel(monkeypatch):
    source = first_cell("Ada/tiny-gpt", "c0ffee", "https://ada.github.io/tiny-gpt/", "w.whl")
    assert Shell(source, monkeypatch, found=False).installed == [
        'install --quiet "git+https://github.com/Ada/tiny-gpt@c0ffee"'
    ]
    source = first_cell("", "c0ffee", "https://book.example/", "w.whl")
    assert Shell(source, monkeypatch, found=False).installed == [
        'install --quiet "https://book.example/notebooks/w.whl"'
    ]


def test_the_first_cell_takes_the_wheel_beside_it_or_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    source = first_cell("", "c0ffee", "", "w.whl")
    with pytest.raises(FileNotFoundError, match=r"w\.whl is not beside this notebook\. Download it"):
        Shell(source, monkeypatch, found=False)
    (tmp_path / "w.whl").touch()
    assert Shell(source, monkeypatch, found=False).installed == ["install --quiet w.whl"]


def test_the_wheel_is_made_again_only_when_its_sources_change(tmp_path):
    root, kept = tmp_path / "root", tmp_path / "kept"
    (root / "src" / "tiny_gpt").mkdir(parents=True)
    (root / "src" / "tiny_gpt" / "__init__.py").write_text('"""A package."""\n__version__ = "0"\n')
    for name in ("README.md", "LICENSE", "pyproject.toml"):
        (root / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    first = build_wheel(root, kept)
    made = first.stat().st_mtime_ns
    assert build_wheel(root, kept) == first
    assert first.stat().st_mtime_ns == made
    (root / "src" / "tiny_gpt" / "more.py").write_text('"""More."""\n')
    second = build_wheel(root, kept)
    assert "tiny_gpt/more.py" in zipfile.ZipFile(second).namelist()
    assert not first.exists()
    assert sorted(path.name for path in root.iterdir()) == ["LICENSE", "README.md", "pyproject.toml", "src"]
