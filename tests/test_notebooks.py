"""The exported notebooks: readable as they are, and run from start to end where a reader of them would be.

That is a virtual environment outside the checkout with what Colab has (colab.txt) and nothing of the book's, and an
empty folder for each. The first cell brings the package, from the wheel beside it or, in a book whose repository is
known, from a clone of the checkout that stands in for it.
"""

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from filelock import FileLock

ROOT = Path(__file__).parent.parent
BUILT = ROOT / "_build" / "html" / "notebooks"
WANTED = Path(__file__).with_name("colab.txt")
NAMES = sorted(p.stem for p in (ROOT / "book").glob("*.md") if ":class: objectives" in p.read_text(encoding="utf-8"))
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read("chapter.ipynb", as_version=4)
try:
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
finally:
    nbformat.write(notebook, "done.ipynb")
"""
VIEW = "application/vnd.jupyter.widget-view+json"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="session")
def notebooks():
    if not BUILT.exists():
        pytest.fail("The book is not built: run `make book` first (`make test` does).")
    return {path.stem: nbformat.read(path, as_version=4) for path in BUILT.glob("*.ipynb")}


def test_every_chapter_is_there(notebooks):
    assert sorted(notebooks) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_is_plain_markdown_and_plain_python(notebooks, name):
    notebook = notebooks[name]
    nbformat.validate(notebook)
    assert notebook.cells[0].source.startswith("# ")
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs
            assert cell.execution_count is None
            assert not re.search(r"myst|sphinx|jupyter_book", cell.source), cell.source
            if re.search(r"\bglue\(", cell.source):  # a number for the page's prose: here it is printed
                assert "def glue(name, value, display=False):\n    print(" in cell.source
            ast.parse(re.sub(r"%pip.*", "pass", cell.source))
            continue
        text = re.sub(r"^(`{3,}).*?^\1$|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]+`", "", cell.source, flags=re.M | re.S)
        left = re.search(r"\{[a-z][\w:-]*\}|^:::|^\([\w-]+\)=$|^\{\.|</?(svg|div|span)|\]\((?!https?://)", text, re.M)
        assert not left, f"{left[0]}: {text}"
        assert cell.source.count("<details>") == cell.source.count("</details>")


@pytest.mark.parametrize("name", NAMES)
def test_solutions_are_folded(notebooks, name):
    page = (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")
    text = "\n".join(cell.source for cell in notebooks[name].cells if cell.cell_type == "markdown")
    assert text.count("<summary>Solution") == page.count("{solution-start}")


def test_only_the_training_chapter_asks_for_a_gpu(notebooks):
    asking = [name for name, notebook in notebooks.items() if "accelerator" in notebook.metadata]
    assert asking == ["13_train_it"]
    assert notebooks["13_train_it"].metadata["accelerator"] == "GPU"


def site_packages(environment: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([python_of(environment), "-c", code], text=True).strip())


def python_of(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@pytest.fixture(scope="session")
def colab(tmp_path_factory):
    """A new environment on top of one that has what Colab has, which is made once and kept in _build.

    What lies below can be seen and not changed. So whatever an installation replaces shows in the environment itself.
    """
    key = hashlib.sha256(WANTED.read_bytes() + sys.version.encode()).hexdigest()[:12]
    below = ROOT / "_build" / f"colab-{key}"
    with FileLock(f"{below}.lock"):  # two workers may come at once
        if not (below / "complete").exists():
            shutil.rmtree(below, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", below], check=True)
            subprocess.run([python_of(below), "-m", "pip", "install", "--quiet", "-r", WANTED], check=True)
            (below / "complete").touch()
    above = tmp_path_factory.mktemp("colab") / "environment"
    subprocess.run([sys.executable, "-m", "venv", above], check=True)
    (site_packages(above) / "colab.pth").write_text(f"{site_packages(below)}\n")
    return above


@pytest.fixture(scope="session", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in NAMES])
def ran(request, colab, notebooks, tmp_path_factory):
    """A notebook run in an empty folder: (its name, exit status, what it said, the notebook with its outputs)."""
    name, folder = request.param, tmp_path_factory.mktemp("run")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL", "MPL"))
    }
    environment |= {"TINY_GPT_STEPS": "40", "OMP_NUM_THREADS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    named = re.search(r"git\+(https://github\.com/[^@]+)@", notebooks["01_text_to_batches"].cells[1].source)
    if named:  # the checkout stands in for the repository
        environment |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf"}
        environment["GIT_CONFIG_VALUE_0"] = named[1]
    (folder / "home").mkdir()
    shutil.copy(BUILT / f"{name}.ipynb", folder / "chapter.ipynb")
    for wheel in [] if named else BUILT.glob("*.whl"):
        shutil.copy(wheel, folder)
    done = subprocess.run(
        [python_of(colab), "-c", RUN],
        cwd=folder,
        env=environment | {"HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return name, done.returncode, done.stderr[-3000:], nbformat.read(folder / "done.ipynb", as_version=4)


def test_it_runs_from_start_to_end(ran):
    _, status, said, _ = ran
    assert status == 0, said


def test_widgets_are_shown(ran):
    cells = ran[3].cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    views = [out for cell in cells for out in cell.get("outputs", ()) if VIEW in out.get("data", {})]
    assert bool(views) == ("tiny_gpt.widgets import" in code)


def test_the_first_cell_replaced_nothing_that_was_there(ran, colab):
    """torch, numpy and ipywidgets are as they were, and only the package and what it needs has come."""
    own = {re.split(r"-\d", path.name)[0].lower() for path in site_packages(colab).glob("*.dist-info")}
    assert "tiny_gpt" in own, ran[0]
    asked = {re.split("[=<>]", line)[0] for line in WANTED.read_text().splitlines() if line and line[0] != "#"}
    assert len(asked) == 7
    assert not own & asked
