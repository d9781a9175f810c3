"""What a caller relies on: gradients, dropout, the config's limits, devices, precisions, checkpoints, the optimiser."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .anatomy import layers_of, same
from .attention import Attention, operands
from .probes import Probes
from .subject import B, T, crash, outputs, said
from .trace import Draw, Trace, recorded

if TYPE_CHECKING:
    from torch._ops import OpOverload


# --- Gradients --------------------------------------------------------------------------------------------------


def gradients(probes: Probes) -> None:
    """Run one backward pass; every weight must get a gradient, and so must the rows of tokens that were not read."""
    subject = probes.subject
    model = subject.amplified(6, embedding=0.4).train()
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    if frozen:
        probes.found("parameters-missing", f"{frozen[0]} does not learn: requires_grad is False")
    _tables_in_buffers(probes)
    V = subject.sizes["vocab_size"]
    ids = subject.ids % (V // 2)  # the other half of the vocabulary is never read
    loss = model(ids, ids.roll(1, 0))[1]
    if not isinstance(loss, Tensor):
        return
    if not loss.requires_grad:
        probes.found("loss-detached", "loss.requires_grad is False")
        return
    try:
        loss.mean().backward()
    except RuntimeError as error:
        id = "inplace-breaks-grad" if "inplace" in str(error) else None
        probes.add(crash(error, "in the backward pass")) if id is None else probes.found(
            id, said(error), crash(error, "").where
        )
        return
    named = list(model.named_parameters())
    idle = [name for name, p in named if p.requires_grad and (p.grad is None or not p.grad.nan_to_num(nan=1.0).any())]
    if len(idle) == len(named):
        probes.found("loss-detached", "no parameter gets a gradient")
    elif idle:
        probes.found(
            "gradient-missing", f"{len(idle)} of {len(named)} parameters get no gradient: {', '.join(idle[:4])}"
        )
    _tied(probes, named)


def _tables_in_buffers(probes: Probes) -> None:
    """Find random tables that are not parameters and so never learn. (Fixed functions of the position may be.)"""
    N, C = (probes.subject.sizes[name] for name in ("block_size", "n_embd"))
    one, other = (dict(probes.subject.build(salt).named_buffers()) for salt in (3, 4))
    for name, buffer in one.items():
        if buffer.numel() == N * C and buffer.size(-1) == C and not torch.equal(buffer, other[name]):
            probes.found("parameters-missing", f"{name}, a table of random numbers for {N} positions, is no parameter")


def _tied(probes: Probes, named: list[tuple[str, nn.Parameter]]) -> None:
    """Check that head and embedding share one tensor."""
    anatomy, trace = probes.anatomy, probes.trace
    if anatomy is None or trace is None or anatomy.head is None:
        return
    used = set(trace.weight_of(anatomy.head))
    table = anatomy.roles.get("token embedding", set())
    if not table or used & table or not used:
        return
    config = probes.subject.config()
    if any(("tie" in name or "tying" in name) and not value for name, value in _fields(config).items()):
        probes.note("the config says that the head is not tied: another design, not a mistake")
        return
    new = list(probes.subject.build(4).parameters())
    a, b = (new[min(numbers)].detach() for numbers in (table, used) if min(numbers) < len(new))
    names = [named[min(numbers)][0] for numbers in (table, used)]
    V = probes.subject.sizes["vocab_size"]
    extra = f"{names[0]} and {names[1]} are two parameters: {b.numel()} numbers more than a tied model has"
    if (a.shape == b.shape and torch.equal(a, b)) or (a.shape == b.t().shape and torch.equal(a, b.t())):
        probes.found("tied-by-copy", f"{extra}; they start equal")
    else:
        probes.found("untied", f"{extra}; rows of tokens that were not read ({V - V // 2} of {V}) get no gradient")


def _fields(config: object) -> dict[str, Any]:
    return {name: getattr(config, name) for name in dir(config) if not name.startswith("_")}


# --- Dropout ----------------------------------------------------------------------------------------------------


def dropout(probes: Probes) -> None:
    """Check that dropout is off in eval mode, on in training, and in the right places."""
    subject = probes.subject
    model = subject.amplified(7, dropout=0.5)
    ids = subject.ids
    a, b = outputs(model, ids, ids), outputs(model, ids, ids)
    if not a.isfinite().all():
        return
    if not same(a, b, 1e-5):
        probes.found(
            "dropout-in-eval", f"in eval mode, two passes over the same ids differ by {float((a - b).abs().max()):.2g}"
        )
        return
    model.train()
    weights = list(model.parameters())
    with torch.random.fork_rng(devices=[]), recorded(B, T, [ids, subject.targets], weights) as trace:
        torch.manual_seed(1)
        model(ids, subject.targets)
    draws = [draw for draw in trace.draws if draw.rate > 0]
    if not draws:
        probes.found("dropout-missing", "with dropout=0.5 and in train mode nothing is set to zero")
        return
    model.eval()
    _places(probes, trace, draws)
    wrong = [draw.rate for draw in draws if draw.value.numel() > 300 and abs(draw.rate - 0.5) > 0.15]
    if wrong:
        probes.found("dropout-missing", f"with dropout=0.5 a share of {wrong[0]:.2f} is set to zero in one place")


def _places(probes: Probes, trace: Trace, draws: Sequence[Draw]) -> None:
    if probes.anatomy is None or not probes.anatomy.complete:
        return
    linear = {e.number: e for e in trace.events}
    layers = layers_of(trace)
    insides = [_inside(layer.attention) for layer in layers]
    first = min((e.number for layer in layers for e in layer.attention.projections), default=0)
    seen = set()
    V = probes.subject.sizes["vocab_size"]
    for draw in draws:
        events = [linear[n] for n in draw.sources]
        kinds = {e.kind for e in events}
        if events and any(draw.sources <= inside for inside in insides):
            seen.add("weights")
        elif not events or max(draw.sources) < first:
            seen.add("embedding")
        elif (
            len(events) == 1
            and kinds == {"linear"}
            and draw.value.size(-1) in (V, events[0].value.size(-1))
            and (
                events[0].w_index.size(-1) >= V
                and draw.value.size(-1) == events[0].w_index.size(-1)
                and events[0].number == max(linear)
            )
        ):
            seen.add("logits")
        elif kinds == {"pair"} and events[0].scores is None and draw.value.shape[-2:] == (T, T):
            share = draw.value.nan_to_num()
            seen.add("weights" if bool((share >= 0).all() and (share <= 1.001).all()) else "scores")
        elif len(events) > 1:
            seen.add("stream")
        elif any(events[0] is first for layer in layers for first, _ in layer.ffn):
            seen.add("hidden")
        else:
            seen.add(f"after {events[0].number}")
    wrong = {"logits": "the logits", "scores": "the scores, before the softmax", "stream": "the stream itself"}
    for place, words in wrong.items():
        if place in seen:
            probes.found("dropout-misplaced", f"dropout thins out {words}")
            return
    after = {int(place.split()[1]) for place in seen if place.startswith("after ")}
    second = {event.number for layer in layers for _, event in layer.ffn}
    if "hidden" in seen and not second & after:
        probes.found("dropout-misplaced", "dropout thins out the hidden units, not what the feed-forward network adds")
        return
    missing = []
    if "embedding" not in seen:
        missing.append("the embeddings")
    for number, layer in enumerate(layers):
        inner = layer.attention
        own = {e.number for e in (*inner.mixes, inner.out) if e is not None}
        if not own & after and "weights" not in seen:
            missing.append(f"attention in block {number}")
        if layer.ffn and not {e.number for pair in layer.ffn for e in pair} & after:
            missing.append(f"the feed-forward network in block {number}")
    if missing:
        probes.found("dropout-missing", f"in train mode nothing is set to zero after {' and '.join(missing[:3])}")


def _inside(attention: Attention) -> set[int]:
    """The products from which the attention's weights and its heads' outputs may be computed."""
    if not attention.mixes:
        return {e.number for e in attention.projections}
    inside = {mix.number for mix in attention.mixes}
    if any(operands(mix).P.shape[-2:] != (T, T) for mix in attention.mixes):  # in tiles
        inside |= {mix.scores.number for mix in attention.mixes if mix.scores is not None}
    return inside


# --- Limits -----------------------------------------------------------------------------------------------------


def limits(probes: Probes) -> None:
    """Sizes that cannot work must be refused; bias must be followed."""
    subject = probes.subject
    C, H, N = (subject.sizes[name] for name in ("n_embd", "n_head", "block_size"))
    odd = C + 1 if (C + 1) % H else C + 2
    if _runs(lambda: subject.build(1, n_embd=odd)(subject.ids, subject.ids)):
        probes.found("heads-not-divisible", f"n_embd={odd} with n_head={H} is built and runs")
    model = subject.amplified(1)
    long = subject.tokens(B, N + 1, 12)
    if _runs(lambda: model(long, long)):
        probes.found("context-unchecked", f"a text of {N + 1} tokens passes, though block_size is {N}")
    _bias(probes)


def _runs(attempt: Callable[[], object]) -> bool:
    try:
        with torch.no_grad():
            attempt()
    except Exception:
        return False
    return True


def _bias(probes: Probes) -> None:
    """Compare the number of parameters that bias=True adds with the number that it should add."""
    subject = probes.subject
    L, C = subject.sizes["n_layer"], subject.sizes["n_embd"]

    def count(bias: bool) -> int:
        return sum(p.numel() for p in subject.build(2, bias=bias).parameters())

    try:
        more = count(True) - count(False)
    except (TypeError, AttributeError):
        return
    in_linears, in_norms = L * 9 * C, (2 * L + 1) * C
    if more == 0:
        probes.found("bias-ignored", "the model has as many parameters with bias=False as with bias=True")
    elif more == in_linears + in_norms:
        return
    elif not _usual(probes):
        left = sum(p.dim() < 2 for p in subject.build(2, bias=False).parameters())
        if left > 2 * L + 1 and not probes.has("head-bias"):
            probes.found("bias-ignored", f"with bias=False, {left} vectors are left; the norms' gains are {2 * L + 1}")
    elif more == in_linears + in_norms - 3 * C * L:
        probes.note("queries, keys and values have no bias, whatever the config says, as in lesson one")
    elif more == in_linears:
        probes.found("bias-ignored", f"bias=True adds {more} numbers: those of the linear layers and none in the norms")
    else:
        want = f"9·C in each block's linear layers and C in each norm make {in_linears + in_norms}"
        probes.found("bias-ignored", f"bias=True adds {more} numbers; {want}")


def _usual(probes: Probes) -> bool:
    """Whether the model has exactly the parts that the count of biases assumes."""
    other = ("blocks-", "norm-", "final-", "head", "qkv-", "out-", "ffn-", "branch", "parameters-missing")
    designs = any("another design" in note for note in probes.report.notes)
    known = probes.anatomy is not None and probes.anatomy.complete
    return known and not designs and not any(f.id.startswith(other) for f in probes.report.findings)


# --- Devices and precisions -------------------------------------------------------------------------------------


class _Mixed(TorchDispatchMode):
    """Finds the first operation that mixes a CPU tensor with one on the meta device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own, which has no annotations
        self.found = ""

    def __torch_dispatch__(
        self,
        func: "OpOverload[..., Any]",
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = func.overloadpacket.__name__
        tensors = [a for a in tree_leaves((args, kwargs or {})) if isinstance(a, Tensor)]
        meta = any(t.is_meta for t in tensors)
        here = [t for t in tensors if not t.is_meta and t.dim() > 0]
        free = name in ("_to_copy", "copy_") or (name.startswith("index") and tensors and tensors[0].is_meta)
        if meta and here and not free and not self.found:
            self.found = f"{name} meets a tensor {tuple(here[0].shape)} on the CPU and one on the model's device"
            raise RuntimeError(self.found)
        return func(*args, **(kwargs or {}))


def device_and_dtype(probes: Probes) -> None:
    """Run on another device ('meta' needs no hardware), then in bfloat16 and float16."""
    subject = probes.subject
    watch = _Mixed()
    where = ""
    try:
        model = subject.build(1).eval().to("meta")
        ids = subject.ids.to("meta")
        with torch.no_grad(), watch:
            model(ids, ids)
    except Exception as error:
        where = crash(error, "").where
    if watch.found and not probes.has("blocks-unregistered"):
        probes.found("device-assumed", f"on another device, {watch.found}", where)
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        model = subject.build(1).eval().to(dtype)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                logits = outputs(model, subject.ids, subject.targets)
        except Exception as error:
            if "not implemented for" not in str(error):
                probes.found("dtype-nan", f"in {name} forward fails: {said(error)}", crash(error, "").where)
            continue
        if not logits.isfinite().all():
            probes.found(
                "dtype-nan", f"in {name}, {int((~logits.isfinite()).sum())} of {logits.numel()} logits are not finite"
            )


# --- Checkpoints ------------------------------------------------------------------------------------------------


def state_dict(probes: Probes) -> None:
    """A saved model, loaded into another one, must give the same logits."""
    subject = probes.subject
    one, other = subject.amplified(8), subject.build(9).eval()
    ids = subject.ids
    want = outputs(one, ids, ids)
    saved = {name: value.clone() for name, value in one.state_dict().items() if isinstance(value, Tensor)}
    try:
        other.load_state_dict(saved)
    except Exception as error:
        probes.found("state-dict-broken", f"load_state_dict refuses what state_dict gave: {said(error)}")
        return
    got = outputs(other, ids, ids)
    if want.isfinite().all() and not same(got, want, 1e-4):
        probes.found("state-dict-broken", f"after loading, the logits differ by {float((got - want).abs().max()):.2g}")


# --- The optimiser ----------------------------------------------------------------------------------------------


def optimizer(probes: Probes) -> None:
    """The groups of configure_optimizers(weight_decay, learning_rate, betas, device_type)."""
    model = probes.subject.build(2)
    judge_optimizer(probes, model, model.configure_optimizers(0.1, 1e-3, (0.9, 0.95), "cpu"))


def judge_optimizer(probes: Probes, model: nn.Module, made: object) -> None:
    """Decay on matrices and only there, each parameter once, AdamW with what was asked for."""
    if not isinstance(made, torch.optim.Optimizer):
        probes.found("optimizer-wrong", f"configure_optimizers returns a {type(made).__name__}, not an optimiser")
        return
    names = {id(p): name for name, p in model.named_parameters() if p.requires_grad}
    given = [(p, group) for group in made.param_groups for p in group["params"]]
    ids = [id(p) for p, _ in given]
    left = [name for key, name in names.items() if key not in ids]
    if left:
        probes.found("parameters-missing", f"{len(left)} parameters are in no group, {left[0]} among them")
    elif len(set(ids)) < len(ids):
        probes.found("parameters-missing", f"{len(ids) - len(set(ids))} parameters are in the groups twice")
    pulled = [p for p, group in given if p.dim() < 2 and group["weight_decay"] > 0]
    if pulled:
        name = names.get(id(pulled[0]), "one")
        probes.found("decay-on-norms", f"{len(pulled)} tensors of one dimension decay, {name} among them")
    free = [p for p, group in given if p.dim() >= 2 and group["weight_decay"] != 0.1]
    if free:
        name = names.get(id(free[0]), "one")
        decays = sorted({group["weight_decay"] for p, group in given if p.dim() >= 2})
        probes.found(
            "decay-missing", f"{name} and {len(free) - 1} more matrices decay with {decays[0]}, where 0.1 was asked for"
        )
    group = made.param_groups[0]
    if abs(group["lr"] - 1e-3) > 1e-9 or tuple(group.get("betas", ())) != (0.9, 0.95):
        probes.found(
            "optimizer-wrong", f"learning rate {group['lr']} and betas {group.get('betas')} for 0.001 and (0.9, 0.95)"
        )
