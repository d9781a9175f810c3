"""A page is executed when its cells or anything that they use has changed, and only then; two at a time."""

import os
import re

import pytest
from sphinx.errors import ExtensionError
from sphinx_project import NOTEBOOK, build

# isort: split
from tiny_gpt_book import dependencies, execution  # found through sphinx_project

# each run of a cell leaves a line in a file: what the tests count
CELL = """
# {title}

```{{code-cell}} python
---
mystnb:
  figure:
    caption: {caption}
---
import sys
sys.path.insert(0, "{root}/src")
{imports}
from pathlib import Path
from IPython.display import HTML
with Path("{root}/ran.txt").open("a") as file:
    file.write("{title}\\n")
HTML("<b>{shown}</b>")
```
"""
SOURCES = {
    "__init__.py": "from .model import Model\n",
    "model.py": "class Model: ...\n",
    "figures/__init__.py": "from .lines import loss\nfrom .maps import weights\n",
    "figures/lines.py": "def loss(): ...\n",
    "figures/maps.py": "from .. import palette\ndef weights(): ...\n",
    "palette.py": "BLUE = 1\n",
    "load.py": "def carried():\n    from . import late\n    return 'kept/first.json'\nFOLDER = 'x' and \"kept\"\n",
    "late.py": "import os\nFAST = os.environ.get('TINY_GPT_FAST')\n",
    "kept/first.json": "{}",
    "widgets/__init__.py": "from .mask import Mask\n",
    "widgets/mask.py": "class Mask: ...\n",
    "widgets/mask.mjs": "export default {}",
    "widgets/mask.css": ".mask {}",
}
PAGES = {  # what each imports
    "lines": "from tiny_gpt.figures import loss",
    "maps": "from tiny_gpt import figures as f; f.weights()",
    "model": "import tiny_gpt.model; from tiny_gpt import Model",
    "load": "from tiny_gpt import load",
    "widget": "from tiny_gpt.widgets import Mask",
    "record": "open('runs/one.json').close()",
}


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A function that builds a book beside a tiny package, and returns the site and which pages were executed."""
    for name in [n for n in os.environ if n.startswith("TINY_GPT_")]:
        monkeypatch.delenv(name)
    for name, text in SOURCES.items():
        path = tmp_path / "src" / "tiny_gpt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "one.json").write_text("{}")
    log = tmp_path / "ran.txt"

    def make(*names, caption="What to see.", shown="one", parts=("execution",)):
        log.write_text("")
        pages = {}
        for name in names:
            text = CELL.format(title=name, root=tmp_path, imports=PAGES[name], caption=caption, shown=shown)
            path = tmp_path / f"{name}.md"
            if not path.exists() or path.read_text() != NOTEBOOK + text:  # an unchanged page is not touched
                pages[name] = NOTEBOOK + text
        site = build(tmp_path, pages, list(parts), exclude_patterns=["_build", "src"], root_doc=names[0])
        assert site.warnings == ""
        return site, sorted(log.read_text().split())

    make.root = tmp_path
    return make


def states(root, environ=None) -> dict[str, str]:
    """The state of every page, without a build."""
    found = execution.States(root, environ or {})
    result = {}
    for name, imports in PAGES.items():
        path = root / f"{name}.md"
        path.write_text(NOTEBOOK + CELL.format(title=name, root="", imports=imports, caption="", shown=""))
        result[name] = found.of(path)
    return result


def test_pages_are_executed_once_and_again_when_what_they_import_changes(book):
    """One of the two imports what changes: in one series, since each step is a build."""
    assert book("lines", "maps")[1] == ["lines", "maps"]
    site, ran = book("lines", "maps")
    assert (ran, site.updated) == ([], set())
    lines = book.root / "src" / "tiny_gpt" / "figures" / "lines.py"
    before = lines.read_text()
    lines.write_text("def loss(): return 1\n")
    site, ran = book("lines", "maps")
    assert (ran, site.updated) == (["lines"], {"lines"})
    lines.write_text(before)  # another state again, but one that has been executed
    site, ran = book("lines", "maps")
    assert (ran, site.updated) == ([], {"lines"})
    site, ran = book("lines", "maps", caption="Something else to see.", shown="two")
    assert ran == ["lines", "maps"]
    assert "Something else to see." in site.html("lines")
    assert "<b>two</b>" in site.html("maps")


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ("model.py", {"model"}),
        ("figures/lines.py", {"lines"}),
        ("figures/maps.py", {"maps"}),
        ("figures/__init__.py", {"lines", "maps"}),
        ("palette.py", {"maps"}),
        ("late.py", {"load"}),  # imported in a function
        ("kept/first.json", {"load"}),
        ("widgets/mask.py", {"widget"}),
        ("widgets/mask.mjs", set()),
        ("widgets/mask.css", set()),
        ("__init__.py", set(PAGES) - {"record"}),
        ("unused.py", set()),
        ("../../runs/one.json", {"record"}),
        ("../../requirements.txt", set()),
    ],
)
def test_what_a_change_makes_stale(book, changed, stale):
    before = states(book.root)
    path = book.root / "src" / "tiny_gpt" / changed
    path.write_text("# changed\n" + (path.read_text() if path.exists() else ""))
    after = states(book.root)
    assert {name for name in PAGES if before[name] != after[name]} == stale


def test_a_variable_counts_where_the_code_asks_for_it_and_means_what_is_in_its_file(book):
    before = states(book.root, {"TINY_GPT_OTHER": "1"})
    assert before == states(book.root)
    named = book.root / "text.txt"
    for text in ("a", "b"):
        named.write_text(text)
        after = states(book.root, {"TINY_GPT_FAST": str(named)})
        assert {name for name in PAGES if before[name] != after[name]} == {"load"}
        before = after


def test_a_newer_pytorch_makes_every_page_stale(book, monkeypatch):
    before = states(book.root)
    monkeypatch.setattr(execution, "runs_on", lambda: ["torch 99"])
    assert not set(states(book.root).values()) & set(before.values())


@pytest.mark.parametrize(
    ("code", "reached"),
    [
        ("import tiny_gpt; tiny_gpt.figures.loss()", {"figures/lines.py", "figures/maps.py", "palette.py"}),
        ("from tiny_gpt import figures; figures.loss()", {"figures/lines.py"}),
        ("from tiny_gpt import figures; show(figures)", {"figures/lines.py", "figures/maps.py", "palette.py"}),
        ("from tiny_gpt.figures import *", {"figures/lines.py", "figures/maps.py", "palette.py"}),
        ("from tiny_gpt.figures.maps import weights as w", {"figures/maps.py", "palette.py"}),
        ("import tiny_gpt.late as late", {"late.py"}),
        ("import numpy, tiny_gptx", set()),
    ],
)
def test_what_code_reaches(book, code, reached):
    folder = book.root / "src" / "tiny_gpt"
    found = dependencies.Package(folder).reached(dependencies.code_of([code]))
    assert {path.relative_to(folder).as_posix() for path in found if path.name != "__init__.py"} == reached


@pytest.mark.parametrize("cell", ["!tiny-gpt check x.py", "run('python -m tiny_gpt')"])
def test_a_command_counts_as_the_whole_package(book, cell):
    package = dependencies.Package(book.root / "src" / "tiny_gpt")
    assert package.reached(dependencies.code_of([cell])) == {*package.modules.values(), *package.data}


def test_what_is_not_python_counts_as_the_whole_package(book):
    page = book.root / "odd.md"
    page.write_text(NOTEBOOK + "\n```{code-cell}\nthis is no code\n```\n")
    before = execution.States(book.root, {}).of(page)
    (book.root / "src" / "tiny_gpt" / "palette.py").write_text("BLUE = 2\n")
    assert execution.States(book.root, {}).of(page) != before


def test_a_failing_cell_fails_the_build_with_its_traceback(tmp_path):
    pages = {
        "index": NOTEBOOK + "\n# A\n\n```{code-cell}\n1 / 0\n```\n",
        "other": NOTEBOOK + "\n# B\n\n```{code-cell}\nraise OSError('no tape')\n```\n",
    }
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution.LOG, "error", lambda text, *args, location: said.append((location, text % args)))
        with pytest.raises(ExtensionError, match=r"a cell failed: \w+, \w+"):
            build(tmp_path, pages, ["execution"])
    said = dict(said)
    assert "1 / 0" in said["index"]
    assert "ZeroDivisionError" in said["index"]
    assert "no tape" in said["other"], "every failure is told, not only the first"


def test_two_pages_are_executed_at_a_time(tmp_path):
    """Each waits for a file that only the other makes."""
    wait = (
        "import time\nfrom pathlib import Path\nPath('{mine}').touch()\n"
        "for _ in range(600):\n    if Path('{others}').exists():\n        break\n    time.sleep(0.1)\n"
        "assert Path('{others}').exists()"
    )
    pages = {
        name: NOTEBOOK + f"\n# Page\n\n```{{code-cell}}\n{wait.format(mine=name + '.0', others=other + '.0')}\n```\n"
        for name, other in (("index", "second"), ("second", "index"))
    }
    build(tmp_path, pages, ["execution"])


def test_old_states_are_thrown_away(tmp_path):
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        os.utime(folder, (number, number))
    execution.drop_old(tmp_path / "5")
    assert {path.name for path in tmp_path.iterdir()} == {"2", "3", "4", "5"}


def test_the_build_says_which_text_its_pages_use(book, monkeypatch):
    monkeypatch.setattr(execution, "text", lambda: execution.Text("", "A reference", False, "the library", "No net."))
    PAGES["load"], before = "from tiny_gpt import load; load_text = 1", PAGES["load"]
    try:
        site, _ = book("load")
    finally:
        PAGES["load"] = before
    assert re.search(r"A reference, from the library\. No net\.", site.status)
