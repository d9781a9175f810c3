"""ShapeWalk: each step's tensor is what torch makes of the same line; JavaScript gives the same."""

import itertools

import numpy as np
import pytest
import torch
import traitlets

from tiny_gpt.widgets import ShapeWalk

RESHAPES = ["right", "view-alone", "all-at-once", "merge-without-transpose"]
SIZES = [(B, T, H * D, H) for B, T, H, D in itertools.product((1, 2), (2, 5), (1, 2, 3), (1, 4))]


def steps_in_torch(B, T, C, H, reshape):
    """The lines as they stand on the page, run on a tensor that numbers its elements."""
    D = C // H
    qkv = torch.arange(B * T * 3 * C).view(B, T, 3 * C)
    q = before = qkv.split(C, dim=2)[0].contiguous()
    if reshape == "all-at-once":
        q = before = cut = qkv.view(3, B, H, T, D)[0]
    elif reshape == "view-alone":
        q = cut = q.view(B, H, T, D)
    else:
        cut = q.view(B, T, H, D)
        q = cut.transpose(1, 2)
    y = q.contiguous()
    merged = y if reshape == "merge-without-transpose" else y.transpose(1, 2)
    scores = q[..., :1].expand(B, H, T, T)
    return [qkv[..., :C], qkv, before, cut, q, scores, y, merged, merged.reshape(B, T, C)]


@pytest.fixture(scope="module")
def explorer():
    return ShapeWalk()


@pytest.mark.parametrize("reshape", RESHAPES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_each_step_is_torchs(explorer, sizes, reshape):
    w = explorer
    with w.hold_trait_notifications():
        w.B, w.T, w.C, w.H = sizes
        w.reshape = reshape
    for step, expected in enumerate(steps_in_torch(*sizes, reshape)):
        assert np.array_equal(w.elements(step), expected)
    right = steps_in_torch(*sizes, "right")
    assert torch.equal(right[-1], right[2])  # there and back: the identity


def test_origins():
    w = ShapeWalk(B=2, T=3, C=4, H=2, step=4)
    positions, owners = w.origins()
    assert positions.shape == owners.shape == (2, 2, 3, 2)
    for b, h, t, d in np.ndindex(positions.shape):
        assert positions[b, h, t, d] == t
        assert owners[b, h, t, d] == h


def test_javascript_agrees(same_in_js):
    calls = []
    for sizes in SIZES:
        settings = dict(zip("BTCH", sizes, strict=True))
        for reshape in RESHAPES:
            tensors = steps_in_torch(*sizes, reshape)
            value = [{"shape": list(a.shape), "data": a.reshape(-1)} for a in tensors]
            calls.append(("walk", [{**settings, "reshape": reshape}], value))
    B, T, C, H = 2, 3, 4, 2
    for number, (b, t, role, h, _) in enumerate(np.ndindex(B, T, 3, H, C // H)):
        made = {"text": b, "position": t, "role": role, "head": h}
        calls.append(("origin", [number, {"T": T, "C": C, "H": H}], made))
    same_in_js("shapes", calls)


def test_javascript_names_what_is_mixed(same_in_js):
    """Nothing to say where the tensor is right; a sentence wherever it is not, by an own look at who is where."""
    calls = []
    for (B, T, C, H), reshape in itertools.product(SIZES, RESHAPES):
        for step in (4, 8):
            data = steps_in_torch(B, T, C, H, reshape)[step]
            good = steps_in_torch(B, T, C, H, "right")[step]
            if torch.equal(data, good):
                call = [{"shape": list(data.shape), "data": data.reshape(-1)}, {"T": T, "C": C, "H": H}]
                calls.append(("mixing", call, ""))
    assert len(calls) > 50
    wrong = [
        ((1, 4, 6, 3), "view-alone", 4, "Head 0, row 1 holds elements of position 0, made for head 1."),
        ((1, 4, 4, 1), "all-at-once", 4, "Row 1 is to hold queries, and holds keys."),
        ((2, 4, 6, 3), "merge-without-transpose", 8, "Row 0 holds elements of positions 0, 1, 2: a query"
         " that knows later positions."),
    ]  # fmt: skip
    for (B, T, C, H), reshape, step, says in wrong:
        data = steps_in_torch(B, T, C, H, reshape)[step]
        if H == 1:
            says = says.replace("Row", "Head 0, row")
        calls.append(
            ("mixing", [{"shape": list(data.shape), "data": data.reshape(-1)}, {"T": T, "C": C, "H": H}], says)
        )
    same_in_js("shapes", calls)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(traitlets.TraitError, match="5 channels for 2 heads"):
        ShapeWalk(C=5, H=2)
    w = ShapeWalk(C=6, H=3)
    with pytest.raises(traitlets.TraitError, match="multiple of H"):
        w.C = 7
    with w.hold_trait_notifications():
        w.C, w.H = 4, 2
    assert (w.C, w.H) == (4, 2)
