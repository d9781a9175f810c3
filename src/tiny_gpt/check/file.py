"""A reader's file, Python or a notebook: read in the child process, its classes found."""

import ast
import dataclasses
import importlib.util
import inspect
import json
import linecache
import re
import sys
import tokenize
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from .process import SECONDS, in_own_process
from .report import Finding, Report
from .settings import Settings
from .subject import Subject, TookTooLong, base_name, crash, own_frames, while_read
from .whole import check_whole

Sources = dict[str, str]  # code by the name that a traceback gives it
MODELS = ("TinyGPT", "GPT", "MyTinyGPT", "MyGPT")  # names that a model's class is looked for by, in this order


def check_file(path: Path, model: str | None = None, config: str | None = None, seconds: float = SECONDS) -> Report:
    """Judge the model in a file. ``model`` and ``config`` name its classes; if not given they are looked for.

    Of a notebook (.ipynb) the code cells are read. Raises ValueError if there is no such file, if it is neither Python
    nor a notebook, if no such class is in it, or if the model is the package's own.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}: give the path of your file, such as my_gpt.py")
    sources = _sources(path)
    return in_own_process(path.name, lambda: _check(path, sources, model, config), seconds)


def _check(path: Path, sources: Sources, model: str | None, config: str | None) -> Report:
    settings = Settings()
    report = Report(path.name)
    try:
        module = _load(path, sources)
    except (Exception, SystemExit) as error:
        where = crash(error, "").where
        if isinstance(error, SyntaxError):
            where = f"{Path(error.filename or path).name}, line {error.lineno}: {(error.text or '').strip()}"
        report.findings.append(Finding("crashes", f"while the file was read: {type(error).__name__}: {error}", where))
        return report
    except TookTooLong as late:
        found = crash(late, "while the file was read")
        found.evidence += while_read((base_name(f.filename), f.lineno, f.name) for f in own_frames(late))
        report.findings.append(found)
        return report
    changes = settings.changes()
    settings.restore()
    Model = _named(module, model, path) if model else _model_in(module, path)
    if any(base.__module__.split(".")[0] == __package__.split(".")[0] for base in inspect.getmro(Model)):
        raise ValueError(f"{path}: its {Model.__name__} is the package's and not yours; check judges what you wrote")
    Config = _named(module, config, path) if config else _config_in(module)
    report = check_whole(Subject(Model, Config))
    report.name = f"{path.name}, {Model.__name__}"
    if changes:
        report.findings.append(Finding("global-state", f"reading the file changes the {changes[0]}"))
    return report


def _sources(path: Path) -> Sources:
    """What a Python file says, or each code cell of a notebook. Raises ValueError for anything else."""
    try:
        with tokenize.open(path) as file:  # in the encoding that its first lines name, else UTF-8
            text = file.read()
    except (SyntaxError, UnicodeDecodeError):
        text = "\0"
    if "\0" in text:
        raise ValueError(f"{path} is no Python file: {_kind(path)}")
    if text.lstrip().startswith("<"):
        raise ValueError(f"{path} is no Python file: it is a page (HTML or XML), as a browser saves it")
    try:
        made = json.loads(text)
    except (ValueError, RecursionError):
        return {str(path): text}
    try:
        cells = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    except (KeyError, TypeError, IndexError):
        raise ValueError(f"{path} is no Python file: it is JSON, and no notebook with cells") from None
    return {f"{path}, cell {number}": _without_magics(cell) for number, cell in enumerate(cells, 1)}


KINDS = {  # by the first bytes
    b"PK": "it is a zip archive, as checkpoints and .docx are too",
    b"%PDF": "it is a PDF",
    b"\x89PNG": "it is a picture",
    b"\xff\xd8": "it is a picture",
    b"\x1f\x8b": "it is a packed archive",
    b"\xff\xfe": "it is text in UTF-16: save it as UTF-8",
    b"\xfe\xff": "it is text in UTF-16: save it as UTF-8",
}


def _kind(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(8)
    return next((said for sign, said in KINDS.items() if start.startswith(sign)), "it is not text in UTF-8")


def _without_magics(cell: str) -> str:
    """A cell without the lines that only IPython understands; those that Python understands may begin with % too."""
    try:
        ast.parse(cell)
    except (SyntaxError, ValueError):
        if cell.lstrip().startswith("%%") and not cell.lstrip().startswith(("%%time", "%%capture")):
            return ""  # in another language, or written elsewhere
        return re.sub(r"^(\s*)(?:[%!?].*|\S+\?+)$", r"\1pass", cell, flags=re.MULTILINE)
    return cell


def _load(path: Path, sources: Sources) -> ModuleType:
    sys.path.insert(0, str(path.parent.resolve()))
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"readers_{abs(hash(path))}"
    loader = SourceFileLoader(name, str(path))  # named, so that the file may be called anything
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None  # for this kind of loader there is one
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    for file, text in sources.items():
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # for tracebacks
        exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module


def _named(module: ModuleType, name: str, path: Path) -> Any:
    if not hasattr(module, name):
        classes = [n for n, thing in vars(module).items() if inspect.isclass(thing)]
        raise ValueError(f"{path} has no {name}; its classes are {', '.join(classes) or 'none'}")
    return getattr(module, name)


def _model_in(module: ModuleType, path: Path) -> type:
    own = {n: c for n, c in vars(module).items() if inspect.isclass(c) and issubclass(c, nn.Module)}
    for name in MODELS:
        if name in own:
            return own[name]
    whole = [c for c in own.values() if c.__module__ == module.__name__ and hasattr(c, "generate")]
    if len(whole) != 1:
        if not own:
            raise ValueError(f"{path} has no class TinyGPT, nor another model")
        help = "for a class of another name there is tiny-gpt check FILE --model NAME"
        raise ValueError(f"{path} has no class TinyGPT, but {', '.join(own)}: {help}")
    return whole[0]


def _config_in(module: ModuleType) -> Callable[..., Any] | None:
    for name in ("GPTConfig", "TinyGPTConfig", "Config"):
        if hasattr(module, name):
            named: Callable[..., Any] = getattr(module, name)
            return named
    for thing in vars(module).values():
        if not (inspect.isclass(thing) and dataclasses.is_dataclass(thing)):
            continue
        if any(f.name == "vocab_size" for f in dataclasses.fields(thing)):
            return thing
    return None
