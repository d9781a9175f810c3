"""Torch's global generator, borrowed: seeded inside a block and given back as it was."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within the block, what takes no generator (a layer's initial weights, dropout) draws from ``seed``.

    Afterwards torch's generators, the GPUs' included, go on as if the block had drawn nothing.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
