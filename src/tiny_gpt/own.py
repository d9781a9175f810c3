"""A reader's own file: its classes, loaded by path, and how a run remembers which file it trained."""

import difflib
import hashlib
import importlib.util
import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from .check.file import MODELS
from .check.subject import NO_CONFIG, Subject, located, said, takes_config
from .model import GPTConfig


def load_my(path: str | Path, instead: ModuleType | None = None) -> ModuleType:
    """Run a reader's file and return it as a module: ``mine = load_my("my_gpt.py")``, then ``mine.TinyGPT``.

    With ``instead``, what the file does not define comes from that module, and all does if there is no file.

    The file runs in this process, so only load one that you trust. Raises FileNotFoundError, or ValueError with the
    reader's line if the file cannot be read to its end.
    """
    path = Path(path)
    if not path.is_file():
        if instead is not None:
            return instead
        raise FileNotFoundError(f"there is no file {path}: tiny-gpt start {path} begins one")
    name = f"own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file: its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where a dataclass and pickle look for the module that a class is from
    sys.path.insert(0, str(path.resolve().parent))  # a file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        where = f" ({located(error)})" if located(error) else ""
        raise ValueError(f"{path} could not be read to its end: {said(error)}{where}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    if instead is not None:
        module.__dict__.setdefault("__getattr__", lambda name: getattr(instead, name))
    return module


def model_class(module: ModuleType, name: str | None = None) -> type[nn.Module]:
    """The class of the model in a reader's module: ``name``, else TinyGPT or what else the checker looks for.

    Raises ValueError with what is there.
    """
    found = next((vars(module)[n] for n in ([name] if name else MODELS) if n in vars(module)), None)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        classes = [n for n, c in vars(module).items() if isinstance(c, type) and c.__module__ == module.__name__]
        file = Path(module.__file__ or module.__name__).name
        raise ValueError(f"{file} has no model class {name or 'TinyGPT'}: it has {', '.join(classes) or 'no class'}")
    return found


def split_name(spec: str) -> tuple[Path, str | None]:
    """The file and the class in FILE or FILE:CLASS."""
    named = re.fullmatch(r"(.+\.py):(\w+)", spec)
    return (Path(named[1]), named[2]) if named else (Path(spec), None)


def build(Model: type[nn.Module], sizes: GPTConfig) -> nn.Module:
    """A new model of these sizes, made as its own file makes it: with the config class beside it, if there is one."""
    if not takes_config(Model):
        raise ValueError(f"{Model.__name__}: {NO_CONFIG}")
    config = Subject(Model).Config(**vars(sizes))
    return Model(config)


@dataclass(frozen=True)
class Source:
    """The text that a model's class was written in, as a run keeps it."""

    file: str  # its name, without a path
    text: str
    name: str  # of the class

    @classmethod
    def of(cls, model: nn.Module) -> "Source":
        """That of a model's class; the text is empty where Python does not know it."""
        try:
            path = Path(inspect.getfile(type(model)))
            text = path.read_text(encoding="utf-8")
        except (TypeError, OSError, UnicodeDecodeError):  # written in a notebook or at a prompt
            return cls("", "", type(model).__name__)
        return cls(path.name, text, type(model).__name__)

    @property
    def sha256(self) -> str:
        """The hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def change_from(self, before: "Source") -> str:
        """What is different from ``before``, in a line; empty if nothing is."""
        if before == self:
            return ""
        if before.name != self.name:
            return f"the class was {before.name}, is {self.name}"
        if before.text == self.text:
            return ""  # the file goes by another name
        old, new = before.text.splitlines(), self.text.splitlines()
        blocks = [b for b in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if b[0] != "equal"]
        _, i, _, j, _ = blocks[0]
        was, now = (lines[k].strip() if k < len(lines) else "" for lines, k in ((old, i), (new, j)))
        return f"{len(blocks)} places of {self.file} changed, the first in line {j + 1}: {was!r} is now {now!r}"

    def saved(self) -> dict[str, Any]:
        """As a checkpoint holds it."""
        return {**self.told(), "text": self.text}

    def told(self) -> dict[str, str]:
        """As the provenance of an exported model names it."""
        return {"file": self.file, "name": self.name, "sha256": self.sha256}
