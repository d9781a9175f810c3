"""The whole model, read from its trace: embeddings, what each branch reads and adds, the head.

A branch *reads* a tensor X. ``read`` finds out what X is: some recorded tensor u, normalised over its channels, or
over another axis, or not at all. Which u it is, is then solved for: u = a·(stream) + b·(what was read before) +
c·(what a branch gave) ..., and the coefficients name the wiring: (1, 0, 1) is a residual, (0, 0, 1) none.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from . import recomputed
from .attention import Attention, Judged, judge_attention, operands
from .subject import Sizes, padded
from .trace import Event, Trace

CLOSE = 2e-3  # relative: room for float32 inside the reader's code and for the eps of a norm

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "GELU": F.gelu, "tanh GELU": lambda h: F.gelu(h, approximate="tanh"), "ReLU": F.relu, "SiLU": F.silu,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "quick GELU": lambda h: h * torch.sigmoid(1.702 * h),
    "leaky ReLU": F.leaky_relu, "ELU": F.elu, "squared ReLU": lambda h: F.relu(h) ** 2, "Mish": F.mish,
    "softplus": F.softplus, "SELU": F.selu, "ReLU6": F.relu6, "normal CDF": torch.special.ndtr,
    "softmax": lambda h: h.softmax(-1), "abs": torch.abs, "square": torch.square, "hardswish": F.hardswish,
}  # fmt: skip


@dataclass(eq=False)
class Reading:
    """The input of a linear map: the tensor u (B, T, C), how it was normalised (``kind``), and the gain (C,)."""

    kind: str
    u: Tensor
    gain: Tensor | None = None
    shifted: bool = False  # a vector was added after the gain


@dataclass(eq=False)
class Layer:
    attention: Attention
    ffn: list[tuple[Event, Event]] = field(default_factory=list)


@dataclass(eq=False)
class Anatomy:
    """The parts that were recognised and what is wrong with them; ``complete`` if every part could be followed."""

    judged: Judged = field(default_factory=Judged)
    complete: bool = True
    layers: list[Layer] = field(default_factory=list)
    head: Event | None = None
    roles: dict[str, set[int]] = field(default_factory=dict)  # name of a role -> numbers of weights
    readings: dict[str, Reading] = field(default_factory=dict)  # what each branch, and the unembedding, read

    def lost(self, note: str) -> None:
        self.complete = False
        self.judged.notes.append(note)


def same(a: Tensor, b: Tensor, tolerance: float = CLOSE) -> bool:
    """Whether a and b are equal within rounding, with NaN in the same places."""
    if a.shape != b.shape or not torch.equal(a.isnan(), b.isnan()):
        return False
    a, b = a.nan_to_num(), b.nan_to_num()
    return bool((a - b).abs().max() <= tolerance * (b.abs().max() + 1e-30))


# --- What was read ----------------------------------------------------------------------------------------------


def _standard(u: Tensor, dims: int | tuple[int, ...]) -> Tensor:
    centred = u - u.mean(dims, keepdim=True)
    return centred / centred.square().mean(dims, keepdim=True).sqrt().clamp(min=1e-12)


def _with_eps(u: Tensor, eps: float) -> Tensor:
    centred = u - u.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()


def _in_groups(u: Tensor, n: int) -> Tensor:
    return _standard(u.unflatten(-1, (n, -1)), -1).flatten(-2) if u.size(-1) % n == 0 else torch.full_like(u, math.nan)


NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer": lambda u: _standard(u, -1),
    "rms": lambda u: u / u.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-12),
    "std": lambda u: u / _spread(u),
    "variance": lambda u: (u - u.mean(-1, keepdim=True)) / _spread(u) ** 2,
    "centred": lambda u: u - u.mean(-1, keepdim=True),
    "time": lambda u: _standard(u, 1),
    "batch": lambda u: _standard(u, 0),
    "text": lambda u: _standard(u, (1, 2)),
    "whole": lambda u: _standard(u, (0, 1)),
    "all": lambda u: _standard(u, (0, 1, 2)),
    **{f"eps {eps:g}": partial(_with_eps, eps=eps) for eps in (0.01, 0.1, 1.0)},
    **{f"groups {n}": partial(_in_groups, n=n) for n in (2, 3, 4, 8)},
    "affine": lambda u: u,
}
OVER = {
    "time": "over the positions", "batch": "over the batch", "text": "over positions and channels together",
    "whole": "over batch and positions", "all": "over everything at once",
}  # fmt: skip


def _spread(u: Tensor) -> Tensor:
    return (u - u.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).sqrt().clamp(min=1e-12)


def affine_in(X: Tensor, z: Tensor) -> tuple[Tensor, bool] | None:
    """The gain (C,), and whether there is a shift, if X = gain · z + shift channel by channel, else None."""
    X, z = X.flatten(0, -2), z.flatten(0, -2)  # (R, C) each
    good = X.isfinite().all(-1) & z.isfinite().all(-1)
    if good.sum() < 4:
        return None
    X, z = X[good], z[good]
    X0, z0 = X - X.mean(0), z - z.mean(0)
    gain = (X0 * z0).sum(0) / z0.square().sum(0).clamp(min=1e-30)
    if (X0 - gain * z0).abs().max() > CLOSE * X.abs().max():
        return None
    return gain, bool((X - gain * z).abs().max() > 5 * CLOSE * X.abs().max())


def candidates(trace: Trace, C: int, numbers: Iterable[int]) -> list[Tensor]:
    """The recorded tensors (B, T, C) among these origins, in the order in which they were computed."""
    B, T, found = trace.B, trace.T, []
    for number in sorted(numbers):
        origin = trace.origins[number]
        if not origin.data or not origin.value.is_floating_point() or origin.value.numel() != B * T * C:
            continue
        value = origin.value.double()
        if origin.shape in ((B, T, C), (B * T, C)):
            found.append(value.view(B, T, C))
        elif origin.shape == (T, B, C):
            found.append(value.transpose(0, 1))
        elif origin.shape in ((B, C, T), (B, 1, C, T)):
            found.append(value.view(B, C, T).mT)
    return found


def combination(u: Tensor, atoms: dict[str, Tensor]) -> dict[str, float] | None:
    """The coefficients that make u a sum of the atoms, or None. Atoms that depend on earlier ones are left out."""
    good = u.isfinite()
    for atom in atoms.values():
        good = good & atom.isfinite()
    if good.sum() < 8 * len(atoms) + 8:
        return None
    kept: list[str] = []
    basis: list[Tensor] = []
    columns: list[Tensor] = []
    for name, atom in atoms.items():
        column = atom[good].double()
        rest = column
        for _ in range(2):  # twice: once leaves rounding errors behind
            for direction in basis:
                rest = rest - (rest @ direction) * direction
        if rest.norm() > 1e-5 * column.norm():
            kept.append(name)
            columns.append(column)
            basis.append(rest / rest.norm())
    if not kept:
        return None
    A, target = torch.stack(columns, 1), u[good].double()
    solution = torch.linalg.lstsq(A, target[:, None]).solution[:, 0]
    if (A @ solution - target).abs().max() > CLOSE * target.abs().max():
        return None
    near = [round(float(x)) if abs(float(x) - round(float(x))) < 5e-3 else float(x) for x in solution]
    return {name: value for name, value in zip(kept, near, strict=True) if value}


def read(trace: Trace, event: Event, atoms: dict[str, Tensor]) -> Reading:
    """Identify the input of this linear map."""
    X = trace.input(event).double()
    numbers = frozenset(trace.origin_numbers(event.x_index).unique().tolist())
    return explain(trace, X, trace.ancestors(numbers), atoms)


def explain(trace: Trace, X: Tensor, before: set[int], atoms: dict[str, Tensor]) -> Reading:
    """Identify X, which was computed from the origins ``before``: a tensor of its size, normalised in some way."""
    if combination(X, atoms) is not None:
        return Reading("none", X)
    tensors = candidates(trace, X.size(-1), before)
    for kind, norm in NORMS.items():
        fits = []
        for u in tensors:
            if not same(u, X) and (fit := affine_in(X, norm(u))) is not None:
                fits.append((u, *fit))
        known = [fit for fit in fits if combination(fit[0], atoms) is not None]
        if known:
            return Reading(kind, *known[-1])
        if kind in ("affine", "whole", "all"):  # these fit any channel-wise function of X itself
            continue
        moved = [fit for fit in fits if _has_mean(fit[0])]
        if moved:
            return Reading(kind, *moved[-1])
    return Reading("unknown", X)


def _has_mean(u: Tensor) -> bool:
    u = u.nan_to_num()
    return bool(u.mean(-1).abs().max() > 1e-6 * u.abs().max())


# --- Finding the parts ------------------------------------------------------------------------------------------


def layers_of(trace: Trace) -> list[Layer]:
    """The attention layers in the order in which they ran, each with the feed-forward networks after it."""
    groups: dict[object, list[Event]] = {}
    for event in trace.events:
        if event.kind == "pair" and event.scores is not None:
            made = [trace.events[n] for n in _makers(trace, event)]
            key = tuple(sorted({int(trace.origin_numbers(e.x_index).min()) for e in made})) or event.number
            groups.setdefault(key, []).append(event)
    layers, used = [], set()
    for mixes in groups.values():
        projections = sorted({n for mix in mixes for n in _makers(trace, mix)})
        numbers = {mix.number for mix in mixes}
        outs = [e for e in trace.events if e.kind == "linear" and e.sources and e.sources <= numbers]
        outs = [e for e in outs if _only_moved(trace, e, mixes)]
        if not outs and any(
            not _square(trace, mix) for mix in mixes
        ):  # in tiles, say: something is done to the sum before it is projected
            later = [e for e in trace.events if e.kind == "linear" and recomputed.projections_of(trace, e)]
            mine = [e for e in later if {p.number for p in recomputed.projections_of(trace, e)} == set(projections)]
            outs = mine[:1]
        attention = Attention(mixes, [trace.events[n] for n in projections], outs[0] if outs else None)
        layers.append(Layer(attention))
        used |= set(projections) | {e.number for e in outs} | numbers
    for out in trace.events:  # attention that has no products to be seen, but two ends
        if out.kind == "linear" and out.number not in used and out.sources:
            before = recomputed.projections_of(trace, out)
            if before and not used & {e.number for e in before}:
                layers.append(Layer(Attention([], before, out)))
                used |= {out.number, *(e.number for e in before)}
    layers.sort(key=lambda layer: min((e.number for e in layer.attention.projections), default=0))
    for event in trace.events:
        before = [trace.events[n] for n in event.sources] if event.kind == "linear" else []
        if event.number in used or len(before) != 1 or before[0].kind != "linear" or before[0].number in used:
            continue
        starts = [n for n, layer in enumerate(layers) if _start(layer) < before[0].number]
        if layers:
            layers[starts[-1] if starts else 0].ffn.append((before[0], event))
    return layers


def _square(trace: Trace, mix: Event) -> bool:
    return operands(mix).P.shape[-2:] == (trace.T, trace.T)


def _start(layer: Layer) -> int:
    return min((e.number for e in (*layer.attention.projections, *layer.attention.mixes)), default=0)


def _only_moved(trace: Trace, event: Event, mixes: list[Event]) -> bool:
    """Whether this linear map reads the heads' outputs directly."""
    return all(any(o.event is mix for mix in mixes) for o in trace.origins_of(event.x_index))


