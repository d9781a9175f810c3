"""The model under test: the reader's classes, built at any size, with amplified weights; errors caught and located."""

import dataclasses
import functools
import inspect
import math
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from pathlib import PureWindowsPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .report import Finding

if TYPE_CHECKING:

    class Written(nn.Module):
        """A Module with whatever attributes its author gave it."""

        def __getattr__(self, name: str) -> Any: ...

else:
    Written = nn.Module

Sizes = dict[str, Any]  # the seven fields of a config, by name

# All different, so that no wrong axis fits by accident.
SIZES: Sizes = {
    "vocab_size": 37,
    "block_size": 16,
    "n_layer": 2,
    "n_head": 4,
    "n_embd": 24,
    "dropout": 0.0,
    "bias": True,
}
B, T = 3, 11


def padded(V: int) -> set[int]:
    """The numbers of rows that a vocabulary of V may be given: V, or rounded up to a power of two."""
    return {-(-V // step) * step for step in (1, 8, 16, 32, 64, 128)}


class TookTooLong(BaseException):
    """Raised in the reader's code when its time is up."""


class Stop(Exception):
    """The rest cannot be checked: ``finding`` says why, or is None if the code is not written yet."""

    def __init__(self, finding: Finding | None):
        super().__init__(finding.id if finding else "not written yet")
        self.finding = finding


def located(error: BaseException) -> str:
    """The innermost line of the reader's own code in an error's traceback."""
    own = own_frames(error)
    if not own:
        return ""
    last = own[-1]
    return f"{base_name(last.filename)}, line {last.lineno}, in {last.name}: {(last.line or '').strip()}"


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The reader's own frames in an error's traceback, the outermost first."""
    here = os.path.dirname(__file__)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(here)]
    return [f for f in frames if not is_library(f.filename)]


def while_read(frames: Iterable[tuple[str, Any, str]]) -> str:
    """What to say of code that did not end, if it runs while the file is read; frames are (file, line, function)."""
    for file, line, function in frames:
        if function == "<module>":
            return (
                f": line {line} of {file} runs while the file is read, and was not over; put what trains, compiles or "
                'tries the model below `if __name__ == "__main__":`'
            )
    return ""


def base_name(path: str) -> str:
    """The last part of a path, of Windows' too."""
    return PureWindowsPath(path).name


def is_library(path: str) -> bool:
    """Whether a file is Python's own or an installed package's, and not the reader's."""
    return path.startswith("<frozen") or _comparable(path).startswith(_library_folders())


@functools.cache
def _library_folders() -> tuple[str, ...]:
    """Where Python and its packages are. Their names say nothing: Debian and Colab call them dist-packages."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(torch.__file__)]
    return tuple({_comparable(name) + "/" for folder in folders for name in (folder, os.path.realpath(folder))})


def _comparable(path: str) -> str:
    return os.path.normcase(os.path.abspath(path)).replace("\\", "/")


def said(error: BaseException) -> str:
    """An error in one short line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:200]}" if words else type(error).__name__


def crash(error: BaseException, doing: str) -> Finding:
    """The finding for an error in the reader's code."""
    if isinstance(error, TookTooLong):
        return Finding("does-not-end", f"{doing}: no end after {error} seconds", located(error))
    if isinstance(error, SystemExit):
        return Finding("crashes", f"{doing}, the code ends the whole program (SystemExit)", located(error))
    return Finding("crashes", f"{doing}: {said(error)}", located(error))


def takes_config(Model: type) -> bool:
    """Whether a model's class can be called with one thing, its config."""
    try:
        inspect.signature(Model).bind("config")
    except TypeError:
        return False
    except ValueError:  # a class whose signature Python cannot see
        return True
    return True


NO_CONFIG = "the model is built as TinyGPT(config), and its __init__ does not take that: def __init__(self, config)"


class Subject:
    """The reader's model class with its config class, or with a plain namespace where there is none."""

    def __init__(
        self, Model: type, Config: Callable[..., Any] | None = None, seed: int = 0, sizes: Sizes | None = None
    ):
        self.Model, self.Config = Model, Config or self._config_of(Model)
        self.seed = seed
        self.sizes = {**SIZES, **(sizes or {})}
        self.ids = self.tokens(B, T, 1)  # (B, T)
        self.targets = self.tokens(B, T, 2)  # (B, T)
        self.targets[0, 1], self.targets[1, 2] = 0, self.sizes["vocab_size"] - 1  # so that each end is there

    @staticmethod
    def _config_of(Model: type) -> Callable[..., Any]:
        """GPTConfig beside the model, if there is one."""
        module = sys.modules.get(Model.__module__)
        found: Callable[..., Any] | None = getattr(module, "GPTConfig", None)
        if found is not None:
            return found
        notes = getattr(Model.__init__, "__annotations__", {})  # type: ignore[misc]  # it is not called
        for note in notes.values():
            if inspect.isclass(note) and dataclasses.is_dataclass(note):
                return note
        return SimpleNamespace

    def generator(self, salt: int) -> torch.Generator:
        return torch.Generator().manual_seed(1000 * self.seed + salt)

    def tokens(self, rows: int, length: int, salt: int) -> Tensor:
        return torch.randint(self.sizes["vocab_size"], (rows, length), generator=self.generator(salt))

    def config(self, **changes: Any) -> Any:
        return self.Config(**{**self.sizes, **changes})

    def build(self, salt: int = 0, **changes: Any) -> Written:
        """A new model as the reader's constructor makes it."""
        config = self.config(**changes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * self.seed + salt)
            model: Written = self.Model(config)
            return model

    def amplified(self, salt: int = 0, embedding: float = 1.0, factor: float = 1.0, **changes: Any) -> Written:
        """A model in eval mode whose weights are so large that every path changes the logits measurably.

        ``embedding`` is the standard deviation of the embeddings; ``factor`` multiplies all other matrices.
        """
        model = self.build(salt, **changes)
        self.amplify(model, salt, embedding, factor, {**self.sizes, **changes})
        return model.eval()

    def amplify(self, model: nn.Module, salt: int, embedding: float, factor: float, sizes: Sizes) -> None:
        generator = self.generator(salt + 77)
        C, V, N = sizes["n_embd"], sizes["vocab_size"], sizes["block_size"]
        with torch.no_grad():
            for p in model.parameters():
                if not p.is_floating_point():
                    continue
                noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
                if p.dim() < 2 or max(p.shape) == p.numel():
                    p.add_((0.3 * noise).to(p.dtype))
                elif p.size(-1) == C and (p.size(-2) == N or p.size(-2) in padded(V)):
                    p.copy_(embedding * noise)
                else:
                    p.copy_(factor * 1.6 / math.sqrt(C if C in p.shape else min(p.shape)) * noise)


def outputs(model: nn.Module, ids: Tensor, targets: Tensor | None = None) -> Tensor:
    """The model's logits alone, without a graph."""
    ids = ids.contiguous()  # as a training loop's batches are, so that ``view`` on them is no mistake
    with torch.no_grad():
        result = model(ids) if targets is None else model(ids, targets.contiguous())
    logits: Tensor = result[0] if isinstance(result, tuple | list) else result
    return logits
