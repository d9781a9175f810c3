"""MaskExplorer: its head is attention as PyTorch computes it, under each mask; JavaScript gives the same."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tiny_gpt.widgets import MaskExplorer
from tiny_gpt.widgets.base import normals

TEXTS = ["a", "To be.", "aaaa", "Now is the w", "é字🤖\n\u202e", "x" * 40]
MASKS = ["right", "sees-next", "excludes-self", "missing", "after-softmax"]


def reference(text, seed, mask, changed=-1):
    """The head once more: q, k and v from embeddings that are looked up, attention by torch's own kernel."""
    text = text[:12]
    codes = [ord(c) for c in text]
    if changed >= 0:
        codes[changed] += 1
    x = np.array([normals(seed + 7919 * c, 8) + normals(seed + 104729 * (t + 1), 8) for t, c in enumerate(codes)])
    q, k, v = torch.tensor(x) @ torch.tensor(normals(seed + 1, 192)).view(3, 8, 8) / math.sqrt(8)
    S = torch.einsum("id,jd->ij", q, k) / math.sqrt(8)
    query, key = torch.meshgrid(torch.arange(len(text)), torch.arange(len(text)), indexing="ij")
    visible = {
        "right": key <= query, "sees-next": key <= query + 1, "excludes-self": key < query,
        "missing": key >= 0, "after-softmax": key <= query,
    }[mask]  # fmt: skip
    if mask == "after-softmax":
        P = torch.where(visible, F.softmax(S, -1), 0)
        return S, visible, P, P @ v
    P = S.masked_fill(~visible, -math.inf).softmax(-1)
    return (
        S,
        visible,
        P,
        F.scaled_dot_product_attention(q, k, v, attn_mask=visible) if mask != "excludes-self" else P @ v,
    )


@pytest.fixture(scope="module")
def explorer():
    return MaskExplorer(seed=3)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("text", TEXTS)
def test_what_is_shown(explorer, text, mask):
    w = explorer
    w.text, w.mask = text, mask
    S, visible, P, out = reference(text, 3, mask)
    assert np.allclose(w.scores(), S, atol=1e-12)
    assert np.array_equal(w.allowed(), visible)
    assert np.allclose(w.weights(), P, atol=1e-12, equal_nan=True)
    assert np.allclose(w.outputs(), out, atol=1e-12, equal_nan=True)
    assert np.isnan(w.weights()).any() == (mask == "excludes-self")


@pytest.mark.parametrize("mask", MASKS)
def test_who_notices_a_change(mask):
    """Right: nobody before the change. Off by one: the position before it. Missing and after: everybody."""
    w = MaskExplorer(text="To be.", mask=mask)
    for changed in range(6):
        w.changed = changed
        before, after = reference("To be.", 3, mask)[3], reference("To be.", 3, mask, changed)[3]
        assert np.allclose(w.moved(), (before - after).norm(dim=-1), atol=1e-12, equal_nan=True)
        noticed = np.flatnonzero(w.moved() > 1e-9)
        first = {"sees-next": max(0, changed - 1), "missing": 0, "after-softmax": 0}.get(mask, changed)
        if mask == "excludes-self":
            first = {0: 1, 1: 2}.get(changed, changed)  # row 0 is NaN; row 1 reads key 0 whatever its query
        assert noticed.tolist() == list(range(first, 6))


def test_javascript_agrees(same_in_js):
    calls, w = [], MaskExplorer(seed=77, changed=0)
    for text in TEXTS:
        for mask in MASKS:
            for changed in (-1, 0):
                S, visible, P, out = reference(text, 77, mask, changed)
                calls.append(("head", [text, 77, mask, changed], {"S": S, "allowed": visible, "P": P, "O": out}))
            w.text, w.mask = text, mask
            calls.append(("moved", [text, 77, mask, 0], w.moved()))
    calls += [("leaks", [[0.0, 0.1, 1e-12, 1.0], 3], [1]), ("leaks", [[math.nan, 0.0], 1], [])]
    same_in_js("mask", calls)


def test_text_is_cut_to_what_is_shown_and_may_be_empty():
    assert MaskExplorer(text="x" * 10_000).text == "x" * 12
    w = MaskExplorer(text="")
    assert w.weights().shape == (0, 0)
    assert w.moved().shape == (0,)
