"""What all tests share: annotations checked as the code runs, generators of one's own, and the text."""

import json
import math
import os
import shutil
import subprocess
import zlib
from pathlib import Path

import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook

# Shapes and types in the signatures of these modules are checked at every call under pytest. model.py and heads.py
# are read by learners and carry none. The hook has to be there before the package is first imported.
ANNOTATED = ("data", "train", "sampling", "gpt2", "muon", "weights", "numpy_head", "baselines", "widgets.quiz")
# An int is taken where a float is asked for, as PEP 484 has it (temperature=0).
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
install_import_hook([f"tiny_gpt.{name}" for name in ANNOTATED], CHECKER)


def pytest_collection_modifyitems(items):
    """Tests of one file stay on one worker, which makes their fixtures once, unless a file groups its tests itself."""
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture
def generator(request) -> torch.Generator:
    """A generator whose seed is the test's own name: no test depends on another having run."""
    name = request.node.nodeid.partition("@")[0]  # pytest-xdist puts the test's group behind the @
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


@pytest.fixture
def as_installed(monkeypatch):
    """Annotations unchecked, as they are for a reader: how a test sees what a function itself says to a wrong type."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


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


@pytest.fixture
def node_test(tmp_path):
    """``node_test(name, widget, data, before="")``: run tests/node/NAME.test.mjs on the front end of ``widget``.

    The test finds ``data`` in the file that CASES names and the widget's module in the one that MODULE names. How the
    pure functions of a widget are tested against numbers that Python gives. Without node a skip, under CI a failure.
    """
    node = shutil.which("node")
    if node is None:
        reason = "There is no node: THE WIDGETS' FUNCTIONS ARE NOT TESTED"
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(reason)
        pytest.skip(reason)

    def run(name: str, widget: str, data, before: str = ""):
        from tiny_gpt.widgets.base import front_end

        cases, module = tmp_path / "cases.json", tmp_path / f"{widget}.mjs"
        cases.write_text(json.dumps(data), encoding="utf-8")
        module.write_text(front_end(widget, before), encoding="utf-8")
        file = Path(__file__).parent / "node" / f"{name}.test.mjs"
        result = subprocess.run(
            [node, "--test", str(file)],
            env={**os.environ, "CASES": str(cases), "MODULE": str(module)},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        failed = result.stdout[max(0, result.stdout.find("not ok")) :][:3000]
        assert result.returncode == 0, failed + result.stderr

    return run


@pytest.fixture
def same_in_js(node_test):
    """``same_in_js(widget, [(function, arguments, value), ...])``: the widget's JavaScript gives these values too.

    Numbers agree to 1e-6, absolutely or relatively; NaN agrees with NaN. Nothing else is rounded.
    """

    def plain(value):
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, dict):
            return {str(key): plain(v) for key, v in value.items()}
        if isinstance(value, list | tuple):
            return [plain(v) for v in value]
        if isinstance(value, float) and not math.isfinite(value):
            return {"number": str(value).replace("inf", "Infinity").replace("nan", "NaN")}  # JSON has no word for it
        return value

    def run(widget: str, calls):
        assert calls
        node_test("calls", widget, plain(calls))

    return run
