"""Each chapter as a notebook that Colab, Kaggle and any Jupyter open: notebooks/NAME.ipynb in the site, and its button.

Written from the resolved document, in which references, citations, numbers and glued values are text already. Code
cells come from the page's source, without outputs; cells tagged remove-cell (the book's own plumbing) are left out, but
for those that glue numbers into the text: they print them here, for the reader's run has numbers of its own. The code
of a solution stays in its fold. The first code cell installs the package where it is not installed.
"""

import hashlib
import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote, urljoin

import nbformat
from docutils import nodes
from myst_nb.core.read import read_myst_markdown_notebook
from sphinx.util import logging

from . import site_address
from .mathml import plain

LOG = logging.getLogger(__name__)
FOLDER = "notebooks"
PACKAGE = ("pyproject.toml", "README.md", "LICENSE", "src")  # what its wheel is made of
HIDDEN = {"hide-cell", "hide-input", "remove-input"}  # tags of cells whose code is folded
SAID = {"Section"}  # names of links that say nothing where they cannot be followed
# nothing to write: a place to link to, a script or a picture of the site, what Sphinx keeps for itself
SILENT = ("target", "comment", "raw", "index", "meta", "substitution_definition", "transition")
MARKS = {"emphasis": "*", "strong": "**"}
GLUE = "from myst_nb import glue"
PRINTED = """\
# @title Numbers of the text, as your run has them
def glue(name, value, display=False):
    print(f"{name}: {value}")
"""
FIRST = """\
# @title Set-up: run this cell first
import importlib.util
from pathlib import Path

found = importlib.util.find_spec("tiny_gpt")
if found and not Path(found.origin or "").with_name("palette.py").exists():
    raise ImportError(
        f"{found.origin or 'A folder tiny_gpt'} hides the book's package, which has "
        "the same name. Give it another one, such as my_gpt.py, restart the kernel, "
        "and run this cell again."
    )
if found is None:
"""
LAST = """\
    importlib.invalidate_caches()
    if importlib.util.find_spec("tiny_gpt") is None:
        raise ImportError(
            "The book's package was not installed: above, pip says why. Often there "
            "is no connection (in Kaggle: Settings, Internet). Then run this cell again."
        )
import tiny_gpt

print(f"tiny_gpt {tiny_gpt.__version__} is here: go on with the next cell.")
"""
LOCAL = """\
    wheel = "{0}"
    if not Path(wheel).exists():
        raise FileNotFoundError(
            f"The book's package is not installed, and {{wheel}} is not beside this "
            "notebook. Download it from the page of the book that has the notebook, "
            "put it here (in Colab: the folder at the left, then Upload), and run "
            "this cell again."
        )
    %pip install --quiet {{wheel}}
"""


def first_cell(repository: str, commit: str, site: str, wheel: str) -> str:
    """Code that installs the package if it is not importable: the commit, else the site's wheel, else one beside it."""
    if repository and commit:
        install = f'    %pip install --quiet "git+https://github.com/{repository}@{commit}"\n'
    elif site:
        install = f'    %pip install --quiet "{site}{FOLDER}/{wheel}"\n'
    else:
        install = LOCAL.format(wheel)
    return FIRST + install + LAST


def escape(text: str) -> str:
    """Text with every sign that Markdown or its mathematics would take for one of theirs escaped."""
    return re.sub(r"([\\`*\[\]<$])|(?<!\w)(_)|(_)(?!\w)", lambda m: "\\" + m[0], text)


def paragraph(line: str) -> str:
    """A line that does not begin a heading or a list."""
    return re.sub(r"^(\d*)([#+.)-])(?=\s)", r"\1\\\2", line)


def indent(text: str, first: str, rest: str) -> str:
    lines = [(rest + line).rstrip() for line in text.split("\n")]
    return first + lines[0][len(rest) :] + "".join("\n" + line for line in lines[1:])


def plain_text(node) -> str:
    """What a line says, for where Markdown is not read; mathematics is read everywhere."""
    texts = [text for text in node.findall(nodes.Text) if text.parent.tagname != "raw"]
    words = [f"${text.astext()}$" if text.parent.tagname == "math" else text.astext() for text in texts]
    return " ".join("".join(words).split())


def fold(summary: str, body: str) -> str:
    return f"<details>\n<summary>{html.escape(summary, quote=False)}</summary>\n\n{body}\n\n</details>"