def _makers(trace: Trace, mix: Event) -> frozenset[int]:
    assert mix.scores is not None  # a pair without scores mixes nothing
    values = mix.right_from if mix.weights_on_left else mix.left_from
    every = values | mix.scores.left_from | mix.scores.right_from
    return frozenset(n for n in every if trace.events[n].kind == "linear")


def _core(atoms: dict[str, Tensor]) -> dict[str, Tensor]:
    """The atoms, except those that stand for a misplaced activation."""
    return {name: atom for name, atom in atoms.items() if not name.endswith(" of ffn")}


# --- Judging ----------------------------------------------------------------------------------------------------


def judge_ffn(trace: Trace, pair: tuple[Event, Event], C: int | None, where: str, relu: bool = False) -> Judged:
    """Width and activation of a feed-forward network. ``relu`` accepts ReLU, as lesson one does."""
    judged = Judged()
    h = trace.output(pair[0]).double()
    g = trace.input(pair[1]).double()
    if C is not None and h.size(-1) != 4 * C:
        judged.add("ffn-width", f"{where} the hidden layer is {h.size(-1)} wide; 4·C is {4 * C}")
    if g.shape != h.shape:
        judged.notes.append(f"{where} the hidden layer changes its width on the way: another design (a gated FFN?)")
        return judged
    if combination(g, {"h": h}) is not None:
        judged.add("activation-missing", f"{where} what the second linear layer reads is what the first gave")
        return judged
    fits = [name for name, f in ACTIVATIONS.items() if same(g, f(h), 3e-4 if "GELU" in name else CLOSE)]
    allowed = {"GELU", "tanh GELU", "ReLU"} if relu else {"GELU", "tanh GELU"}
    if not fits:
        judged.add("activation-wrong", f"{where} what stands between the two linear layers is not GELU")
    elif not set(fits) & allowed:
        if fits[0] == "quick GELU":
            judged.notes.append("the activation is x·sigmoid(1.702 x), an approximation of GELU")
        else:
            judged.add("activation-wrong", f"{where} the activation is {fits[0]}")
    return judged


