"""What one attention layer computed: the split into heads, the scale, the axis of the softmax, the mask, the merge.

Nothing is compared with a model answer. From the recorded queries, keys and weights P the law between them is
*fitted*: ``log P[t, j] - log P[t, i] = c (S[t, j] - S[t, i])`` on what a position may read. The slope is the scale,
where P is zero is the mask, along which axis P sums to one is the softmax's.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from . import recomputed
from .report import Finding
from .trace import Event, Trace

TINY = 1e-30
WEAKEST_FILL = -3e4  # a filled score above this survives scores that training can reach


@dataclass(eq=False)
class Attention:
    """One layer: the products that mixed its values, and the linear maps before and after."""

    mixes: list[Event]
    projections: list[Event]  # of queries, keys and values
    out: Event | None = None


@dataclass(eq=False)
class Judged:
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, id: str, evidence: str) -> None:
        self.findings.append(Finding(id, evidence))


@dataclass(eq=False)
class Heads:
    """The operands of one product that mixes values: weights P (G, T, S), values, queries and keys."""

    P: Tensor
    v_index: Tensor
    q: Tensor
    k: Tensor
    q_index: Tensor
    k_index: Tensor
    factors: tuple[float, float]


def operands(mix: Event) -> Heads:
    scores = mix.scores
    assert scores is not None  # a pair without scores mixes nothing
    if mix.weights_on_left:
        P, v_index = mix.left, mix.right_index
    else:
        P, v_index = mix.right.mT, mix.left_index.mT
    return Heads(P, v_index, scores.left, scores.right.mT, scores.left_index, scores.right_index.mT, scores.factors)


def judge_attention(trace: Trace, layer: Attention, H: int | None, C: int | None, where: str) -> Judged:
    """Findings about one layer. ``H`` is the number of heads there should be, ``C`` the model's width."""
    judged = Judged()
    T, B = trace.T, trace.B
    if not layer.mixes:
        _judge_recomputed(trace, layer, H, C, judged, where)
        return judged
    every = [operands(mix) for mix in layer.mixes]
    sizes = {heads.P.shape[-2:] for heads in every}
    if any(size == (B, B) for size in sizes):
        judged.add("batch-leak", f"{where} the weights P are {B} × {B}: the attention runs along the batch")
        return judged
    if H is not None and any(size == (H, H) for size in sizes):
        judged.add(
            "heads-split-mixed",
            f"{where} the weights P are {H} × {H}, one for each pair of heads, where each head needs {T} × {T}",
        )
        return judged
    if any(size == (B * T, B * T) for size in sizes):
        judged.add("batch-leak", f"{where} the weights P are {B * T} × {B * T}: all texts are read as one long one")
        return judged
    if any(size != (T, T) for size in sizes):
        _judge_recomputed(trace, layer, H, C, judged, where)
        return judged
    plain = _judge_split(trace, every, judged, where)
    if plain:
        _judge_heads(trace, every, H, C, judged, where)
    for heads in every:
        before = len(judged.findings)
        judge_weights(trace, heads, H, C, plain or plain is None, judged, where)
        if len(judged.findings) > before:
            break
    _judge_merge(trace, layer, judged, where)
    return judged


EVIDENCE = {
    "scale-missing": "q·k enters the softmax unscaled", "scale-by-width": "q·k is divided by √C, not √D",
    "scale-wrong": "q·k is multiplied by another factor", "mask-missing": "every position reads all others",
    "mask-sees-next": "each position reads one too many", "mask-excludes-self": "no position reads itself",
    "mask-reversed": "the later positions are read", "softmax-axis": "the weights do not sum to one along the keys",
}  # fmt: skip


def _judge_recomputed(trace: Trace, layer: Attention, H: int | None, C: int | None, judged: Judged, where: str) -> None:
    """Judge by what goes in and what comes out."""
    ids = None
    if layer.out is not None and layer.projections and H is not None and C is not None:
        ids = recomputed.mistakes(trace, layer.projections, layer.out, H, C)
    if ids is None:
        judged.notes.append(f"{where} the attention's weights have an unusual shape and were not judged")
    for id in ids or ():
        judged.add(id, f"{where} what comes out is what attention gives when {EVIDENCE[id]}")


