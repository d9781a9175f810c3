"""Torch's global generators, borrowed for a block and given back as they were."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def checked(seed: int) -> int:
    """The seed, if torch's generators can take it. Raises ValueError if it does not fit into 64 bits."""
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"seed must fit into 64 bits, from -2**63 to 2**64 - 1, got {seed}: take a smaller one")
    return seed


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within the block, what takes no generator (a layer's initial weights, dropout) draws from ``seed``.

    Afterwards torch's generators, the GPUs' included, go on as if the block had drawn nothing.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


class OwnGenerators:
    """``with`` it, torch's global generators are the owner's; outside the block they are as the caller left them.

    Only the generators of the CPU and of ``device`` are touched: ``torch.manual_seed`` would reseed every GPU's.
    """

    def __init__(self, device: torch.device, seed: int):
        self.device = device
        outside = self._get()
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        elif device.type == "mps":
            torch.mps.manual_seed(seed)
        self.state = self._get()
        self._set(outside)

    def _get(self) -> dict[str, Tensor]:
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        elif self.device.type == "mps":
            state["mps"] = torch.mps.get_rng_state()
        return state

    def _set(self, state: dict[str, Tensor]) -> None:
        torch.set_rng_state(state["cpu"])
        if "cuda" in state and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)
        elif "mps" in state and self.device.type == "mps":
            torch.mps.set_rng_state(state["mps"])

    def __enter__(self) -> None:
        self._outside = self._get()
        self._set(self.state)

    def __exit__(self, *error: object) -> None:
        self.state = self._get()
        self._set(self._outside)
