"""rng.py: a seeded block is repeatable and leaves the caller's random numbers alone."""

import pytest
import torch
from torch import nn

from tiny_gpt.rng import seeded


def test_a_block_repeats_and_another_seed_differs():
    def weights(seed):
        with seeded(seed):
            return nn.Linear(4, 4).weight

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_the_callers_numbers_go_on_as_if_nothing_had_happened():
    with seeded(0):
        undisturbed = torch.rand(4)
    with seeded(0):
        first = torch.rand(2)
        with seeded(5):
            torch.rand(100)
        with pytest.raises(ZeroDivisionError), seeded(5):
            raise ZeroDivisionError
        assert torch.equal(torch.cat([first, torch.rand(2)]), undisturbed)
