"""What all tests share: annotations checked as the code runs, generators of one's own, and the text."""

import os
import zlib

import pytest
import torch
from jaxtyping import install_import_hook

# Shapes and types in the signatures of these modules are checked at every call under pytest. model.py and heads.py
# are read by learners and carry none. The hook has to be there before the package is first imported.
ANNOTATED = ("data", "train", "sampling", "gpt2", "numpy_head", "baselines")
# An int is taken where a float is asked for, as PEP 484 has it (temperature=0).
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
install_import_hook([f"tiny_gpt.{name}" for name in ANNOTATED], CHECKER)


@pytest.fixture
def generator(request) -> torch.Generator:
    """A generator whose seed is the test's own name: no test depends on another having run."""
    return torch.Generator().manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def make(generator):
    """``make(config)``: a TinyGPT whose weights are drawn from the test's own seed, torch's global state untouched."""
    from tiny_gpt.model import TinyGPT

    def build(config):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator.initial_seed())
            return TinyGPT(config)

    return build


@pytest.fixture(scope="session")
def shakespeare() -> str:
    """Tiny Shakespeare from the file that TINY_GPT_DATA names; without it a skip, under CI a failure."""
    if not os.environ.get("TINY_GPT_DATA"):
        reason = "TINY_GPT_DATA does not name a copy of Tiny Shakespeare, and tests download nothing"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from tiny_gpt.data import load_shakespeare

    return load_shakespeare()
