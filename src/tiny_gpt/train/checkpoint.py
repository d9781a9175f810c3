"""Checkpoints: what a run saves, how it is read again, and how a text is recognised."""

import hashlib
import os
import platform
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Integer
from torch import Tensor

from ..data import CharTokenizer
from ..model import GPTConfig, TinyGPT
from .config import TrainConfig
from .device import usable_device
from .history import History

FORMAT = "tiny-gpt checkpoint 1"
KEYS = (
    "step", "model", "model_config", "train_config", "vocab", "best", "history", "data", "versions",
)  # fmt: skip


def load_checkpoint(
    path: str | os.PathLike[str], device: str | torch.device = "cpu"
) -> tuple[TinyGPT, CharTokenizer | None, dict[str, Any]]:
    """A model saved by ``train``, its tokenizer (None if it had none) and what is known about how it came to be.

    ``path`` is a file, or a run's folder: then its ``best.pt``. The model is in eval mode. The third part has
    ``step`` (updates), ``best`` (updates and loss, nats), ``train_config``, ``history``, ``data`` (the SHA-256 of the
    ids), ``versions`` and, for a reader's model (whose weights come in the book's), ``own``: the source of its class.
    Raises FileNotFoundError, or ValueError for a file that is damaged or no checkpoint of ours.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "best.pt"
    saved = read(path, usable_device(device))
    if saved["model"] is None:
        whose = saved["own"]["file"] or "the file that it was trained from"
        raise ValueError(
            f"{path} holds a model that the book's cannot stand for: {saved['own']['refused']}. It can be resumed, and "
            f"used in Python with the classes of {whose}"
        )
    try:
        model = TinyGPT(GPTConfig(**saved["model_config"])).to(device)
        model.load_state_dict(saved["model"])
        tokenizer = None if saved["vocab"] is None else CharTokenizer(saved["vocab"])
        history = History(**saved["history"])
        TrainConfig(**saved["train_config"])  # whoever goes on needs it
    except (TypeError, AttributeError, RuntimeError) as error:  # parts are there, but are not what they should be
        raise ValueError(f"the parts of {path} do not fit together: {' '.join(str(error).split())}") from error
    meta = {key: saved[key] for key in ("step", "best", "train_config", "data", "versions")}
    return model.eval(), tokenizer, {**meta, "history": history, "own": saved.get("own")}


def latest(run: str | os.PathLike[str]) -> Path:
    """The checkpoint with a run's last weights: that in its folder, or the file itself."""
    return Path(run) / "last.pt" if Path(run).is_dir() else Path(run)


def settings(run: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of GPTConfig and of TrainConfig with which a run was begun, for who goes on with it or from it."""
    saved = read(latest(run), torch.device("cpu"))
    return saved.get("resume", {}).get("sizes", saved["model_config"]), saved["train_config"]


def versions() -> dict[str, str]:
    """What a run was made with, as a checkpoint keeps it."""
    from .. import __version__  # here, because the package may still be importing this module

    return {"tiny_gpt": __version__, "torch": str(torch.__version__), "python": platform.python_version()}


def fingerprint(*splits: Integer[Tensor, "_"]) -> str:
    """The SHA-256 of the ids of a text's parts, each (N,): ``data`` in a checkpoint, by which a text is known again."""
    digest = hashlib.sha256()
    for ids in splits:
        digest.update(f"{len(ids)}:".encode())
        digest.update(ids.cpu().to(torch.int32).contiguous().numpy().tobytes())
    return digest.hexdigest()


def read(path: Path, device: torch.device) -> dict[str, Any]:
    """The parts of the checkpoint at ``path``. Raises FileNotFoundError, or ValueError for a file that is not one."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        saved = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # torch raises almost anything for a damaged file
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if path.suffix == ".safetensors":
            raise ValueError(
                f"{path} is an exported model: a run's folder or a checkpoint, NAME.pt, is expected"
            ) from error
        raise ValueError(
            f"{path} is damaged or not a checkpoint: a file that tiny-gpt train saved, such as last.pt, is expected, "
            f"and PyTorch stops in this one ({reason})"
        ) from error
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        found = f"a dict with {', '.join(sorted(map(str, saved))[:8])}" if isinstance(saved, dict) else type(saved)
        raise ValueError(
            f"{path} is not a checkpoint of this package ({FORMAT!r}) but {found}. For weights with nanoGPT's or "
            "GPT-2's names there is tiny_gpt.gpt2.from_gpt2"
        )
    if missing := [key for key in KEYS if key not in saved]:
        raise ValueError(f"{path} calls itself a checkpoint of this package but lacks {', '.join(missing)}")
    return saved