def _rows_fit(rows: Tensor, T: int) -> Tensor:
    """(G,): whether all channels of position t come from position t of one text."""
    one_text = (rows // T == rows[:, :1, :1] // T).all(-1).all(-1)
    own = (rows % T == torch.arange(rows.size(1))[:, None]).all(-1).all(-1)
    return one_text & own


def _judge_split(trace: Trace, every: list[Heads], judged: Judged, where: str) -> bool | None:
    """True if each operand is columns of a linear map, row by row; False if mixed; None if it cannot be told."""
    T = trace.T
    known: bool | None = True
    for heads in every:
        for name, index in (("query", heads.q_index), ("key", heads.k_index), ("value", heads.v_index)):
            rows, columns = trace.rows(index), trace.columns(index)
            if (rows < 0).any() or (columns < 0).any():
                known = None
                continue
            fits = _rows_fit(rows, T) & (columns == columns[:, :1]).all(-1).all(-1)
            if not fits.all():
                g = int((~fits).nonzero()[0])
                spread = rows[g, 0] % T
                if len(spread.unique()) > 1:
                    seen = f"the {name} that one head uses at position 0 is made of positions {_some(spread)}"
                elif len((rows[g] // T).unique()) > 1:
                    seen = f"the {name}s of one head come from texts {_some(rows[g] // T)} at once"
                else:
                    t = int(((rows[g] % T) != torch.arange(T)[:, None]).any(-1).nonzero()[:1].sum())
                    seen = f"the {name} of position {t} is taken from position {_some(rows[g, t] % T)}"
                judged.add("heads-split-mixed", f"{where} {seen}")
                return False
    return known


def _some(values: Tensor) -> str:
    numbers = sorted(values.unique().tolist())
    return " and ".join(map(str, numbers)) if len(numbers) < 3 else f"{numbers[0]} to {numbers[-1]}"


def _judge_heads(trace: Trace, every: list[Heads], H: int | None, C: int | None, judged: Judged, where: str) -> None:
    """Count the heads, and check that each has its own weights."""
    found: dict[tuple[int, int], tuple[frozenset[int], ...]] = {}  # columns of q, k, v of each head, on text 0
    for heads in every:
        texts = trace.rows(heads.v_index)[:, 0, 0] // trace.T
        text_of_scores = trace.rows(heads.q_index)[:, 0, 0] // trace.T
        for number, (g, s) in enumerate(
            zip(
                (texts == 0).nonzero().flatten().tolist(),
                (text_of_scores == 0).nonzero().flatten().tolist(),
                strict=False,
            )
        ):
            columns = (
                trace.columns(i)[n, 0].tolist() for i, n in ((heads.q_index, s), (heads.k_index, s), (heads.v_index, g))
            )
            found[id(heads), number] = tuple(frozenset(c) for c in columns)
    q, k, v = ([head[i] for head in found.values()] for i in range(3))
    if H is not None and C is not None and len(q) != H:
        widths = sorted({len(columns) for columns in v})
        judged.add(
            "heads-ignored",
            f"{where} {len(q)} head{'s' * (len(q) != 1)} of width {_some(torch.tensor(widths))} at work, "
            f"where the config asks for {H} of width {C // H}",
        )
    pairs = {"queries and keys": (q, k), "keys and values": (k, v), "queries and values": (q, v)}
    shared = [name for name, (a, b) in pairs.items() if any(x & y for x, y in zip(a, b, strict=True))]
    if shared:
        judged.add("qkv-shared", f"{where} {' and '.join(shared)} are made with the same weights")
    if len(q) > 1:
        distinct = [len(set(columns)) for columns in (q, k, v)]
        overlap = [sum(map(len, set(columns))) > len(frozenset().union(*columns)) for columns in (q, k, v)]
        if distinct[0] == len(q) and distinct[1] == distinct[2] < len(q) and not any(overlap):
            judged.notes.append(
                f"{distinct[1]} heads of keys and values for {len(q)} of queries (GQA): another design, not a mistake"
            )
        elif min(distinct) < len(q) or any(overlap):
            names = [
                n for n, d, o in zip(("queries", "keys", "values"), distinct, overlap, strict=True) if d < len(q) or o
            ]
            judged.add(
                "heads-share-weights",
                f"{where} the {len(q)} heads make their {', '.join(names)} with {min(distinct)} set"
                f"{'s' * (min(distinct) != 1)} of weights in common",
            )


def _slope(P: Tensor, S: Tensor, use: Tensor, dim: int) -> tuple[float, float]:
    """The c that fits log P = c S + a constant for each line along ``dim``, and the largest error of the fit."""
    use = use & (use.sum(dim, keepdim=True) > 1)
    n = use.sum(dim, keepdim=True).clamp(min=1)
    log = torch.where(use, P.clamp(min=1e-300).log(), 0.0)
    score = torch.where(use, S, 0.0)
    log = torch.where(use, log - log.sum(dim, keepdim=True) / n, 0.0)
    score = torch.where(use, score - score.sum(dim, keepdim=True) / n, 0.0)
    if not use.any() or not score.any():
        return math.nan, math.inf
    c = float((log * score).sum() / (score**2).sum())
    return c, float((log - c * score).abs().max() / (1 + log.abs().max()))


def judge_weights(
    trace: Trace, heads: Heads, H: int | None, C: int | None, plain: bool, judged: Judged, where: str
) -> None:
    P = heads.P.double()
    T, D = trace.T, heads.q.size(-1)
    factor = heads.factors[0] * heads.factors[1]
    S = heads.q.double() @ heads.k.double().mT / factor  # (G, T, S)
    if len(S) != len(P):
        if len(P) % len(S):
            judged.notes.append(f"{where} the attention's weights could not be matched with its scores")
            return
        S = S.repeat(len(P) // len(S), 1, 1)
    lower = torch.ones(T, T, dtype=torch.bool).tril()
    finite = P.isfinite().all(-1, keepdim=True).expand_as(P)
    if not finite.any():
        return
    axis = _axis(trace, heads, P, lower)
    use = (P > TINY) & finite
    if axis is not None:
        judged.add("softmax-axis", f"{where} the weights sum to one {axis}, not along the keys")
        c, error = _slope(P, S, use, -2)
        if plain and error < 1e-3:  # the scale can be read along the queries as well
            _judge_scale(c, D, H, C, judged, where)
        return
    open_ = use.any(0)  # (T, S)
    own = use & lower if (open_ & lower).sum() > T else use
    c, error = _slope(P, S, own, -1)
    if not error < 1e-3:
        other, other_error = _slope(P, S.mT, own, -1)
        if other_error < 1e-3:
            c, error, S = other, other_error, S.mT
    if not error < 1e-3:
        _judge_unexplained(P, S, own, lower, plain, judged, where)
        return
    sums = torch.where(finite, P, 0.0).sum(-1)  # (G, T)
    broken = (finite[..., 0] & ((sums - 1).abs() > 1e-3) & (sums > 0)).any()
    level = float(sums[:, -1].mean())
    if broken and bool(((sums - level)[finite[..., 0]].abs() < 1e-3 * abs(level)).all()):  # no mask does that
        _judge_mask(trace, P, S, c, open_, lower, finite, judged, where)
        seen = f"{where} the weights of each position sum to {level:.4g}: they are multiplied after the softmax"
        if not plain or abs(c * math.sqrt(D) - 1) < 1e-3:
            judged.add("attention-differs", seen)
        else:  # the factor came too late
            judged.add(
                "scale-missing" if abs(c - 1) < 1e-3 else "scale-wrong", f"{seen}; in it q·k counts {c:.4g} times"
            )
        return
    if broken:
        t = int(((sums - 1).abs() * (sums > 0)).amax(0).argmax())
        judged.add(
            "mask-after-softmax" if not (open_ & ~lower).any() else "softmax-axis",
            f"{where} the weights of position {t} sum to {float(sums[:, t].min()):.3f}, not to 1",
        )
    else:
        _judge_mask(trace, P, S, c, open_, lower, finite, judged, where)
    if plain:
        _judge_scale(c, D, H, C, judged, where)


def _judge_scale(c: float, D: int, H: int | None, C: int | None, judged: Judged, where: str) -> None:
    def near(value: float) -> bool:
        return abs(c / value - 1) < 1e-3

    if near(D**-0.5):
        return
    if C is not None and H is not None and D == C and near((C // H) ** -0.5):
        return  # one head in place of H: that is the finding
    said = f"{where} the scores are q·k times {c:.4g}; with heads of width {D} the lesson's factor is {D**-0.5:.4g}"
    if near(1.0):
        judged.add("scale-missing", said)
    elif C is not None and near(C**-0.5):
        judged.add("scale-by-width", f"{said}, and this is that of the model's width {C}")
    else:
        judged.add("scale-wrong", said)


def _axis(trace: Trace, heads: Heads, P: Tensor, lower: Tensor) -> str | None:
    """The wrong axis along which P sums to one, in words; None if it is the keys' or none."""

    def ones(sums: Tensor) -> bool:
        sums = sums[sums.isfinite() & (sums.abs() > TINY)]
        return len(sums) > 0 and bool(((sums - 1).abs() < 1e-3).all())

    finite = P[P.isfinite().all(-1)]
    if len(finite) and ones(finite.sum(-1)):
        return None
    if ones(P.nan_to_num().sum(-2)):
        return "along the queries"
    G, T = len(P), trace.T
    if G % trace.B == 0:
        grouped = P.view(trace.B, G // trace.B, T, T).nan_to_num()
        for axis, words in ((1, "along the heads"), (0, "along the batch")):
            if grouped.size(axis) > 1 and ones(grouped.sum(axis)[..., lower]):
                return words
            turned = P.view(G // trace.B, trace.B, T, T).nan_to_num()
            if turned.size(1 - axis) > 1 and ones(turned.sum(1 - axis)[..., lower]):
                return words
    if ones(P.nan_to_num().sum((-1, -2))):
        return "over all pairs of positions together"
    return None


def _judge_mask(
    trace: Trace,
    P: Tensor,
    S: Tensor,
    c: float,
    open_: Tensor,
    lower: Tensor,
    finite: Tensor,
    judged: Judged,
    where: str,
) -> None:
    T = trace.T
    inner = torch.arange(T) >= 1
    ahead = open_ & ~lower
    itself = open_.diagonal()
    if not itself[1:].any() and not ahead[1:].any() and _heard(S, c).diagonal()[1:].any():
        judged.add("mask-excludes-self", f"{where} no position gives itself any weight; position 0 has nothing to read")
        return
    if not ahead.any():
        if (hidden := _heard(S, c) & lower & ~open_).any():
            t, j = hidden.nonzero()[-1].tolist()
            judged.add("mask-hides-past", f"{where} position {t} gives position {j}, which is not later, no weight")
        else:
            _judge_fill(trace, lower, judged, where)
        return
    if not (open_ & lower)[inner].tril(-1).any():
        judged.add("mask-reversed", f"{where} position {T - 2} reads {T - 1} and not {T - 3}: the later ones only")
        return
    reach = [max((int(j) - t for j in row.nonzero().flatten()), default=0) for t, row in enumerate(open_)]
    t, j = ahead.nonzero()[0].tolist()
    weight = float(P[:, t, j].nan_to_num().max())
    seen = f"{where} position {t} gives position {j} a weight of up to {weight:.2g}"
    band = max(reach)
    if band < T - 1 and torch.equal(open_, torch.ones_like(open_).tril(band)):
        judged.add("mask-sees-next", f"{seen}; each position reads {band} too many")
        return
    for n in range(2, T):
        outside = torch.ones_like(open_)
        outside[:n, :n] = False
        if torch.equal(ahead, outside & ~lower):
            judged.add("mask-stale", f"{seen}; only the first {n} positions hide what is later")
            return
    # What was done to the scores of later positions? Compare with the row's own, unmasked ones.
    score = P.clamp(min=1e-300).log()
    constant = torch.where(lower, score - c * S, 0.0).sum(-1, keepdim=True) / lower.sum(-1, keepdim=True)
    usable = finite & ~lower & (P > TINY)
    offset, filled = (score - constant - c * S)[usable], (score - constant)[usable]
    if offset.abs().max() < 1e-3 * (1 + (c * S).abs().max()):
        judged.add("mask-missing", f"{seen}, as if it were an earlier one")
    elif filled.std() < 1e-3 * (1 + filled.abs().max()):
        judged.add("mask-soft", f"{seen}: the scores of later positions are set to about {float(filled.mean()):.3g}")
    elif offset.std() < 1e-3 * (1 + offset.abs().max()):
        judged.add("mask-soft", f"{seen}: {float(offset.mean()):.3g} is added to the scores of later positions")
    else:
        judged.add("mask-missing", seen)


def _heard(S: Tensor, c: float) -> Tensor:
    """(T, S): where a weight could be told from zero, in at least one head, if the position were not masked."""
    lower = torch.ones_like(S[0], dtype=torch.bool).tril()
    scores = torch.where(lower, c * S, -torch.inf)
    return (c * S > scores.amax(-1, keepdim=True) - 50).any(0)


def _judge_fill(trace: Trace, lower: Tensor, judged: Judged, where: str) -> None:
    """The mask holds here. Would it still, if the scores were larger?"""
    T = trace.T
    for scores in trace.softmax_inputs:
        if scores.shape[-2:] == (T, T):
            hidden = scores[..., ~lower]
            if hidden.isfinite().any() and float(hidden.max()) > WEAKEST_FILL:
                judged.add(
                    "mask-soft",
                    f"{where} the scores of later positions are about {float(hidden.max()):.3g}: "
                    "hidden only as long as the others stay far above",
                )
                return


def _judge_unexplained(
    P: Tensor, S: Tensor, use: Tensor, lower: Tensor, plain: bool, judged: Judged, where: str
) -> None:
    """P is not the softmax of the scores over the keys: try the mistakes that people make instead."""
    T = P.size(-1)
    whole = torch.where(lower, P, 0.0)
    part = torch.where(lower, S, 0.0)
    c = float((whole * part).sum() / (part**2).sum())
    if (whole - c * part).abs().max() < 1e-3 * whole.abs().max():
        judged.add("softmax-missing", f"{where} the weights are the scores times {c:.3g}: negative ones among them")
        return
    distance = (torch.arange(T)[:, None] - torch.arange(T)).expand_as(P).double()
    if _linear_too(P, S, distance, use):
        judged.notes.append("a bias by distance on the scores (ALiBi): another design, not a mistake")
        return
    if plain:
        judged.add("attention-differs", f"{where} the weights are no softmax of any multiple of q·k along the keys")
    else:
        judged.notes.append(f"{where} the attention's weights could not be explained by its scores")


def _linear_too(P: Tensor, S: Tensor, extra: Tensor, use: Tensor) -> bool:
    """Is log P = c S + slope * extra + a constant for each row, with a slope for each head?"""
    for g in range(len(P)):
        here = use[g] & (use[g].sum(-1, keepdim=True) > 1)
        n = here.sum(-1, keepdim=True).clamp(min=1)
        columns = []
        for part in (P[g].clamp(min=1e-300).log(), S[g], extra[g]):
            part = torch.where(here, part, 0.0)
            columns.append(torch.where(here, part - part.sum(-1, keepdim=True) / n, 0.0).flatten())
        A = torch.stack(columns[1:], 1)
        left = columns[0] - A @ torch.linalg.lstsq(A, columns[0][:, None]).solution[:, 0]
        if left.abs().max() > 1e-3 * (1 + columns[0].abs().max()):
            return False
    return True


def _judge_merge(trace: Trace, layer: Attention, judged: Judged, where: str) -> None:
    if layer.out is None:
        return
    rows = trace.rows(layer.out.x_index)  # (G, M, K)
    if (rows < 0).any():
        return
    pure = (rows == rows[..., :1]).all(-1)
    if pure.all():
        flat = rows[..., 0].flatten()
        origins = trace.origins_of(layer.out.x_index)
        in_order = len(flat) != trace.B * trace.T or torch.equal(flat, torch.arange(len(flat)))
        turned = flat.view(trace.T, trace.B).t().flatten() if len(flat) == trace.B * trace.T else flat
        if in_order or torch.equal(turned, torch.arange(len(flat))) or len(origins) > 1:
            return
    g, m = (~pure).nonzero()[0].tolist() if not pure.all() else (0, 1)
    row = rows[g, m]
    texts, positions = row // trace.T, row % trace.T
    what = f"positions {_some(positions)}" if len(positions.unique()) > 1 else f"texts {_some(texts)}"
    judged.add("heads-merge-mixed", f"{where} one row of what the output projection reads holds parts of {what}")