@dataclass(eq=False)
class Walk:
    """Follows the stream from reading to reading."""

    trace: Trace
    sizes: Sizes
    idx: Tensor  # (B, T)
    weights: list[Tensor]
    anatomy: Anatomy
    gains: dict[str, Tensor] = field(default_factory=dict)
    table: dict[str, Tensor] = field(default_factory=dict)
    rms: list[tuple[str, bool]] = field(default_factory=list)
    sums: list[tuple[str, ...]] = field(default_factory=list)  # readings without a norm, sums with a normalised copy
    no_table: bool = False  # nothing is added for the position
    relu: bool = False  # lesson one's activation is welcome

    def found(self, id: str, evidence: str) -> None:
        if not any(known.id == id for known in self.anatomy.judged.findings):
            self.anatomy.judged.add(id, evidence)

    def note(self, words: str) -> None:
        if words not in self.anatomy.judged.notes:
            self.anatomy.judged.notes.append(words)

    # --- Embeddings -----------------------------------------------------------------------------------------

    def tables(self, rows: int, exact: bool) -> list[int]:
        """The weights that could be an embedding table with this many rows."""
        C, found = self.sizes["n_embd"], []
        for n, w in enumerate(self.weights):
            table = w.dim() >= 2 and w.size(-1) == C and math.prod(w.shape[:-2]) == 1
            if table and (w.size(-2) == rows or (not exact and w.size(-2) in padded(rows))):
                found.append(n)
        return found

    def start(self) -> dict[str, Tensor]:
        """The atoms of the first stream: token embeddings and, if there are some, position embeddings."""
        V, N, C = (self.sizes[name] for name in ("vocab_size", "block_size", "n_embd"))
        atoms, T = {}, self.trace.T
        values = candidates(self.trace, C, range(len(self.trace.origins)))
        for n in self.tables(V, exact=False):
            tok = self.weights[n].double().view(-1, C)[self.idx]  # (B, T, C)
            if any(same(tok, value) for value in values):
                atoms["tok"] = tok
                self.anatomy.roles.setdefault("token embedding", set()).add(n)
                break
        # Where the context is as long as the model is wide, other matrices have this shape too; but they multiply.
        others = {n for e in self.trace.events if e.kind == "linear" for n in self.trace.weight_of(e)}
        others |= self.anatomy.roles.get("token embedding", set())
        self.positions = [n for n in self.tables(N, exact=True) if n not in others]
        if self.positions:
            table = self.weights[self.positions[0]].double().view(-1, C)
            atoms["pos"] = table[:T].expand(len(self.idx), T, C)  # (B, T, C)
            self.anatomy.roles["position embedding"] = {self.positions[0]}
        return atoms

    def embedding(self, u: Tensor, atoms: dict[str, Tensor]) -> None:
        """Check that the stream starts as token embedding plus position embedding."""
        if "tok" not in atoms:
            self.anatomy.lost("the token embedding could not be found, so the input was not followed")
            return
        tok = atoms["tok"]
        made = combination(u, atoms)
        if made is not None:
            self.no_table = "pos" not in atoms
            self._embedding_scale(made, "pos" in atoms)
            return
        if "pos" in atoms and self._positions_elsewhere(u, tok):
            return
        # Any function of the position alone? Then differences between texts are those of the tokens.
        made = combination(u - u[:1], {"tok": tok - tok[:1]})
        if made is not None:
            rest = u - made["tok"] * tok  # (B, T, C)
            constant = float(rest.std(1).max()) < 1e-6 * float(u.abs().max())
            if "pos" in atoms or (constant and rest.abs().max() > 1e-6 * u.abs().max()):
                if constant:
                    self.found("position-constant", "the same vector is added at every position")
                else:
                    self.found("position-misplaced", "what is added for the position is no row of the position table")
            else:
                if same(made["tok"] * tok, u):
                    self.no_table = True
                else:
                    self.note("positions are a fixed function, not a learned table: another design, not a mistake")
            self._embedding_scale({"tok": made["tok"], "pos": 1}, True)
            return
        reading = explain(self.trace, u, set(range(len(self.trace.origins))), atoms)
        if reading.kind != "unknown" and reading.kind != "none":
            made = combination(reading.u, atoms)
            if made is not None:
                self.found("norm-on-stream", "the sum of the embeddings is normalised before the first block reads it")
                self._embedding_scale(made, "pos" in atoms)
                return
        self.anatomy.lost("what enters the first block is not a sum of embeddings, so it was not followed")

    def _embedding_scale(self, made: dict[str, float], has_table: bool) -> None:
        C = self.sizes["n_embd"]
        a, s = made.get("tok", 0), made.get("pos", 0)
        if not s and has_table:
            self.found("position-missing", "the first block reads the token embedding alone")
        if abs(a - math.sqrt(C)) < 5e-3 and s in (0, 1):
            self.note("token embeddings are multiplied by √C: another design, not a mistake")
        elif a not in (0, 1) or s not in (0, 1):
            self.found("embedding-scaled", f"the first block reads {a:.4g} · token + {s:.4g} · position embedding")

    def _positions_elsewhere(self, u: Tensor, tok: Tensor) -> bool:
        """For each position that got the wrong row of the position table, the row that it got."""
        C = self.sizes["n_embd"]
        made = combination(u - u.mean((0, 1)), {"tok": tok - tok.mean((0, 1))}) or {"tok": 1}
        for scale in dict.fromkeys((1.0, float(made["tok"]), math.sqrt(C))):
            rest = u - scale * tok  # (B, T, C)
            for n in self.positions:
                table = self.weights[n].double().view(-1, C)
                gaps = (rest[:, :, None] - table).abs().amax(-1)  # (B, T, N)
                nearest, which = gaps.min(-1)
                if nearest.nan_to_num().max() > CLOSE * table.abs().max():
                    continue
                seen = f"at positions 0, 1, 2 of text 0 the rows {which[0, :3].tolist()} of the table are added"
                if (which == which[0, 0]).all():
                    self.found("position-constant", f"every position gets row {int(which[0, 0])} of the table")
                elif (which == which[:, :1]).all():
                    self.found(
                        "position-wrong-axis", f"all positions of text 1 get row {int(which[1, 0])} of the table"
                    )
                else:
                    self.found("position-misplaced", seen)
                if scale not in (1.0, math.sqrt(C)):
                    self.found("embedding-scaled", f"the token embedding enters times {scale:.4g}")
                return True
        return False

    # --- Blocks -----------------------------------------------------------------------------------------------

    def norm(self, reading: Reading, who: str, where: str) -> None:
        self.anatomy.readings[f"{who} {where}"] = reading
        kind = reading.kind
        if kind in ("none", "affine"):
            self.sums.append(("raw", where, who))
        elif kind == "layer" and reading.gain is not None:
            self.gains[f"{who} {where}"] = reading.gain
        elif kind == "rms":
            self.rms.append((f"{who} {where}", reading.shifted))
        elif kind in OVER:
            self.found("norm-axis", f"{where} what the {who} reads is normalised {OVER[kind]}, not over the channels")
        elif kind == "std":
            self.found(
                "norm-rms", f"{where} what the {who} reads was divided by its standard deviation, the mean still in"
            )
        elif kind.startswith(("eps", "groups")):
            word, number = kind.split()
            what = f"an eps of about {number}" if word == "eps" else f"{number} groups of channels, each by itself"
            self.found("norm-wrong", f"{where} what the {who} reads is normalised with {what}")
        elif kind in ("centred", "variance"):
            what = {"centred": "had its mean taken off but was not divided by its standard deviation",
                    "variance": "been divided by its variance, not by its standard deviation"}[kind]  # fmt: skip
            self.found("norm-wrong", f"{where} what the {who} reads has {what}")

    def walk(self) -> None:
        """From the embeddings to the head."""
        atoms = self.start()
        self.table = {"pos": atoms["pos"]} if "pos" in atoms else {}
        self.rms, self.sums = [], []
        stream, parallel, raw_first = atoms, False, False
        for number, layer in enumerate(self.anatomy.layers):
            if not layer.attention.projections:
                self.anatomy.lost(f"in block {number} queries, keys and values could not be followed")
                return
            reading = read(self.trace, layer.attention.projections[-1], _core(stream))
            if number == 0:
                if reading.kind == "unknown":
                    self._blind("attention", "in block 0")
                    return
                self.embedding(reading.u, atoms)
                raw_first = reading.kind == "none"
            elif not self.wired(reading, stream, parallel, number - 1) and reading.kind == "unknown":
                return
            after = self.block(layer, number, reading)
            if after is None:
                return
            stream, parallel = after
        self._head(stream, parallel)
        self._norm_sum(raw_first)
        self._norms_shared()
        if self.no_table:
            self._no_positions()

    def block_alone(self, x: Tensor, result: Reading) -> None:
        """One block by itself, from its input x (B, T, C) to its output."""
        self.table, self.rms, self.sums = {}, [], []
        layer = self.anatomy.layers[0]
        if not layer.attention.projections:
            self.anatomy.lost("queries, keys and values could not be followed")
            return
        reading = read(self.trace, layer.attention.projections[-1], {"stream": x})
        if combination(reading.u, {"stream": x}) is None:
            self._blind("attention", "in block 0")
            return
        after = self.block(layer, 0, reading)
        if after is None:
            return
        self.wired(result, *after, 0)
        self._norm_sum(reading.kind == "none")
        self._norms_shared()
        if self.rms:
            self._rms()

    def block(self, layer: Layer, number: int, reading: Reading) -> tuple[dict[str, Tensor], bool] | None:
        """One block, given what its attention reads: what the next reading may be made of, and whether the branches
        are parallel. None if the block could not be followed."""
        trace, where, C = self.trace, f"in block {number}", self.sizes["n_embd"]
        self._take(judge_attention(trace, layer.attention, self.sizes["n_head"], C, where))
        self.norm(reading, "attention", where)
        s, X1 = reading.u, trace.input(layer.attention.projections[-1]).double()
        if layer.attention.out is None:
            o = self._merged(layer)
            if o is None:
                self.anatomy.lost(f"{where} what attention adds could not be followed")
                return None
            self.found("out-projection-missing", f"{where} the heads' outputs reach the stream without a last matrix")
        else:
            o = trace.output(layer.attention.out).double()
        if not layer.ffn:
            self.anatomy.lost(f"{where} no feed-forward network of two linear layers: another design (a gated one?)")
            return None
        if len(layer.ffn) > 1:
            self.note(f"{where} more than one pair of linear layers follows the attention")
        atoms = {"stream": s, "read": X1, "attention": o, **self.table}
        middle = read(trace, layer.ffn[0][0], atoms)
        parallel = self.after_attention(middle, atoms, number)
        if parallel is None and middle.kind == "unknown":
            return None
        self.norm(middle, "feed-forward network", where)
        self._take(judge_ffn(trace, layer.ffn[-1], C, where, self.relu))
        X2, f = trace.input(layer.ffn[0][0]).double(), trace.output(layer.ffn[-1][1]).double()
        stream = {"middle": middle.u, "attention": o, "read2": X2, "ffn": f, "read": X1, "stream": s, **self.table}
        stream |= {f"{name} of ffn": act(f) for name, act in ACTIVATIONS.items()}
        return stream, bool(parallel)

    def _take(self, judged: Judged) -> None:
        for finding in judged.findings:
            self.found(finding.id, finding.evidence)
        for note in judged.notes:
            self.note(note)

    def _no_positions(self) -> None:
        """No position is added: look for rotated queries and keys, or a bias on the scores."""
        for layer in self.anatomy.layers:
            if not layer.attention.mixes:
                continue
            mixed = operands(layer.attention.mixes[0])
            if (self.trace.columns(mixed.q_index) < 0).any():
                self.note("queries and keys are changed by their position (RoPE?): another design, not a mistake")
                return
        if not any("ALiBi" in note for note in self.anatomy.judged.notes):
            self.found("position-missing", "the first block reads the token embedding alone")

    def _blind(self, who: str, where: str) -> None:
        self.anatomy.lost(f"{where} what the {who} reads could not be explained")

    def _merged(self, layer: Layer) -> Tensor | None:
        """The value of attention without an output projection: the heads side by side."""
        parts = []
        for mix in layer.attention.mixes:
            origin = next((o for o in self.trace.origins if o.event is mix), None)
            if origin is None or origin.rows is None or (origin.rows < 0).any():
                return None
            parts.append(self.trace._by_row(origin.value.double().reshape(-1), origin.rows))
        merged = torch.cat(parts, -1)
        return merged if merged.size(-1) == self.sizes["n_embd"] else None

    def after_attention(self, reading: Reading, atoms: dict[str, Tensor], number: int) -> bool | None:
        """How the attention's output reaches the FFN. True if the branches are parallel, None if unknown."""
        where = f"in block {number}"
        made = combination(reading.u, atoms)
        if made is None:
            return self._not_a_sum(reading.u, atoms, where, "attention")
        if "pos" in made:
            self.found("position-misplaced", f"{where} the position embedding enters the stream")
        s, n, o = made.get("stream", 0), made.get("read", 0), made.get("attention", 0)
        if (s, n, o) == (1, 0, 1):
            return False
        said = f"{where} the FFN reads {_sum(made)}"
        if (s, n, o) == (1, 0, 0):
            return True
        if (s, n, o) == (0, 0, 1):
            self.found("residual-missing", f"{said}: what was in the stream before is gone")
        elif (s, n, o) == (0, 1, 1):
            self.sums.append(("sum", where, "attention", said))
        elif _whole(made) and ((s and o and not n) or (n and o and not s)):
            self.found("residual-doubled", said)
        else:
            self.found("residual-differs", said)
        return False

    def _not_a_sum(self, u: Tensor, atoms: dict[str, Tensor], where: str, who: str) -> bool | None:
        core = {n: a for n, a in atoms.items() if not n.endswith(" of ffn")}
        inner = explain(self.trace, u, set(range(len(self.trace.origins))), core)
        if inner.kind not in ("none", "unknown", "affine") and combination(inner.u, core) is not None:
            self.sums.append(("normed", where, who, f"{where} the sum of stream and {who} is itself normalised"))
            return False
        branch = "attention" if who == "attention" else "ffn"
        for base in ("stream", "middle", "read", "read2"):
            if base in atoms and affine_in(u - atoms[base], NORMS["layer"](atoms[branch])) is not None:
                self.sums.append(("normed", where, who, f"{where} the norm stands after the {who}, on what it adds"))
                return False
        self.anatomy.lost(f"{where} what the stream holds after the {who} could not be explained")
        return None

    def wired(self, reading: Reading, atoms: dict[str, Tensor], parallel: bool, number: int) -> bool:
        """Explain a block's output by its input and its branches. False if that fails."""
        where = f"in block {number}"
        basis: dict[str, Tensor] = {
            name: atoms[name] for name in ("middle", "attention", "read2", "ffn") if name in atoms
        }
        made = combination(reading.u, basis)
        for more in ("pos", "read", "stream"):
            if made is None and more in atoms:
                made = combination(reading.u, {**basis, more: atoms[more]})
        if made is None:
            for name, atom in atoms.items():
                if name.endswith(" of ffn") and (made := combination(reading.u, {**basis, "bent": atom})) is not None:
                    act = name.removesuffix(" of ffn")
                    id = "activation-missing" if self._has("activation-missing") else "activation-wrong"
                    self.found(
                        id, f"{where} {act} stands after the second linear layer, on what is added to the stream"
                    )
                    made["ffn"] = made.pop("bent", 0)
                    break
        if made is None:
            return self._not_a_sum(reading.u, atoms, where, "feed-forward network") is not None
        if "pos" in made:
            self.found("position-misplaced", f"{where} the position embedding enters the stream")
            made.pop("pos")
        m, o, n, f = (made.get(name, 0) for name in ("middle", "attention", "read2", "ffn"))
        said = f"{where} what leaves the block is {_sum(made)}"
        if parallel and f == 1 and m == 1 and o == 1:
            self.found("branches-parallel", f"{where} both branches read the stream as it was before the block")
        elif (m, o, n, f) == (1, 0, 0, 1):
            if parallel:
                self.found("branch-unused", f"{where} what attention gives never reaches the stream")
        elif made == {"stream": 1} or (m, o, n, f) == (1, -1, 0, 0) or (parallel and (m, n, f) == (1, 0, 0)):
            self.found("blocks-skipped", f"{where} what leaves the block is what entered it")
        elif (m, n, f) == (1, 0, 0):
            self.found("branch-unused", f"{said}: nothing of what the feed-forward network gives")
        elif (m, n, f) == (0, 0, 1) and not o:
            self.found("residual-missing", f"{said}: what was in the stream before is gone")
        elif (m, n, f) == (0, 1, 1):
            self.sums.append(("sum", where, "feed-forward network", said))
        elif _whole(made) and set(made) <= {"middle", "attention", "ffn"}:
            self.found("residual-doubled", said)
        else:
            self.found("residual-differs", said)
        return True

    def _has(self, id: str) -> bool:
        return any(f.id == id for f in self.anatomy.judged.findings)

    def _norm_sum(self, raw_first: bool) -> None:
        """Post-norm, a residual from the normalised stream, or branches that read without a norm."""
        raw = [s for s in self.sums if s[0] == "raw"]
        added = [s for s in self.sums if s[0] == "sum"]
        normed = [s for s in self.sums if s[0] == "normed"]
        if normed or (raw_first and added):
            said = (normed or added)[0][3]
            self.found("norm-post", f"{said}; block 0's attention reads the stream as it is" if raw_first else said)
            return
        if added:
            self.found("norm-on-stream", f"{added[0][3]}; what is added to is the normalised copy, not the stream")
        if raw:
            self.found("norm-missing", f"{raw[0][1]} the {raw[0][2]} reads the stream itself, not a normalised copy")

    def _norms_shared(self) -> None:
        names = list(self.gains)
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                if (
                    same(self.gains[a], self.gains[b], 5e-3)
                    and (self.gains[a] - self.gains[a].mean()).abs().max() > 1e-2
                ):
                    if not self._shared_blocks():
                        self.found("norm-shared", f"the {a} and the {b} read through one and the same LayerNorm")
                    return

    def _shared_blocks(self) -> bool:
        layers = self.anatomy.layers
        uses = [frozenset().union(*map(self.trace.elements, layer.attention.projections)) for layer in layers]
        return len(set(uses)) < len(uses)

    # --- The head -----------------------------------------------------------------------------------------------

    def _head(self, stream: dict[str, Tensor], parallel: bool) -> None:
        head = self.anatomy.head
        if head is None:
            self.anatomy.lost("the unembedding could not be found")
            return
        reading = read(self.trace, head, _core(stream))
        last = len(self.anatomy.layers) - 1
        if not self.wired(reading, stream, parallel, last) and reading.kind == "unknown":
            return
        if reading.kind in ("none", "affine"):  # not self.norm: the head is no branch
            self.found("final-norm-missing", "what enters the unembedding is the last block's output as it is")
        else:
            self.norm(reading, "unembedding", "at the end")
        if self.rms:
            self._rms()

    def _rms(self) -> None:
        shifted = [name for name, shift in self.rms if shift]
        if self.gains or shifted:
            name = (shifted or [self.rms[0][0]])[0]
            other = "other norms take the mean off" if self.gains else "a vector is added after it, as in a LayerNorm"
            self.found(
                "norm-rms", f"the {name} reads what was divided by its root mean square, the mean still in; {other}"
            )
        else:
            self.note("RMSNorm in the place of LayerNorm: another design, not a mistake")


