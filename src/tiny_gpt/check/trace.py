"""A record of what a model computed: each operation, its numbers, and where every element was moved from.

Nothing here knows the names or the modules of the model. Below autograd all styles meet: ``nn.Linear``, ``einsum``
and ``x @ W`` end in the same few products. Each tensor carries an index tensor of its own shape; what only moves
numbers (view, transpose, split, cat, ...) moves the indices alike. So for any element of an operand one can say which
element of which earlier result it is, and a wrong reshape shows itself, whatever it was written with.

Shapes: B texts, T positions, C width; a *row* is the pair (text, position), numbered ``b * T + t``.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

if TYPE_CHECKING:
    from torch._ops import OpOverload

MOVES = {
    "view", "_unsafe_view", "reshape", "_reshape_alias", "transpose", "t", "permute", "slice", "select", "split",
    "split_with_sizes", "chunk", "unbind", "expand", "squeeze", "unsqueeze", "clone", "contiguous", "alias", "detach",
    "cat", "stack", "as_strided", "flip", "roll", "repeat", "lift_fresh", "narrow", "unfold", "movedim", "copy_",
    "swapaxes", "index_select", "squeeze_", "unsqueeze_", "transpose_", "unflatten", "view_as", "expand_as",
    "repeat_interleave", "split_copy", "unsafe_split", "unsafe_chunk", "unsafe_split_with_sizes",
}  # fmt: skip
CASTS = {"_to_copy", "to", "_autocast_to_reduced_precision", "_autocast_to_full_precision"}
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "convolution"}
RANDOM = {
    "bernoulli",
    "bernoulli_",
    "rand_like",
    "randn_like",
    "rand",
    "randn",
    "uniform_",
    "normal_",
    "random_",
    "exponential_",
}
EMPTY = {  # made like another tensor, but not of its numbers
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "new_zeros",
    "new_ones",
    "new_empty",
    "new_full",
} | RANDOM


@dataclass(eq=False)
class Origin:
    """A result that was computed, not moved: the elements ``base`` to ``base + numel`` of all indices."""

    base: int
    shape: tuple[int, ...]
    value: Tensor  # as it was when it was computed
    name: str
    data: bool  # does it depend on the input, or on weights and constants only?
    rows: Tensor | None = None  # for each element its row b * T + t, or -1 if it has none
    columns: Tensor | None = None  # for each element of a linear map's output, the weight that made it
    event: "Event | None" = None
    parents: frozenset[int] = frozenset()  # numbers of the origins that it was computed from


@dataclass(eq=False)
class Event:
    """One product: of the stream with weights ("linear"), or of two things that depend on the input ("pair")."""

    kind: str
    left: Tensor  # (G, M, K)
    right: Tensor  # (G, K, N)
    left_index: Tensor
    right_index: Tensor
    left_from: frozenset[int]  # the nearest earlier events that this operand was computed from
    right_from: frozenset[int]
    factors: tuple[float, float]  # constants that the operands were multiplied by on their way here
    value: Tensor  # (G, M, N)
    number: int  # position in Trace.events
    weight_on_left: bool = False  # a linear map written as W @ x
    bias: bool = False  # weights were added to the output
    scores: "Event | None" = None  # of a pair that mixes values: the pair that its weights come from
    weights_on_left: bool = True

    @property
    def x(self) -> Tensor:
        return self.right.mT if self.weight_on_left else self.left  # (G, M, K)

    @property
    def x_index(self) -> Tensor:
        return self.right_index.mT if self.weight_on_left else self.left_index

    @property
    def w_index(self) -> Tensor:
        return self.left_index.mT if self.weight_on_left else self.right_index  # (G, K, N)

    @property
    def sources(self) -> frozenset[int]:
        return self.right_from if self.weight_on_left else self.left_from


@dataclass(eq=False)
class Info:
    """What is known of a tensor: where its elements are from, and what it was multiplied by since."""

    index: Tensor
    data: bool
    weight: bool  # made of weights and constants only
    factor: float = 1.0
    sources: frozenset[int] = frozenset()
    noise: bool = False  # drawn at random
    origins: frozenset[int] = frozenset()  # numbers of the origins whose elements these are


@dataclass(eq=False)
class Draw:
    """Random zeros (dropout): what was thinned out, and what that had been computed from."""

    value: Tensor
    sources: frozenset[int]
    rate: float  # the share of zeros


@contextmanager
def recorded(B: int, T: int, inputs: Sequence[Tensor], weights: Sequence[Tensor]) -> Iterator["Trace"]:
    """Record what is computed in the block, with fused kernels opened into their steps."""
    trace, fast = Trace(B, T, inputs, weights), torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), trace:
            yield trace
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@dataclass(eq=False)
class Trace(TorchDispatchMode):
    """Record everything within ``with trace:``. ``inputs`` are the tensors that count as data."""

    B: int
    T: int
    inputs: Sequence[Tensor]
    weights: Sequence[Tensor]
    origins: list[Origin] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    strays: list[nn.Parameter] = field(default_factory=list)  # weights used that the model does not list
    softmax_inputs: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own, which has no annotations
        self.infos: dict[int, Info] = {}
        self.kept: list[Tensor] = []  # while a tensor is kept its id is not used again
        self.bases: list[int] = []
        self.aliases: dict[int, list[Tensor]] = {}
        self.weight_bases: dict[int, tuple[int, int]] = {}  # id -> (base, end)
        for tensor in self.weights:
            self._leaf(tensor, data=False, weight=True)
        for tensor in self.inputs:
            self._leaf(tensor, data=True, weight=False)

    # --- Recording ----------------------------------------------------------------------------------------------

    def __torch_dispatch__(
        self,
        func: "OpOverload[..., Any]",
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        tensors = [a for a in tree_leaves((args, kwargs)) if isinstance(a, Tensor)]
        infos = [self.info(t) for t in tensors]
        before = [t.detach().clone() for t in tensors] if name in PRODUCTS else None
        thinned = self._thinned(name, tensors, infos)
        if name in ("_softmax", "_safe_softmax", "softmax") and infos[0].data:
            self.softmax_inputs.append(tensors[0].detach().clone())
        out = func(*args, **kwargs)
        outs = [o for o in tree_leaves(out) if isinstance(o, Tensor)]
        if any(o.is_meta for o in outs):
            return out
        data = any(i.data for i in infos) and name not in EMPTY
        noise = name in RANDOM or (not data and any(i.noise for i in infos))
        weight = not data and any(i.weight for i in infos)
        sources = frozenset().union(*(i.sources for i in infos)) if infos and data else frozenset()
        parents = frozenset().union(*(i.origins for i in infos)) if infos and data else frozenset()
        moved = self._moved(func, name, args, kwargs, tensors, infos, outs)
        for number, result in enumerate(outs):
            if moved is not None and number < len(moved) and moved[number].shape == result.shape:
                index, factor = moved[number], self._factor(name, args, tensors, infos)
                new = Info(index, data, weight, factor, sources, noise, parents)
            else:
                origin = self._origin(result, name, data)
                origin.parents = parents
                here = frozenset({len(self.origins) - 1})
                new = Info(self._indices(origin), data, weight, 1.0, sources, noise, here)
                if number == 0 and before is not None and data:
                    self._product(name, infos, before, result, origin, new)
                elif name in ("add", "add_", "sub", "sub_") and data:
                    self._inherit(origin, tensors, infos)
            self._note(result, new)
            if name.endswith("_") and not name.startswith("_"):
                self._spread(result, new)
        if thinned is not None:
            zeros = (outs[0].eq(0) & thinned.ne(0)).sum() / thinned.ne(0).sum().clamp(min=1)
            self.draws.append(Draw(thinned, sources, float(zeros)))
        return out

    def _thinned(self, name: str, tensors: list[Tensor], infos: list[Info]) -> Tensor | None:
        """The data that this operation makes zero at random, if it does."""
        if name in ("native_dropout", "_fused_dropout"):
            return tensors[0].detach().clone()
        if name.rstrip("_") in ("mul", "masked_fill", "where", "div") and any(i.noise for i in infos):
            live = [t for t, i in zip(tensors, infos, strict=True) if i.data and t.is_floating_point()]
            return live[0].detach().clone() if live else None
        return None

    def info(self, tensor: Tensor) -> Info:
        found = self.infos.get(id(tensor))
        if found is not None:
            return found
        if isinstance(tensor, nn.Parameter):
            self.strays.append(tensor)
            return self._leaf(tensor, data=False, weight=True)
        return self._leaf(tensor, data=False, weight=False)

    def _leaf(self, tensor: Tensor, data: bool, weight: bool) -> Info:
        origin = self._origin(tensor, "leaf", data)
        new = Info(self._indices(origin), data, weight, origins=frozenset({len(self.origins) - 1}))
        if weight:
            self.weight_bases[id(tensor)] = (origin.base, origin.base + max(1, tensor.numel()))
        return self._note(tensor, new)

    def _note(self, tensor: Tensor, info: Info) -> Info:
        self.infos[id(tensor)] = info
        self.kept.append(tensor)
        if not tensor.is_meta:
            self.aliases.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
        return info

    def _spread(self, changed: Tensor, new: Info) -> None:
        """After an in-place operation: other views of the same memory now depend on what was written there."""
        for other in self.aliases.get(changed.untyped_storage().data_ptr(), []):
            known = self.infos[id(other)]
            if other is not changed:
                known.data |= new.data
                known.sources |= new.sources
                known.origins |= new.origins

    def _origin(self, tensor: Tensor, name: str, data: bool) -> Origin:
        base = self.bases[-1] + max(1, self.origins[-1].value.numel()) if self.origins else 0
        value = tensor.detach().clone() if not tensor.is_meta else torch.empty(0)
        origin = Origin(base, tuple(tensor.shape), value, name, data)
        origin.rows = self._rows_by_shape(origin.shape) if data and tensor.is_floating_point() else None
        self.origins.append(origin)
        self.bases.append(base)
        return origin

    @staticmethod
    def _indices(origin: Origin) -> Tensor:
        return torch.arange(origin.base, origin.base + origin.value.numel()).view(origin.value.shape)

    def _rows_by_shape(self, shape: tuple[int, ...]) -> Tensor | None:
        B, T = self.B, self.T
        rows = torch.arange(B * T)
        if shape[:2] == (B, T):
            pass
        elif shape[:2] == (T, B):
            rows = rows.view(B, T).t().reshape(-1)
        elif len(shape) == 3 and (shape[0], shape[2]) == (B, T):  # channels second, as a convolution has them
            return rows.view(B, 1, T).expand(shape).reshape(-1)
        elif shape[:1] != (B * T,):
            return None
        per_row = math.prod(shape) // (B * T)
        return rows.repeat_interleave(per_row)

    def _moved(
        self,
        func: "OpOverload[..., Any]",
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[Tensor],
        infos: list[Info],
        outs: list[Tensor],
    ) -> list[Tensor] | None:
        if name in CASTS and outs and outs[0].shape == tensors[0].shape:
            return [infos[0].index.clone()]
        if name in ("mul", "mul_", "div", "div_", "true_divide") and self._constant(args, tensors, infos) is not None:
            return [next(i.index for i in infos if i.data or i.weight)]
        if name not in MOVES:
            return None

        def index_of(leaf: object) -> object:
            return self.info(leaf).index if isinstance(leaf, Tensor) else leaf

        try:
            if name in ("index_select", "repeat_interleave"):
                swapped = (index_of(args[0]), *args[1:])
            else:
                swapped = tree_map(index_of, args)
            return [o for o in tree_leaves(func(*swapped, **kwargs)) if isinstance(o, Tensor)]
        except Exception:
            if name.endswith("view"):  # the index lies otherwise in memory than the numbers
                return [infos[0].index.reshape(outs[0].shape)]
            return None  # a movement that an index tensor cannot follow is a new origin

    def _constant(self, args: tuple[Any, ...], tensors: list[Tensor], infos: list[Info]) -> float | None:
        """The constant of ``x * c`` or ``x / c``, if that is what this is."""
        live = [i for i in infos if i.data or i.weight]
        if len(live) != 1 or len(args) < 2:
            return None
        tensor = next(t for t, i in zip(tensors, infos, strict=True) if i is live[0])
        other = args[1] if args[0] is tensor else args[0]
        if isinstance(other, Tensor):
            return float(other) if other.numel() == 1 and other.dim() <= tensor.dim() else None
        return float(other) if isinstance(other, int | float) else None

    def _factor(self, name: str, args: tuple[Any, ...], tensors: list[Tensor], infos: list[Info]) -> float:
        if not infos:
            return 1.0
        if name in ("mul", "mul_", "div", "div_", "true_divide"):
            constant = self._constant(args, tensors, infos)
            old = next(i.factor for i in infos if i.data or i.weight)
            if name.startswith("mul") and constant is not None:
                return old * constant
            return old / constant if constant else math.nan
        factors = {i.factor for i in infos if i.data or i.weight}
        return factors.pop() if len(factors) == 1 else (math.nan if factors else 1.0)

    def _product(
        self,
        name: str,
        infos: list[Info],
        values: list[Tensor],
        result: Tensor,
        origin: Origin,
        new: Info,
    ) -> None:
        if name == "convolution":
            return self._convolution(infos, values, result, origin, new)
        bias = infos[0]
        if name in ("addmm", "baddbmm"):
            infos, values = infos[1:], values[1:]
        a, b = infos

        def cubed(t: Tensor) -> Tensor:
            return t if t.dim() == 3 else t[None]

        if not (a.weight or b.weight or (a.data and b.data)):
            return None
        event = Event(
            kind="pair" if a.data and b.data else "linear",
            left=cubed(values[0]), right=cubed(values[1]),
            left_index=cubed(a.index), right_index=cubed(b.index),
            left_from=a.sources, right_from=b.sources, factors=(a.factor, b.factor),
            value=cubed(result.detach().clone()), number=len(self.events), weight_on_left=a.weight,
            bias=name == "addmm" and bias.weight,
        )  # fmt: skip
        self.events.append(event)
        new.sources = frozenset({event.number})
        origin.event = event
        if event.kind == "linear":
            rows = self.rows(event.x_index)  # (G, M, K)
            row = torch.where((rows == rows[..., :1]).all(-1), rows[..., 0], -1)  # (G, M)
            G, M, N = (*row.shape, event.w_index.size(-1))
            made = [row[..., None].expand(G, M, N), event.w_index[:, :1].expand(G, M, N)]
            made = [m.mT if event.weight_on_left else m for m in made]
            origin.rows, origin.columns = (m.reshape(-1).clone() for m in made)
        else:
            self._pair(event, origin)
        return None

    def _convolution(self, infos: list[Info], values: list[Tensor], result: Tensor, origin: Origin, new: Info) -> None:
        """A convolution over one position is a linear map: (B, C, T) with weights (N, C, 1)."""
        x, w = infos[:2]
        if not (x.data and w.weight) or values[1].dim() != 3 or values[1].size(-1) != 1:
            return
        event = Event(
            kind="linear", left=values[0].mT, right=values[1][..., 0].t()[None].expand(len(values[0]), -1, -1),
            left_index=x.index.mT, right_index=w.index[..., 0].t()[None].expand(len(values[0]), -1, -1),
            left_from=x.sources, right_from=w.sources, factors=(x.factor, w.factor),
            value=result.detach().clone().mT, number=len(self.events),
        )  # fmt: skip
        self.events.append(event)
        new.sources = frozenset({event.number})
        origin.event = event
        rows = self.rows(event.left_index)  # (B, T, C)
        row = torch.where((rows == rows[..., :1]).all(-1), rows[..., 0], -1)  # (B, T)
        columns = w.index[:, 0, 0]  # (N,)
        shape = result.shape  # (B, N, T)
        origin.rows = row[:, None].expand(shape).reshape(-1).clone()
        origin.columns = columns[None, :, None].expand(shape).reshape(-1).clone()

    def _pair(self, event: Event, origin: Origin) -> None:
        """A product of two things that depend on the input: scores, or values mixed by weights made of scores."""
        made_of_pairs = [
            [self.events[n] for n in sorted(sources) if self.events[n].kind == "pair" and self.events[n].scores is None]
            for sources in (event.left_from, event.right_from)
        ]
        if made_of_pairs[0] and not made_of_pairs[1]:
            event.scores, event.weights_on_left = made_of_pairs[0][-1], True
        elif made_of_pairs[1] and not made_of_pairs[0]:
            event.scores, event.weights_on_left = made_of_pairs[1][-1], False
        else:
            return
        # Output (G, Tq, D): its text is that of the values, its position the number of the query.
        index = event.right_index if event.weights_on_left else event.left_index.mT  # (G, S, D)
        rows = self.rows(index)
        text = torch.where(rows >= 0, rows // self.T, -1)  # (G, S, D)
        text = torch.where((text == text[:, :1, :1]).all(-1).all(-1), text[:, 0, 0], -1)  # (G,)
        G, M, N = event.value.shape
        queries = M if event.weights_on_left else N
        row = torch.where(text[:, None] >= 0, text[:, None] * self.T + torch.arange(queries), -1)  # (G, Tq)
        made = row[..., None].expand(G, queries, M * N // queries)
        origin.rows = (made if event.weights_on_left else made.mT).reshape(-1).clone()

    def _inherit(self, origin: Origin, tensors: list[Tensor], infos: list[Info]) -> None:
        """A bias added to a linear map's output: still that output."""
        live = [(t, i) for t, i in zip(tensors, infos, strict=True) if i.data]
        if len(live) != 1 or len(infos) > 2 or live[0][0].shape != origin.shape:
            return
        if len(infos) == 2 and not any(i.weight for i in infos):
            return
        made = self.made_by(live[0][1].index)
        if made is not None and made.kind == "linear":
            origin.event, made.bias = made, True
            origin.rows, origin.columns = self.rows(live[0][1].index).reshape(-1), self.columns(live[0][1].index)
            origin.columns = origin.columns.reshape(-1)

    # --- Asking -------------------------------------------------------------------------------------------------

    def origin_numbers(self, index: Tensor) -> Tensor:
        return torch.bucketize(index.contiguous(), torch.tensor(self.bases), right=True) - 1

    def origin_at(self, index: int) -> Origin:
        return self.origins[bisect_right(self.bases, index) - 1]

    def origins_of(self, index: Tensor) -> list[Origin]:
        return [self.origins[n] for n in self.origin_numbers(index).unique().tolist()]

    def _gather(self, index: Tensor, what: str) -> Tensor:
        numbers, result = self.origin_numbers(index), torch.full(index.shape, -1, dtype=torch.long)
        for n in numbers.unique().tolist():
            origin = self.origins[n]
            table = getattr(origin, what)
            if table is not None:
                here = numbers == n
                result[here] = table[index[here] - origin.base]
        return result

    def ancestors(self, numbers: frozenset[int]) -> set[int]:
        """These origins and all that they were computed from."""
        found, todo = set(), list(numbers)
        while todo:
            number = todo.pop()
            if number not in found:
                found.add(number)
                todo += self.origins[number].parents
        return found

    def rows(self, index: Tensor) -> Tensor:
        """For each element its row b * T + t, or -1."""
        return self._gather(index, "rows")

    def columns(self, index: Tensor) -> Tensor:
        """For each element the weight that made it (its first), or -1 if no linear map did."""
        return self._gather(index, "columns")

    def made_by(self, index: Tensor) -> Event | None:
        """The one product whose output all these elements are, or None."""
        origins = self.origins_of(index)
        events = {o.event.number for o in origins if o.event is not None}
        return self.events[events.pop()] if len(events) == 1 and all(o.event for o in origins) else None

    def output(self, event: Event) -> Tensor:
        """What a linear map gave, its bias included, as (B, T, N)."""
        origin = [o for o in self.origins if o.event is event][-1]
        return self._by_row(origin.value.reshape(-1), origin.rows)

    def input(self, event: Event) -> Tensor:
        """What a linear map read, as (B, T, K)."""
        rows = self.rows(event.x_index)  # (G, M, K)
        width = rows.size(-1)
        rows = torch.where((rows == rows[..., :1]).all(-1), rows[..., 0], -1).reshape(-1)  # (G * M,)
        x = event.x.reshape(-1, width)
        if (rows < 0).any():  # rows that were mixed: taken in the order in which they stand
            return x[: self.B * self.T].view(self.B, -1, width)
        first = torch.tensor([int((rows == r).nonzero()[0]) for r in range(self.B * self.T)])
        return x[first].view(self.B, self.T, width)

    def _by_row(self, values: Tensor, rows: Tensor | None) -> Tensor:
        if rows is None or (rows < 0).any():
            return values.view(self.B, self.T, -1)
        order = torch.sort(rows, stable=True).indices
        return values[order].view(self.B, self.T, -1)

    def elements(self, event: Event) -> frozenset[int]:
        """Which elements of weights a linear map used (one of each column)."""
        return frozenset(event.w_index[:, 0].flatten().tolist())

    def weight_of(self, event: Event) -> list[int]:
        """Which weights (numbers in ``weights`` and then ``strays``) a linear map used."""
        bases = {o.base for o in self.origins_of(event.w_index)}
        every = [*self.weights, *self.strays]
        return [n for n, w in enumerate(every) if self.weight_bases[id(w)][0] in bases]