class Writer:
    """Turns a resolved page into a notebook's cells."""

    def __init__(self, page: nodes.document, source: str, *, url: str = "", number: str = "", numbers: dict):
        """`url` is the page's published address, or nothing; `numbers` those of its figures and exercises, by kind."""
        self.source = read_myst_markdown_notebook(source).cells
        self.url, self.number, self.numbers = url, number, numbers
        self.titles = {name: section[0] for section in page.findall(nodes.section) for name in section["ids"]}
        self.printed = 0  # before which cell of the source all glued numbers are printed
        self.folded = 0  # how many solutions are around what is being written
        self.cells = []
        text = []
        for item in [*self.blocks(page, 0), *self.glued(len(self.source))]:
            begins = not isinstance(item, str) or item.startswith("#")
            if begins and text:
                self.cells.append(nbformat.v4.new_markdown_cell("\n\n".join(text)))
                text = []
            (text if isinstance(item, str) else self.cells).append(item)
        if text:
            self.cells.append(nbformat.v4.new_markdown_cell("\n\n".join(text)))

    # within a line

    def inline(self, node) -> str:
        return "".join(map(self.span, node.children))

    def span(self, node) -> str:
        kind = node.tagname
        if isinstance(node, nodes.Text):
            return escape(" ".join(re.split(r"\n\s*", node.astext())))
        if kind in MARKS:
            return MARKS[kind] + self.inline(node) + MARKS[kind]
        if kind == "literal":
            return code_span(node.astext())
        if kind == "math":
            return f"${node.astext().strip()}$"
        if kind in ("subscript", "superscript"):
            return f"<{kind[:3]}>{self.inline(node)}</{kind[:3]}>"
        if kind in ("reference", "number_reference"):
            return self.link(node)
        if kind == "image":
            return f"*{escape(node.get('alt', ''))}*"
        if "pasted-text" in node.get("classes", ()):  # a number of the build's own run
            return f"*{self.inline(node)}*"
        if kind in ("inline", "title_reference", "abbreviation", "generated"):
            return self.inline(node)
        if kind not in SILENT:
            LOG.warning("the notebooks have no way to write a %s", kind, location=node, type="notebooks")
        return ""

    def link(self, node) -> str:
        text, place = self.inline(node), node.get("refuri", "")
        if "refid" in node:
            place = "#" + node["refid"]
        if text in SAID and place[1:] in self.titles:
            text += f" {self.inline(self.titles[place[1:]])}"
        if not re.match(r"[a-z]+:", place):
            if not self.url:
                return text
            place = urljoin(self.url, place)
        return f"[{text}]({place})"

    # blocks: Markdown, and code cells between them

    def blocks(self, node, depth):
        for child in node.children:
            yield from self.block(child, depth)

    def block(self, node, depth):
        kind = node.tagname
        if kind == "section":
            inner = [*node["classes"], *node["ids"]]
            yield from self.blocks(node, depth + ("exercise-content" not in inner and "solution-content" not in inner))
        elif kind == "title":
            title = self.inline(node)
            if depth == 1:
                title = f"[{self.number}{title}]({self.url})" if self.url else self.number + title
            yield "#" * max(depth, 1) + " " + title
        elif kind in ("paragraph", "rubric", "attribution"):
            yield paragraph(self.inline(node))
        elif kind == "literal_block":
            yield fence(node.astext(), node.get("language", ""))
        elif kind == "math_block":
            number = f" \\tag{{{node['number']}}}" if node.get("number") else ""
            yield f"$$\n{plain(node.astext())}{number}\n$$"
        elif kind in ("bullet_list", "enumerated_list"):
            yield self.list(node, depth)
        elif kind == "definition_list":
            for item in node:
                term, definition = item[0], item[-1]
                yield indent(f"**{self.inline(term)}**: {self.text(definition, depth)}", "- ", "  ")
        elif kind == "table":
            yield from self.table(node)
        elif node.get("nb_element") == "cell_code":
            yield from self.cell(node)
        elif kind.startswith("exercise"):
            number = self.numbers.get("exercise", {}).get(node["ids"][0], ())
            title = self.inline(node[0]).strip().removeprefix("(").removesuffix(")")
            yield f"{'#' * (depth + 1)} Exercise {'.'.join(map(str, number))}: {title}"
            for child in node[1:]:
                yield from self.block(child, depth + 1)
        elif kind == "solution_node":
            self.folded += 1
            body = "\n\n".join(text for child in node[1:] for text in self.block(child, depth))
            self.folded -= 1
            yield fold(plain_text(node[0]), body)
        elif kind == "dropdown_main":
            title = next(iter(node.findall(lambda n: n.tagname == "dropdown_title")))
            yield fold(plain_text(title), self.text(node, depth))
        elif kind == "figure":
            yield from self.caption(node)
        elif isinstance(node, nodes.Admonition) or kind in ("block_quote", "sidebar", "topic"):
            yield self.quote(node, depth)
        elif kind in ("container", "compound", "HideCodeCellNode", "document", "line_block"):
            yield from self.blocks(node, depth)
        elif kind not in (*SILENT, "dropdown_title"):
            LOG.warning("the notebooks have no way to write a %s", kind, location=node, type="notebooks")

    def text(self, node, depth) -> str:
        return "\n\n".join(self.blocks(node, depth))

    def list(self, node, depth) -> str:
        items = []
        for number, item in enumerate(node, node.get("start", 1)):
            mark = "- " if node.tagname == "bullet_list" else f"{number}. "
            items.append(indent(self.text(item, depth), mark, " " * len(mark)))
        return "\n".join(items)

    def quote(self, node, depth) -> str:
        """Side notes, admonitions and quotations: a quotation, with the title in bold."""
        parts = []
        for child in node:
            if child.tagname in ("title", "sidebar_title"):
                title = self.inline(child)
                parts += [f"**{title}**"] if title else []
            else:
                parts += self.block(child, depth)
        return indent("\n\n".join(parts), "> ", "> ")

    def table(self, node):
        if (title := next(node.findall(nodes.title), None)) is not None:
            yield f"**{self.inline(title)}**"
        group = node.next_node(nodes.tgroup)
        rows = []
        for row in group.findall(nodes.row):
            cells = [self.text(entry, 0).replace("\n", " ") for entry in row]
            rows.append("| " + " | ".join(re.sub(r"(?<!\\)\|", r"\|", cell) for cell in cells) + " |")
        aligned = {"align-right": "--:", "text-right": "--:", "text-center": ":-:"}
        entries = group.next_node(nodes.row).children
        marks = [next((aligned[c] for c in entry["classes"] if c in aligned), ":--") for entry in entries]
        yield "\n".join([rows[0], f"| {' | '.join(marks)} |", *rows[1:]])

    def caption(self, figure):
        number = ".".join(map(str, self.numbers.get("figure", {}).get(figure["ids"][0], ()))) if figure["ids"] else ""
        for caption in figure.findall(nodes.caption):
            yield f"**Figure {number}.** {self.inline(caption)}"

    def glued(self, before: int):
        """The cells that glue numbers into the text, as cells that print them: those that no one has asked for yet."""
        for source in self.source[self.printed : before]:
            recorded = "assets/" in source.source  # of a run that the book has on file, which a notebook has not
            if source.cell_type == "code" and GLUE in source.source and not recorded:
                cell = nbformat.v4.new_code_cell(PRINTED + source.source.replace(GLUE, "").lstrip())
                hide(cell)
                yield cell
        self.printed = max(self.printed, before)

    def cell(self, node):
        source = self.source[node["cell_index"]]
        if self.folded:
            yield fence(source.source, "python")
            return
        yield from self.glued(node["cell_index"])
        cell = nbformat.v4.new_code_cell(source.source)
        figures = list(node.findall(nodes.figure))
        captions = [text for figure in figures for text in self.caption(figure)]
        tags = HIDDEN & set(source.metadata.get("tags", ()))
        if tags:
            # Colab's name for a cell whose code is folded
            title = "Imports" if "hide-cell" in tags else "Run this cell"
            if captions:
                title = "Draw " + captions[0].split(".**")[0].removeprefix("**")
            cell.source = f"# @title {title}\n{cell.source}"
            hide(cell)
        yield cell
        yield from captions


