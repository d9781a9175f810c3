"""numpy_head.py against scipy and PyTorch, and at the edges."""

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from torch.nn import functional as F

from tiny_gpt import numpy_head
from tiny_gpt.numpy_head import causal_head, entropy, softmax


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_equals_scipys(rng, axis):
    z = 30 * rng.standard_normal((5, 7, 3))
    np.testing.assert_allclose(softmax(z, axis), scipy.special.softmax(z, axis), atol=1e-15)


def test_softmax_of_huge_scores_does_not_overflow():
    np.testing.assert_allclose(softmax([1e5, 1e5, -1e5]), [0.5, 0.5, 0])
    np.testing.assert_allclose(softmax([0.0, -np.inf]), [1, 0])


def test_softmax_of_nothing_to_choose_from_is_nan():
    assert np.isnan(softmax([-np.inf, -np.inf])).all()
    with pytest.raises(ValueError, match=r"shape \(2, 0\)"):
        softmax(np.zeros((2, 0)))


def test_entropy_is_in_bits():
    np.testing.assert_allclose(entropy([[1, 0, 0, 0], [0.25] * 4, [0.5, 0.25, 0.25, 0]]), [0, 2, 1.5], atol=1e-15)
    assert not np.signbit(entropy([1.0, 0.0]))


@pytest.mark.parametrize("axis", [0, -1])
def test_entropy_equals_scipys_with_base_two(rng, axis):
    p = softmax(rng.standard_normal((5, 7)), axis)
    np.testing.assert_allclose(entropy(p, axis), scipy.stats.entropy(p, base=2, axis=axis), atol=1e-12)


@pytest.mark.parametrize("p", [[0.5, 0.6], [1.5, -0.5], [np.nan, 1.0]])
def test_entropy_refuses_what_is_not_a_distribution(p):
    with pytest.raises(ValueError, match="sum to 1"):
        entropy(p)


def test_causal_head_equals_pytorchs(rng):
    q, k = rng.standard_normal((2, 3, 5, 4))
    v = rng.standard_normal((3, 5, 2))
    out, weights = causal_head(q, k, v)
    expected = F.scaled_dot_product_attention(*(torch.from_numpy(a) for a in (q, k, v)), is_causal=True)
    np.testing.assert_allclose(out, expected.numpy(), atol=1e-14)
    np.testing.assert_allclose(weights.sum(-1), 1)
    assert (np.triu(weights, 1) == 0).all()


def test_causal_head_names_the_shapes_that_clash(rng):
    with pytest.raises(ValueError, match=r"\(5, 4\), \(5, 3\), \(5, 4\)"):
        causal_head(np.ones((5, 4)), np.ones((5, 3)), np.ones((5, 4)))


def test_it_needs_numpy_alone():
    tree = ast.parse(Path(numpy_head.__file__).read_text())
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(n) for n in imports] == ["import numpy as np", "from numpy.typing import ArrayLike, NDArray"]
