"""A reader's file: read in the child process, its classes found."""

import dataclasses
import importlib.util
import inspect
import sys
import tokenize
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from .report import Finding, Report
from .sandbox import SECONDS, apart
from .settings import Settings
from .subject import Subject, TookTooLong, crash
from .whole import check_whole

MODELS = ("TinyGPT", "GPT", "MyTinyGPT", "MyGPT")  # names that a model's class is looked for by, in this order


def check_file(path: Path, model: str | None = None, config: str | None = None, seconds: float = SECONDS) -> Report:
    """Judge the model in a file. ``model`` and ``config`` name its classes; if not given they are looked for.

    Raises ValueError if there is no such file, if it is no text, or if no such class is in it.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}: give the path of your tiny_gpt.py")
    if not _is_text(path):
        raise ValueError(f"{path} is no Python file: it is not text in UTF-8")
    return apart(path.name, lambda: _check(path, model, config), seconds)


def _check(path: Path, model: str | None, config: str | None) -> Report:
    settings = Settings()
    report = Report(path.name)
    try:
        module = _load(path)
    except (Exception, SystemExit) as error:
        where = crash(error, "").where
        if isinstance(error, SyntaxError):
            where = f"{Path(error.filename or path).name}, line {error.lineno}: {(error.text or '').strip()}"
        report.findings.append(Finding("crashes", f"while the file was read: {type(error).__name__}: {error}", where))
        return report
    except TookTooLong as late:
        report.findings.append(crash(late, "while the file was read"))
        return report
    changes = settings.changes()
    settings.restore()
    Model = _named(module, model, path) if model else _model_in(module, path)
    Config = _named(module, config, path) if config else _config_in(module)
    report = check_whole(Subject(Model, Config))
    report.name = f"{path.name}, {Model.__name__}"
    if changes:
        report.findings.append(Finding("global-state", f"reading the file changes the {changes[0]}"))
    return report


def _is_text(path: Path) -> bool:
    try:
        with tokenize.open(path) as file:  # in the encoding that its first lines name, else UTF-8
            return "\0" not in file.read()
    except (SyntaxError, UnicodeDecodeError):
        return False


def _load(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent.resolve()))
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"readers_{abs(hash(path))}"
    loader = SourceFileLoader(name, str(path))  # named, so that the file may be called anything
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None  # for this kind of loader there is one
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
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