def _whole(made: dict[str, float]) -> bool:
    """Whether all coefficients are whole: then something was added twice rather than scaled."""
    return all(value == int(value) for value in made.values())


def _sum(made: dict[str, float]) -> str:
    names = {
        "stream": "the stream", "read": "the attention's input", "attention": "attention", "middle": "the stream",
        "read2": "the FFN's input", "ffn": "FFN", "pos": "position embedding", "tok": "token embedding",
    }  # fmt: skip
    parts = [
        names.get(name, name) if value == 1 else f"{value:.4g} · {names.get(name, name)}"
        for name, value in made.items()
    ]
    return " + ".join(parts) or "nothing"


def dissect(trace: Trace, logits: Tensor, idx: Tensor, sizes: Sizes, weights: list[Tensor], listed: int) -> Anatomy:
    """Follow the whole model. Of the ``weights``, the first ``listed`` are registered as parameters."""
    anatomy = Anatomy()
    V = sizes["vocab_size"]
    linear = [e for e in trace.events if e.kind == "linear"]
    heads = [e for e in linear if e.w_index.size(-1) in padded(V)]
    anatomy.head = heads[-1] if heads else None
    anatomy.layers = layers_of(trace)
    if anatomy.head is not None:
        for layer in anatomy.layers:
            layer.ffn = [pair for pair in layer.ffn if anatomy.head not in pair]
    walk = Walk(trace, sizes, idx, weights, anatomy)
    judge_stack(trace, anatomy, sizes, listed)
    if not anatomy.layers:
        anatomy.lost("no attention was found in what the model computes")
        return anatomy
    walk.walk()
    if anatomy.head is not None:
        judge_head(trace, anatomy.head, anatomy.judged, logits)
    return anatomy


