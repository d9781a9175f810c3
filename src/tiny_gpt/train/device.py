"""Where a run computes, and in which precision."""

import contextlib

import torch

from .config import TrainConfig


def pick_device() -> torch.device:
    """The fastest device that is there: cuda, else mps, else cpu."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def usable_device(name: str | torch.device) -> torch.device:
    """The device of this name, ``pick_device()`` for 'auto'. Raises ValueError if it cannot compute here."""
    try:
        device = pick_device() if name == "auto" else torch.device(name)
        torch.zeros((), device=device).item()
    except Exception as error:  # torch has another class for each way in which a device can be missing
        reason = str(error).partition(". ")[0] or type(error).__name__
        raise ValueError(f"there is no device {str(name)!r} here ({reason}): take {pick_device().type!r}") from None
    return device


def precision(config: TrainConfig, device: torch.device) -> torch.dtype:
    """The precision of the forward pass that ``config.dtype`` asks for on this device."""
    if config.dtype != "auto":
        dtype: torch.dtype = getattr(torch, config.dtype)
        return dtype
    if device.type != "cuda":
        return torch.float32
    # Emulated bfloat16, as a T4 has it, is far slower than that GPU's own float16.
    with torch.cuda.device(device):
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if native else torch.float16


def autocast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[object]:
    """``with`` it, the forward pass computes in ``dtype``; in float32 it changes nothing."""
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype)
