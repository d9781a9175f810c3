"""Where each number of the book's model is kept among the parameters of a model that somebody wrote.

A model with random weights, all different, is run once under ``trace``, which knows for every number of every product
where it was moved from. So the weight that makes channel d of head h's query is found as a place in the parameters,
laid end to end; and likewise every other number, however it is stored.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .anatomy import ACTIVATIONS, Anatomy, Reading
from .attention import Attention, operands
from .recomputed import assemblies, attend
from .subject import Sizes
from .trace import Event, Trace

ZERO, ONE = -1, -2  # places of numbers for which the model has no parameter


class NotCarriedOver(ValueError):
    """A model, or a part of it, that the book's model cannot stand for; the message says which part and why."""


def gathered(places: dict[str, Tensor], parameters: Sequence[Tensor]) -> dict[str, Tensor]:
    """The weights at these places, under the book's names: a function of the parameters, so gradients flow to them."""
    flat = torch.cat([p.new_tensor([1.0, 0.0]) for p in parameters[:1]] + [p.reshape(-1) for p in parameters])
    return {name: flat[place + 2] for name, place in places.items()}


class Places:
    """Finds, for each number of the book's model, its place in the reader's parameters."""

    def __init__(self, model: nn.Module, sizes: Sizes, trace: Trace, anatomy: Anatomy):
        self.sizes, self.trace, self.anatomy = sizes, trace, anatomy
        parameters = list(model.parameters())  # a tied one comes once
        weights = [p.detach() for p in parameters]
        starts = [0]
        for w in weights:
            starts.append(starts[-1] + w.numel())
        self.starts = starts
        bases = [trace.weight_bases[id(p)][0] for p in parameters]  # as the trace counts
        self.shift = {base: start - base for base, start in zip(bases, starts, strict=False)}
        self.flat = torch.cat([w.reshape(-1) for w in weights]).double()
        self.sorted, self.order = self.flat.sort()

    def of(self, index: Tensor, what: str) -> Tensor:
        """The places of the weights with these indices of the trace."""
        places = torch.empty_like(index)
        numbers = self.trace.origin_numbers(index)
        for n in numbers.unique().tolist():
            base = self.trace.origins[n].base
            if base not in self.shift:
                raise NotCarriedOver(f"{what} is computed from parameters, not one of them")
            here = numbers == n
            places[here] = index[here] + self.shift[base]
        return places

    def having(self, values: Tensor, what: str) -> Tensor:
        """The places of the parameters with these values; loud ones all differ. 0 and 1 have places of their own."""
        values = values.double()
        at = torch.searchsorted(self.sorted, values.contiguous()).clamp(1, len(self.sorted) - 1)
        at = torch.where((self.sorted[at] - values).abs() < (self.sorted[at - 1] - values).abs(), at, at - 1)
        places = self.order[at]
        places = torch.where((values - 1).abs() < 1e-9, ONE, places)
        places = torch.where(values.abs() < 1e-9, ZERO, places)
        found = torch.where(places >= 0, self.flat[places.clamp_min(0)], (places == ONE).double())
        if (found - values).abs().max() > 1e-8:
            raise NotCarriedOver(f"{what} is not a parameter, nor 0")
        return places

    def find(self) -> dict[str, Tensor]:
        """For each number of the book's model its place. Raises NotCarriedOver with the part that has none."""
        C, H, V = (self.sizes[name] for name in ("n_embd", "n_head", "vocab_size"))
        places, readings = {}, self.anatomy.readings
        for name, role, rows in (("wte", "token", V), ("wpe", "position", self.sizes["block_size"])):
            numbers = self.anatomy.roles.get(f"{role} embedding")
            if not numbers:
                raise NotCarriedOver(f"the {role} embedding could not be found")
            start = self.starts[min(numbers)]
            places[f"{name}.weight"] = torch.arange(start, start + rows * C).view(rows, C)
        self._tied(places["wte.weight"])
        for i, layer in enumerate(self.anatomy.layers):
            block, where = f"blocks.{i}", f"in block {i}"
            attention = layer.attention
            if attention.out is None or not layer.ffn:
                raise NotCarriedOver(f"{where} a matrix is missing")
            self._norm(places, f"{block}.ln1", readings[f"attention {where}"], attention.projections[-1])
            heads = self._heads(attention, where)
            if len(heads) != H:
                raise NotCarriedOver(f"{where} there are {len(heads)} heads, where the config says {H}")
            qkv = [torch.cat([head[part] for head in heads]) for part in ("q", "k", "v")]  # (C, C) each
            places[f"{block}.attn.qkv.weight"] = torch.cat(qkv)
            bias = [torch.cat([head[f"{part} bias"] for head in heads]) for part in ("q", "k", "v")]  # (C,) each
            places[f"{block}.attn.qkv.bias"] = torch.cat(bias)
            channels = torch.cat([head["channels"] for head in heads])  # (C,)
            self._linear(places, f"{block}.attn.out_proj", attention.out, where, channels)
            first, second = layer.ffn[-1]
            self._norm(places, f"{block}.ln2", readings[f"feed-forward network {where}"], first)
            self._activation(first, second, where)
            self._linear(places, f"{block}.mlp.fc1", first, where)
            self._linear(places, f"{block}.mlp.fc2", second, where)
        head = self.anatomy.head
        assert head is not None  # else the anatomy would not be complete
        self._norm(places, "ln_f", readings["unembedding at the end"], head)
        return places

    def _tied(self, wte: Tensor) -> None:
        head = self.anatomy.head
        assert head is not None
        if (_weight(head)[:, : len(wte)] - self.flat[wte].mT).abs().max() > 1e-9:
            raise NotCarriedOver("the unembedding is a matrix of its own, and the book's model has one for both ends")

    def _norm(self, places: dict[str, Tensor], name: str, reading: Reading, event: Event) -> None:
        """Gain and shift of the LayerNorm in front of a linear map."""
        X, u = self.trace.input(event).double().flatten(0, -2), reading.u.double().flatten(0, -2)  # (B * T, C) each
        for eps in (1e-5, 1e-6, 1e-12, 1e-8, 0.0, 1e-3):
            z = F.layer_norm(u, u.shape[-1:], eps=eps)
            z0, X0 = z - z.mean(0), X - X.mean(0)
            gain = (X0 * z0).sum(0) / z0.square().sum(0)
            if (X0 - gain * z0).abs().max() < 1e-9 * X.abs().max():
                break
        else:
            raise NotCarriedOver(f"what stands for {name} is not a LayerNorm to the last digit")
        if eps != 1e-5:
            raise NotCarriedOver(f"the eps of what stands for {name} is {eps:g}, and the book's LayerNorm has 1e-05")
        places[f"{name}.weight"] = self.having(gain, f"the gain of {name}")
        places[f"{name}.bias"] = self.having((X - gain * z).mean(0), f"the bias of {name}")

    def _linear(
        self, places: dict[str, Tensor], name: str, event: Event, where: str, channels: Tensor | None = None
    ) -> None:
        """Weight (out, in) and bias of a linear map, its inputs in the order of ``channels``."""
        index = event.w_index[0]  # (in, out)
        weight = _weight(event)  # (in, out)
        x, y = (self.trace.input(event)[0, 0].double(), self.trace.output(event)[0, 0].double())
        order = slice(None) if channels is None else channels
        places[f"{name}.weight"] = self.of(index[order].mT, f"{where} the matrix {name}")
        places[f"{name}.bias"] = self.having(y - x @ weight, f"{where} the bias of {name}")

    def _activation(self, first: Event, second: Event, where: str) -> None:
        h, g = self.trace.output(first).double(), self.trace.input(second).double()
        fits = [name for name, f in ACTIVATIONS.items() if (g - f(h)).abs().max() < 1e-9 * g.abs().max()]
        if "GELU" not in fits:
            raise NotCarriedOver(
                f"{where} the activation is {fits[0] if fits else 'another one'}, and the book's model computes the "
                "exact GELU"
            )

    # --- Heads ------------------------------------------------------------------------------------------------------

    def _heads(self, attention: Attention, where: str) -> list[dict[str, Tensor]]:
        """For each head the places of q, k and v (D, C), their biases (D,), and its channels (D,) in what is merged."""
        assert attention.out is not None
        columns = {}
        for event in attention.projections:
            for g, n in product(range(len(event.w_index)), range(event.w_index.size(-1))):
                columns[int(event.w_index[g, 0, n])] = (event, g, n)
        merged = attention.out.x_index[0, 0]  # (C,): where the channels of one row of the merged heads come from
        heads: dict[tuple[int, int], dict[int, int]] = {}  # (mix, group) -> its channel -> merged channel
        for c, index in enumerate(merged.tolist()):
            origin = self.trace.origin_at(index)
            mix = origin.event
            if mix is None or mix.kind != "pair" or mix.scores is None:
                return self._closed_heads(attention, where)
            G, M, N = mix.value.shape
            g, m, n = np.unravel_index(index - origin.base, (G, M, N))
            heads.setdefault((mix.number, int(g)), {})[int(n if mix.weights_on_left else m)] = c
        found = []
        for (number, g), channels in heads.items():
            mix = self.trace.events[number]
            assert mix.scores is not None
            parts = operands(mix)
            head = {"channels": torch.tensor([channels[d] for d in sorted(channels)])}
            indices = (parts.q_index[g, 0], parts.k_index[g, 0], parts.v_index[g, 0, sorted(channels)])
            for part, index in zip("qkv", indices, strict=True):
                self._rows(head, part, index, columns, where)
            found.append(head)
        return found

    def _rows(
        self, head: dict[str, Tensor], part: str, index: Tensor, columns: dict[int, tuple[Event, int, int]], where: str
    ) -> None:
        """The weights and biases of one head's queries, keys or values, from where one row of them (D,) comes from."""
        rows, keys = self.trace.rows(index), self.trace.columns(index)
        if (rows < 0).any() or any(int(key) not in columns for key in keys):
            raise NotCarriedOver(f"{where} the {part} of a head is not what a linear map gave")
        weights, biases = [], []
        for place, row, key in zip(index.tolist(), rows.tolist(), keys.tolist(), strict=True):
            event, g, n = columns[key]
            weight = (event.left.mT if event.weight_on_left else event.right)[g, :, n].double()
            x = self.trace.input(event).flatten(0, 1)[row].double()
            origin = self.trace.origin_at(place)  # what the linear map gave, its bias included
            weights.append(self.of(event.w_index[g, :, n], f"{where} the matrix for {part}"))
            biases.append(origin.value.reshape(-1)[place - origin.base].double() - x @ weight)
        head[part] = torch.stack(weights)
        head[f"{part} bias"] = self.having(torch.stack(biases), f"{where} the bias of {part}")

    def _closed_heads(self, attention: Attention, where: str) -> list[dict[str, Tensor]]:
        """The same for attention without products that can be seen: which arrangement gives what was merged?"""
        trace, H, out = self.trace, self.sizes["n_head"], attention.out
        assert out is not None
        Y = torch.cat([trace.output(event).double() for event in attention.projections], -1)  # (B, T, 3C)
        columns = [(event, n) for event in attention.projections for n in range(event.w_index.size(-1))]
        weights = torch.stack([self.of(e.w_index[0, :, n], f"{where} a matrix") for e, n in columns])  # (3C, C)
        products = torch.cat([trace.input(e)[0, 0].double() @ _weight(e) for e in attention.projections])  # (3C,)
        biases = self.having(Y[0, 0] - products, f"{where} a bias")  # (3C,)
        merged = trace.input(out).double().flatten(0, 1)  # (B * T, C)
        D = merged.size(-1) // H
        numbers = torch.arange(Y.size(-1)).expand(1, 1, -1)
        for parts, which in zip(assemblies(Y, H), assemblies(numbers, H), strict=True):
            given = attend(*parts, D**-0.5, "past", -1).flatten(0, 1)  # (B * T, C)
            gaps, channels = (given[:, :, None] - merged[:, None, :]).abs().amax(0).min(1)  # (C,): its merged channel
            if gaps.max() > 1e-9 * merged.abs().max():
                continue
            heads = [{"channels": channels[h * D : (h + 1) * D]} for h in range(H)]
            for part, own in zip("qkv", which, strict=True):
                for h, head in enumerate(heads):
                    head[part], head[f"{part} bias"] = weights[own[0, h, 0]], biases[own[0, h, 0]]
            return heads
        raise NotCarriedOver(f"{where} the attention could not be opened")


def _weight(event: Event) -> Tensor:
    """The matrix (in, out) of a linear map, of its first group."""
    return (event.left.mT if event.weight_on_left else event.right)[0].double()