def judge_stack(trace: Trace, anatomy: Anatomy, sizes: Sizes, listed: int) -> None:
    """Check that there are n_layer blocks, each with its own registered weights."""
    L, layers = sizes["n_layer"], anatomy.layers
    uses, weights = [], set()
    for layer in layers:
        events = [*layer.attention.projections, *(e for pair in layer.ffn for e in pair)]
        uses.append(frozenset().union(*map(trace.elements, events)))
        weights |= {n for e in events for n in trace.weight_of(e)}
    stray = [n for n in weights if n >= listed]
    if stray:
        anatomy.judged.add(
            "blocks-unregistered", f"{len(stray)} of the matrices that the blocks use are not in model.parameters()"
        )
    if 0 < len(layers) < L:
        anatomy.judged.add("blocks-skipped", f"n_layer is {L}, and {len(layers)} attention layer ran")
    elif len(layers) > 1 and any(a & b for i, a in enumerate(uses) for b in uses[i + 1 :]):
        anatomy.judged.add("blocks-shared", f"the {len(layers)} blocks use the same matrices")


def judge_head(trace: Trace, head: Event, judged: Judged, logits: Tensor) -> None:
    """Check that the unembedding has no bias and that its output is returned unchanged."""
    out = trace.output(head).double()
    V = logits.size(-1)
    if head.bias:
        judged.add("head-bias", "a vector of the vocabulary's size is added to the logits")
    if out.shape[:2] != logits.shape[:2] or out.size(-1) < V:
        return
    out, logits = out[..., :V], logits.double()
    if same(logits, out):
        return
    if same(logits, out.softmax(-1)):
        judged.add("logits-are-probabilities", "what is returned sums to one over the vocabulary")
    elif same(logits, out.log_softmax(-1)):
        judged.notes.append("the logits are log-probabilities: the same distribution, one softmax more")
    elif (made := combination(logits, {"logits": out})) is not None:
        judged.add("logits-scaled", f"the logits are the unembedding's output times {made['logits']:.4g}")
