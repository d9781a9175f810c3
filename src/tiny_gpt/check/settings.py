"""PyTorch's global settings: noted, compared, put back."""

import random
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor


def _silenced() -> bool:
    """Is there a filter that hides all warnings? (Single ones are added by PyTorch itself when it is imported.)"""
    return any(f[0] == "ignore" and f[1] is None and f[2] is Warning and f[3] is None for f in warnings.filters)


def _now() -> dict[str, Any]:
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "number of threads": torch.get_num_threads(),
        "gradient mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "anomaly detection": torch.is_anomaly_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "warnings": "silenced" if _silenced() else "shown",
    }


@dataclass
class Settings:
    """The settings as they were when this was made, random states included."""

    values: dict[str, Any] = field(default_factory=_now)
    filters: list[Any] = field(default_factory=lambda: list(warnings.filters))
    states: tuple[Tensor, tuple[Any, ...], Any] = field(
        default_factory=lambda: (torch.get_rng_state(), random.getstate(), np.random.get_state())
    )

    def changes(self) -> list[str]:
        """What has been changed since, in words."""
        now = _now()
        return [f"{name}: {now[name]} in place of {old}" for name, old in self.values.items() if now[name] != old]

    def restore(self) -> None:
        """Put back settings and random states."""
        old = self.values
        torch.set_default_dtype(old["default dtype"])
        if torch.get_default_device() != old["default device"]:
            torch.set_default_device(old["default device"])
        torch.set_num_threads(old["number of threads"])
        torch.set_grad_enabled(old["gradient mode"])
        torch.use_deterministic_algorithms(old["deterministic algorithms"])
        torch.autograd.set_detect_anomaly(old["anomaly detection"])
        torch.set_float32_matmul_precision(old["matmul precision"])
        if _silenced() and old["warnings"] == "shown":
            warnings.filters[:] = self.filters  # type: ignore[index]  # a list, whatever typeshed calls it
        torch.set_rng_state(self.states[0])
        random.setstate(self.states[1])
        np.random.set_state(self.states[2])
