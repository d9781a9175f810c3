"""Promises of the whole: the README's map, first lines, layers, pins, what is in git, and what importing does."""

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tiny_gpt"


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).exists()]


def test_the_readmes_map_has_every_module_and_no_other():
    text = (ROOT / "README.md").read_text()
    listed = set(re.findall(r"^(\w+\.py|\w+/) +\S", text.split("`src/tiny_gpt/`:")[1].split("```")[1], re.M))
    modules = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    folders = {f"{path.name}/" for path in PACKAGE.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert listed == modules | folders


def test_the_readmes_folders_exist():
    text = (ROOT / "README.md").read_text()
    for name in re.findall(r"^([\w./]+)  +\S", text.split("<!-- map")[1].split("```")[1], re.M):
        assert (ROOT / name).exists(), name


def test_the_readmes_commands_are_the_makefiles():
    targets = set(re.findall(r"^(\w+):.*## ", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"make (\w+)", (ROOT / "README.md").read_text())) - {"alone"} <= targets
    assert {"book", "test", "lint", "serve", "bench", "clean"} <= targets


@pytest.mark.parametrize(
    "path", sorted((*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"))), ids=lambda p: p.name
)
def test_a_file_says_first_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


ALLOWED = {  # which modules of the package each may import
    "model": set(), "heads": set(), "numpy_head": set(), "palette": set(), "check": set(), "rng": set(),
    "baselines": set(), "files": set(), "data": {"files"}, "figures": {"palette"}, "muon": set(), "team": set(),
    "roles": {"check.anatomy", "check.attention", "check.causes", "check.recomputed", "check.subject", "check.trace",
              "model", "rng"}, "own": {"check.file", "check.subject", "model"},
    "train": {"", "check.subject", "data", "files", "model", "muon", "rng", "roles", "team"}, "gpt2": {"model"},
    "sampling": {"data", "model"}, "weights": {"data", "files", "model", "roles", "train"},
    "marking": {"check.causes", "check.file", "check.report"},
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED)
def test_layers(name):
    folder = PACKAGE / name  # a package of its own reaches the others with two dots
    used = set()
    for path in folder.rglob("*.py") if folder.is_dir() else [PACKAGE / f"{name}.py"]:
        level = 2 if folder.is_dir() else 1
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        used |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level == level}
    assert used - {None} <= ALLOWED[name]


def imported(path: Path) -> set[Path]:
    """The files of the package that this one imports, for types alone or inside of a function too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            inside = {base / f"{alias.name}.py" for alias in node.names} | {
                base / a.name / "__init__.py" for a in node.names
            }
            found |= {file for file in inside if file.exists()} or {base.with_suffix(".py"), base / "__init__.py"}
    return {file for file in found if file.exists()}


def test_no_module_imports_itself_by_a_detour():
    graph = {path: imported(path) - {path.parent / "__init__.py"} for path in PACKAGE.rglob("*.py")}
    list(graphlib.TopologicalSorter(graph).static_order())  # names the circle if there is one


def test_importing_does_nothing_else():
    """No matplotlib, no widgets, no seed, no network, no logging set up: in a fresh process."""
    code = """
import random, socket, sys, logging
import torch
before = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype(), random.getstate()
socket.socket.connect = lambda *a: sys.exit("the import opened a connection")
import tiny_gpt
after = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype(), random.getstate()
assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
assert not logging.getLogger().handlers
for name in ("matplotlib", "anywidget", "ipywidgets", "IPython", "tyro"):
    assert name not in sys.modules, name
"""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_requirements_are_exact_and_the_package_asks_for_floors():
    for file in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / file).read_text().splitlines():
            line = line.split("#")[0].strip()
            if line and not line.startswith("-r "):
                assert re.match(r"^[\w.\[\]-]+==[\w.]+( *;.*)?$", line), line
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for line in project["dependencies"] + extras["gpt2"]:  # what runs beside Colab's own versions: floors alone
        assert re.match(r"^[\w-]+>=[\d.]+$", line), line
    for line in extras["book"] + extras["dev"]:  # Jupyter Book 2 is another program
        assert re.match(r"^([\w-]+>=[\d.]+(,<2)?|tiny-gpt\[book,gpt2\])$", line), line


def test_git_holds_text_and_small_trained_weights_only():
    binary, names = 0, []
    for path in tracked():
        assert path.suffix not in (".ipynb", ".whl", ".pt"), path
        data = path.read_bytes()
        if b"\0" in data:
            binary += len(data)
            names.append(path.suffix)
    assert set(names) <= {".safetensors"}
    assert binary <= 12_000_000


def test_no_file_names_a_machine_or_a_registry():
    # Split, so that this file does not hold what it looks for.
    words = ["/" + "work/", "/" + "root/", "pypi" + ".org", "registry." + "npmjs", "deb." + "debian"]
    for path in tracked():
        if path.suffix in (".safetensors",):
            continue
        text = path.read_text(encoding="utf-8")
        assert not [word for word in words if word in text], path