def hide(cell) -> None:
    """Fold a cell's code, in the words of Colab, of Jupyter and of Kaggle."""
    cell.metadata = {"cellView": "form", "jupyter": {"source_hidden": True}, "_kg_hide-input": True}


def code_span(text: str) -> str:
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence(text: str, language: str) -> str:
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    language = {"ipython3": "python", "none": "", "default": ""}.get(language, language)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def is_chapter(doctree) -> bool:
    """A chapter says whom it is for (its objectives) and has cells to run."""
    if doctree is None:
        return False
    objectives = any("objectives" in node["classes"] for node in doctree.findall(nodes.Admonition))
    return objectives and any(node.get("nb_element") == "cell_code" for node in doctree.findall(nodes.container))


def name_of(docname: str) -> str:
    return docname.rsplit("/", 1)[-1] + ".ipynb"


def write(app, doctree, docname):
    if app.builder.format != "html" or not is_chapter(doctree):
        return
    env, site = app.env, app.config.html_baseurl
    number = env.toc_secnumbers.get(docname, {}).get("", ())
    writer = Writer(
        doctree,
        Path(env.doc2path(docname)).read_text(encoding="utf-8"),
        url=urljoin(site, app.builder.get_target_uri(docname)) if site else "",
        number=".".join(map(str, number)) + ". " if number else "",
        numbers=env.toc_fignumbers.get(docname, {}),
    )
    title, *rest = writer.cells
    heading, _, text = title.source.partition("\n\n")
    name = escape(app.config.html_title)
    book = f"[{name}]({site})" if site else f"*{name}*"
    title.source = f"{heading}\n\nA chapter of {book}, as a notebook. Run its cells from the top down."
    if any(cell.source.startswith(PRINTED) for cell in writer.cells):
        title.source += (
            " What stands in *italics* in place of a number comes from the book's own run; "
            "the folded cells *Numbers of the text* print what yours has."
        )
    after = [nbformat.v4.new_markdown_cell(text)] if text else []
    setting_up = nbformat.v4.new_code_cell()
    hide(setting_up)
    notebook = nbformat.v4.new_notebook(cells=[title, setting_up, *after, *rest])
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i}"  # else drawn at random, and no two builds are the same
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata["colab"] = {"provenance": []}
    if accelerator := env.metadata[docname].get("accelerator"):
        notebook.metadata["accelerator"] = accelerator
        notebook.metadata["colab"]["gpuType"] = "T4"
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / name_of(docname))


