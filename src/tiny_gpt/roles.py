"""Which of a reader's parameters plays which role, found by tracing, whatever its name and however it is stored.

A copy of the model is given loud random weights in double precision and run once under ``check.trace``, which knows
for every number of every product where it was moved from. So the weight that makes channel d of head h's query is
found as a place in the reader's own parameters, and likewise every other number of the book's model: the result is a
table of places, which turns the reader's weights into a state dict for ``TinyGPT``. Whether that model computes the
same is then not believed but tried.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .check.anatomy import ACTIVATIONS, Anatomy, Reading, dissect
from .check.attention import Attention, operands
from .check.causes import CAUSES
from .check.recomputed import assemblies, attend
from .check.subject import Subject, outputs
from .check.trace import Event, Trace, recorded
from .model import GPTConfig, TinyGPT
from .rng import seeded

B = 3  # texts that the model is traced on
ZERO, ONE = -1, -2  # places of numbers that the reader's model has no parameter for


class NotCarriedOver(ValueError):
    """A model, or a part of it, that the book's model cannot stand for; the message says which part and why."""


@dataclass(frozen=True)
class Roles:
    """For each parameter of ``TinyGPT(config)`` the places of its numbers in the reader's parameters, end to end."""

    config: GPTConfig
    places: Mapping[str, Tensor]

    def state_dict(self, model: nn.Module, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """The reader's weights under the book's names, for ``TinyGPT(self.config)``."""
        constants = torch.tensor([1.0, 0.0], dtype=dtype)
        flat = torch.cat([constants, *(p.detach().reshape(-1).to("cpu", dtype) for p in _parameters(model))])
        state = {name: flat[place + 2] for name, place in self.places.items()}
        return {**state, "lm_head.weight": state["wte.weight"]}


def config_of(model: nn.Module) -> GPTConfig:
    """The sizes of a model that somebody wrote: those of the book's ``GPTConfig``, read off the config that it keeps.

    Raises ValueError if the model keeps none under any name.
    """
    names = [field.name for field in fields(GPTConfig)]
    for value in vars(model).values():
        if all(hasattr(value, name) for name in names if name not in ("dropout", "bias")):
            return GPTConfig(**{name: getattr(value, name) for name in names if hasattr(value, name)})
    raise ValueError(
        f"the model keeps no config with {', '.join(names[:5])}: write self.config = config in its __init__"
    )


def find_roles(model: nn.Module, config: GPTConfig | None = None) -> Roles:
    """The roles of the parameters of a GPT that somebody wrote: ``model(idx, targets)`` returns logits and loss.

    ``config`` has its sizes; without it they are read off the model. Raises NotCarriedOver for a model that computes
    something else than ``TinyGPT`` does, with the part that differs.
    """
    config = config or config_of(model)
    loud = _amplified(model, config)
    trace, anatomy = _anatomy(loud, config)
    _without_findings(anatomy)
    roles = _Places(loud, config, trace, anatomy).find()
    prove(loud, roles, 1e-4)
    return roles


def carried_over(model: nn.Module, config: GPTConfig | None = None) -> TinyGPT:
    """The book's model with the weights of one that somebody wrote, in eval mode on the CPU.

    Its logits equal the reader's within 1e-5 over several lengths, which is tried here. Raises NotCarriedOver.
    """
    if isinstance(model, TinyGPT):
        return model
    config = config or config_of(model)
    return prove(model, find_roles(model, config))


def matrices_of_blocks(model: nn.Module, config: GPTConfig) -> list[nn.Parameter]:
    """The parameters that are matrices within the blocks: all matrices but the embeddings and the unembedding."""
    if isinstance(model, TinyGPT):
        outside = {model.wte.weight, model.wpe.weight}
    else:
        trace, anatomy = _anatomy(_amplified(model, config), config)
        numbers = set().union(*anatomy.roles.values(), trace.weight_of(anatomy.head) if anatomy.head else ())
        outside = {p for n, p in enumerate(model.parameters()) if n in numbers}
    return [p for p in model.parameters() if p.dim() == 2 and p not in outside]


def attention_weights(module: nn.Module, x: Tensor) -> Tensor:
    """The attention weights (H, T, T) of a head, an attention or a block that somebody wrote, on one text x (1, T, C).

    Raises ValueError if none can be seen in what the module computes.
    """
    was_training = module.training
    with torch.no_grad(), recorded(1, x.size(1), [x], _parameters(module)) as trace:
        module.eval()(x)
    module.train(was_training)
    mixes = [event for event in trace.events if event.kind == "pair" and event.scores is not None]
    if not mixes:
        raise ValueError(f"{type(module).__name__} mixes no positions by weights that can be seen")
    return torch.cat([operands(mix).P for mix in mixes])


# --- One run of the loud copy -----------------------------------------------------------------------------------------


def _parameters(model: nn.Module) -> list[nn.Parameter]:
    return list(model.parameters())  # a tied one comes once


def _amplified(model: nn.Module, config: GPTConfig) -> nn.Module:
    """A copy in double precision whose weights are random, so large that every path counts, and all different."""
    loud = copy.deepcopy(model).cpu().double().eval()
    Subject(type(model), sizes=vars(config)).amplify(loud, 0, 1.0, 1.0, vars(config))
    return loud


def _anatomy(loud: nn.Module, config: GPTConfig) -> tuple[Trace, Anatomy]:
    """What the loud copy computed on B texts, and the parts that the checker finds in it."""
    T = min(11, config.block_size)
    draws = torch.Generator().manual_seed(1)
    ids, targets = torch.randint(config.vocab_size, (2, B, T), generator=draws)  # (B, T) each
    weights = _parameters(loud)
    with recorded(B, T, [ids, targets], weights) as trace:
        logits = loud(ids, targets)[0]
    with torch.no_grad():
        every = [*(w.detach() for w in weights), *(w.detach() for w in trace.strays)]
        return trace, dissect(trace, logits.detach(), ids, vars(config), every, len(weights))


def _without_findings(anatomy: Anatomy) -> None:
    if anatomy.judged.findings:
        finding = anatomy.judged.findings[0]
        raise NotCarriedOver(
            f"{CAUSES[finding.id].cause} ({finding.evidence}.) The book's model cannot compute the same: mend that "
            "first, tiny-gpt check says more"
        )
    if anatomy.judged.notes or not anatomy.complete:
        raise NotCarriedOver(f"the book's model has no such part: {'; '.join(anatomy.judged.notes)}")


class _Places:
    """Finds, for each number of the book's model, its place in the reader's parameters."""

    def __init__(self, loud: nn.Module, config: GPTConfig, trace: Trace, anatomy: Anatomy):
        self.config, self.trace, self.anatomy = config, trace, anatomy
        weights = [p.detach() for p in _parameters(loud)]
        starts = [0]
        for w in weights:
            starts.append(starts[-1] + w.numel())
        self.starts = starts
        bases = [trace.weight_bases[id(p)][0] for p in _parameters(loud)]  # as the trace counts
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

    def find(self) -> Roles:
        C, H, V = self.config.n_embd, self.config.n_head, self.config.vocab_size
        places, readings = {}, self.anatomy.readings
        for name, role, rows in (("wte", "token", V), ("wpe", "position", self.config.block_size)):
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
        biased = any((place != ZERO).any() for name, place in places.items() if name.endswith("bias"))
        if not biased:
            places = {name: place for name, place in places.items() if not name.endswith("bias")}
        config = replace(self.config, bias=biased, n_layer=len(self.anatomy.layers))
        return Roles(config, places)

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
        trace, H, out = self.trace, self.config.n_head, attention.out
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


# --- The proof --------------------------------------------------------------------------------------------------------


def prove(model: nn.Module, roles: Roles, tolerance: float = 1e-5) -> TinyGPT:
    """The book's model with a model's weights, on the CPU, if the logits of both are the same; else NotCarriedOver.

    Both compute in double precision, on texts of four lengths up to the whole context.
    """
    with seeded(0):
        ours = TinyGPT(roles.config)
    ours.load_state_dict(roles.state_dict(model))
    ours.eval()
    double, theirs = copy.deepcopy(ours).double(), copy.deepcopy(model).cpu().double().eval()
    double.load_state_dict(roles.state_dict(model, torch.float64))  # loud weights in float32 would be another model
    N, V = roles.config.block_size, roles.config.vocab_size
    draws = torch.Generator().manual_seed(2)
    for T in sorted({1, 2, N // 2 + 1, N}):
        ids = torch.randint(V, (2, T), generator=draws)  # (2, T)
        gap = float((outputs(double, ids, ids) - outputs(theirs, ids, ids)[..., :V]).abs().max())
        if not gap <= tolerance:
            raise NotCarriedOver(f"on {T} characters its logits differ by {gap:.2g} from those of the book's model")
    return ours
