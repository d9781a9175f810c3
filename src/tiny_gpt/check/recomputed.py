"""Attention whose steps cannot be recorded: written in tiles, in loops, or without matrix products.

Only its ends are known: the linear maps' queries, keys and values, and the input of the output projection. So it is
computed again, once for the right way and once for each mistake, until a result fits.
"""

import math
from collections.abc import Iterator
from itertools import permutations

import torch
from torch import Tensor

from .trace import Event, Trace

CLOSE = 2e-3


def projections_of(trace: Trace, out: Event) -> list[Event]:
    """The linear maps, all of one tensor, whose 3C outputs became the C inputs of ``out``, or an empty list."""
    found, todo = set(), list(out.sources)
    while todo:
        number = todo.pop()
        event = trace.events[number]
        if event.kind == "pair":
            todo += event.left_from | event.right_from
        else:
            found.add(number)
    events = [trace.events[n] for n in sorted(found)]
    read = {tuple(trace.origin_numbers(e.x_index).unique().tolist()) for e in events}
    widths = sum(e.w_index.size(-1) for e in events)
    return events if len(read) == 1 and widths == 3 * out.w_index.size(-2) else []


def assemblies(Y: Tensor, H: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Every consistent way to read (B, T, 3C) as queries, keys and values (B, H, T, D)."""
    B, T, width = Y.shape
    together = Y.view(B, T, 3, H, width // 3 // H).permute(2, 0, 3, 1, 4)  # (3, B, H, T, D)
    by_head = Y.view(B, T, H, 3, width // 3 // H).permute(3, 0, 2, 1, 4)
    for parts in (together, by_head):
        for q, k, v in permutations(range(3)):
            yield parts[q], parts[k], parts[v]


def hypotheses(H: int, C: int, T: int) -> Iterator[tuple[tuple[str, ...], float, str, int]]:
    """(ids of the mistakes, factor, mask, axis of the softmax), what is right first, then one mistake, then two."""
    D = C // H
    factors = {D**-0.5: None, 1.0: "scale-missing", C**-0.5: "scale-by-width"}
    for wrong in (1 / D, D**0.5, D**-0.25, T**-0.5, H**-0.5, 1 / C, C**0.5, float(D)):
        factors.setdefault(wrong, "scale-wrong")
    masks = {"past": None, "none": "mask-missing", "next": "mask-sees-next", "strict": "mask-excludes-self",
             "future": "mask-reversed"}  # fmt: skip
    made = []
    for factor, wrong_factor in factors.items():
        for mask, wrong_mask in masks.items():
            made.append((tuple(i for i in (wrong_mask, wrong_factor) if i), factor, mask, -1))
        for axis in (-2, 1, 0):
            made.append((tuple(i for i in ("softmax-axis", wrong_factor) if i), factor, "past", axis))
    yield from sorted(made, key=lambda one: len(one[0]))


def attend(q: Tensor, k: Tensor, v: Tensor, factor: float, mask: str, axis: int) -> Tensor:
    """Attention (B, T, C) with this factor, mask and axis."""
    B, H, T, D = q.shape
    rows, columns = torch.arange(T)[:, None], torch.arange(T)
    hidden = {
        "past": columns > rows, "none": columns < 0, "next": columns > rows + 1, "strict": columns >= rows,
        "future": columns < rows,
    }[mask]  # fmt: skip
    scores = (q @ k.mT * factor).masked_fill(hidden, -math.inf)  # (B, H, T, T)
    weights = scores.softmax(axis)
    if axis in (0, 1):  # beyond the past the whole slice is hidden
        weights = weights.masked_fill(hidden, 0.0)
    return (weights @ v).transpose(1, 2).reshape(B, T, H * D)


def mistakes(trace: Trace, projections: list[Event], out: Event, H: int, C: int) -> tuple[str, ...] | None:
    """The ids of the mistakes, empty if all is right; None if no hypothesis fits."""
    Y = torch.cat([trace.output(e).double() for e in projections], -1)  # (B, T, 3C)
    A = trace.input(out).double()  # (B, T, C)
    if Y.size(-1) != 3 * C or A.size(-1) != C:
        return None
    want = A.sort(-1).values  # the order of the channels is the reader's
    for ids, factor, mask, axis in hypotheses(H, C, trace.T):
        for q, k, v in assemblies(Y, H):
            got = attend(q, k, v, factor, mask, axis).sort(-1).values
            if torch.equal(got.isnan(), want.isnan()):
                gap = (got - want).nan_to_num().abs().max()
                if gap <= CLOSE * want.nan_to_num().abs().max():
                    return ids
    return None