def build_wheel(root: Path, kept: Path) -> Path:
    """The package's wheel, made in a copy of its sources, and only when one of them has changed."""
    files = [path for name in PACKAGE for path in ([root / name] if (root / name).is_file() else tree(root / name))]
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    folder = kept / f"wheel-{digest.hexdigest()[:16]}"
    if not list(folder.glob("*.whl")):
        for old in kept.glob("wheel-*"):
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory() as copy:
            for path in files:
                place = Path(copy, path.relative_to(root))
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)
            code = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
            folder.mkdir(parents=True)
            subprocess.run([sys.executable, "-c", code], cwd=copy, check=True, capture_output=True, text=True)
    return next(folder.glob("*.whl"))


def tree(folder: Path) -> list[Path]:
    dropped = ("__pycache__", ".egg-info")
    return sorted(p for p in folder.rglob("*") if p.is_file() and not any(str(q).endswith(dropped) for q in p.parents))


def make_wheel(app):
    root = Path(app.srcdir)
    has_package = app.builder.format == "html" and (root / "pyproject.toml").exists()
    app.builder.wheel = build_wheel(root, Path(app.doctreedir)) if has_package else None


def finish(app, pages):
    """Put the wheel beside the notebooks, and what installs it into each, also where the page was not written again."""
    folder = Path(app.outdir, FOLDER)
    if not folder.exists():
        return
    wheel = app.builder.wheel
    known = {name_of(docname) for docname in app.env.found_docs}
    name = ""
    if wheel:
        name = shutil.copy2(wheel, folder / wheel.name).name
    for old in folder.iterdir():
        if old.name not in known | {name}:
            old.unlink()
    commit = site_address.commit(Path(app.srcdir))
    source = first_cell(app.config.book_repository, commit, app.config.html_baseurl, name)
    for path in folder.glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        if notebook.cells[1].source != source:
            notebook.cells[1].source = source
            nbformat.write(notebook, path)


def launchers(repository: str, name: str) -> dict[str, str]:
    """Services that open the notebook, by what a button says. None is known to work without a repository on GitHub."""
    if not repository:
        return {}
    path = f"github/{repository}/blob/{site_address.BRANCH}/{FOLDER}/{quote(name)}"
    return {
        "Open in Colab": f"https://colab.research.google.com/{path}",
        "Open in Kaggle": f"https://kaggle.com/kernels/welcome?src=https://{path.replace('github/', 'github.com/', 1)}",
    }


def add_button(app, pagename, templatename, context, doctree):
    """The theme's place for such buttons is in the page's header."""
    if "header_buttons" not in context or not is_chapter(doctree):
        return
    name, repository = name_of(pagename), app.config.book_repository
    buttons = [{"text": text, "url": url, "icon": "fas fa-play"} for text, url in launchers(repository, name).items()]
    downloads = {"Download .ipynb": name}
    if app.builder.wheel and not app.config.html_baseurl:
        downloads["Download its package (.whl)"] = app.builder.wheel.name
    for text, file in downloads.items():
        buttons.append({"text": text, "url": context["pathto"](f"{FOLDER}/{file}", 1), "icon": "fas fa-download"})
    context["header_buttons"].insert(
        0,
        {
            "type": "group",
            "tooltip": "Run this chapter",
            "icon": "fas fa-rocket",
            "label": "run-buttons",
            "buttons": [{"type": "link", **button} for button in buttons],
        },
    )


def connect(app, on):
    on("builder-inited", make_wheel)
    on("doctree-resolved", write)
    on("html-page-context", add_button)
