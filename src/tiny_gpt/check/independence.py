"""What the logits must not depend on: later tokens, other rows, the length of the text, earlier calls."""

import torch
from torch import Tensor

from .probes import Probes
from .subject import B, T, Written, located, outputs, said


def probe(probes: Probes) -> None:
    """Later tokens, other rows, other lengths and earlier calls must leave the logits alone."""
    subject, V = probes.subject, probes.subject.sizes["vocab_size"]
    model, ids = subject.amplified(), subject.ids
    if not _shapes(probes, model):
        return
    before = outputs(model, ids, ids)
    if not before.isfinite().all():
        probes.found("not-finite", f"{int((~before.isfinite()).sum())} of {before.numel()} logits are NaN or infinite")
        return
    scale = float(before.abs().max())
    again = outputs(model, ids, ids)
    if not _close(before, again, scale):
        probes.found("state-kept", f"the same ids twice give logits that differ by {_gap(before, again):.2g}")
        return
    _future(probes, model, ids, before, scale, V)
    _without_targets(probes, model, scale)
    alone = torch.cat([outputs(model, row[None], row[None]) for row in ids])
    if not _close(before, alone, scale):
        probes.found(
            "batch-leak",
            f"a text alone and in a batch of {B} gives logits that differ by {_gap(before, alone):.2g}",
        )
    _lengths(probes, model, scale)


def _shapes(probes: Probes, model: Written) -> bool:
    """One text, one token, and both: axes of length 1 are axes too."""
    V = probes.subject.sizes["vocab_size"]
    for rows, length in ((1, T), (B, 1), (1, 1)):
        ids = probes.subject.tokens(rows, length, 5)
        try:
            shape = tuple(outputs(model, ids, ids).shape)
        except Exception as error:
            id = "logits-shape" if length == T else "mask-stale"  # that length has passed before
            probes.found(
                id, f"ids of shape {(B, T)} pass, those of {(rows, length)} fail: {said(error)}", located(error)
            )
            return False
        if shape[:2] != (rows, length) or len(shape) != 3:
            probes.found("logits-shape", f"for ids {(rows, length)} the logits are {shape}, not {(rows, length, V)}")
            return False
    return True


def _without_targets(probes: Probes, model: Written, scale: float) -> None:
    """Without targets the logits are the same; where each position has some, later tokens leave them alone."""
    ids = probes.subject.ids
    bare = outputs(model, ids)
    known = outputs(model, ids, ids)[:, -bare.size(1) :]
    if bare.shape != known.shape or _close(bare, known, scale):
        return
    shorter = outputs(model, ids[:, : T - 1])[:, -1]  # (B, V): what position T - 2 says when nothing follows it
    leaks = bare.size(1) > 1 and not _close(bare[:, -2], shorter, scale)
    seen = f"without targets the logits differ by {_gap(bare, known):.2g} from those with targets"
    if leaks:
        probes.found("mask-missing", f"{seen}, and there they depend on later tokens")
    else:
        probes.found("model-differs", seen)


def _future(probes: Probes, model: Written, ids: Tensor, before: Tensor, scale: float, V: int) -> None:
    reach, worst = 0, (0.0, 0, 0)
    for t in range(1, T):
        other = ids.clone()
        other[:, t] = (other[:, t] + 1) % V
        moved = (outputs(model, other, other) - before)[:, :t].abs().amax((0, 2))  # (t,)
        if not (moved <= 1e-4 * scale).all():
            first = int((~(moved <= 1e-4 * scale)).nonzero()[0])
            reach = max(reach, t - first)
            worst = max(worst, (float(moved.nan_to_num(nan=float("inf")).max()), t, int(moved.argmax())))
    if reach:
        by, t, position = worst
        probes.found("future-leak", f"changing token {t} changed the logits at position {position} by {by:.2g}")
        if probes.anatomy is None or not probes.anatomy.layers:
            near = reach <= probes.subject.sizes["n_layer"]  # one too many in each of the layers
            probes.found("mask-sees-next" if near else "mask-missing", f"positions see up to {reach} ahead")


def _lengths(probes: Probes, model: Written, scale: float) -> None:
    """Prefixes agree with the whole, in any order of calls, up to the full context."""
    subject, N = probes.subject, probes.subject.sizes["block_size"]
    long = subject.tokens(2, N, 4)
    fresh = subject.amplified()
    try:
        whole = outputs(fresh, long, long)
    except Exception as error:
        probes.found(
            "mask-stale", f"{T} positions pass, {N} do not, though the context is {N}: {said(error)}", located(error)
        )
        return
    for length in (N, 5, N - 1, 1, N):
        part = long[:, :length]
        try:
            logits = outputs(model, part, part)
        except Exception as error:
            probes.found("mask-stale", f"after other lengths, {length} positions fail: {said(error)}", located(error))
            return
        if logits.shape != whole[:, :length].shape or not _close(logits, whole[:, :length], scale):
            gap = _gap(logits, whole[:, :length]) if logits.shape == whole[:, :length].shape else float("nan")
            if probes.has("future-leak"):
                return
            probes.found(
                "prefix-differs", f"the first {length} of {N} tokens alone give logits that differ by {gap:.2g}"
            )
            return


def _gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def _close(a: Tensor, b: Tensor, scale: float) -> bool:
    return bool((a - b).abs().max() <= 1e-4 * scale)
