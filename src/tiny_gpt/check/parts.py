"""Partial work, chapter by chapter: a head, several heads, the feed-forward network, a block, and the model's methods.

The constructors are lesson one's, ``Head(n_embd, head_size, block_size, dropout)`` and so on, or lesson two's;
arguments are given by their names.
"""

import inspect
import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from . import contract, generation
from .anatomy import Anatomy, Reading, Walk, judge_ffn, layers_of, same
from .attention import Heads, Judged, judge_attention, judge_weights
from .probes import Probes
from .process import SECONDS, in_own_process
from .ranking import ranked
from .report import Finding, Report
from .settings import Settings
from .subject import SIZES, B, Stop, Subject, T, TookTooLong, Written, crash, said
from .trace import Trace, recorded

C: int = SIZES["n_embd"]
H: int = SIZES["n_head"]
N: int = SIZES["block_size"]
D = C // H

Yours = Callable[..., Any]  # a class or a function that a reader wrote


# --- What a reader calls ----------------------------------------------------------------------------------------


def causal_head(yours: Yours, *, seconds: float = SECONDS) -> Report:
    """Judge ``causal_head(q, k, v) -> (output, weights)`` on NumPy arrays (T, D)."""
    return _apart("causal_head", yours, _causal_head, seconds)


def head(Head: type, *, seconds: float = SECONDS) -> Report:
    """Judge ``Head(n_embd, head_size, block_size, dropout)``: (B, T, C) -> (B, T, D)."""
    return _apart("Head", Head, _head, seconds)


def multi_head(MultiHeadAttention: type, *, seconds: float = SECONDS) -> Report:
    """Judge ``MultiHeadAttention(n_head, n_embd, block_size, dropout)``: (B, T, C) -> (B, T, C)."""
    return _apart("MultiHeadAttention", MultiHeadAttention, _multi_head, seconds)


def feed_forward(FeedForward: type, *, seconds: float = SECONDS) -> Report:
    """Judge ``FeedForward(n_embd, dropout)``, or ``FFN(d_model, d_ff, dropout)``: (B, T, C) -> (B, T, C)."""
    return _apart("FeedForward", FeedForward, _feed_forward, seconds)


def block(Block: type, *, seconds: float = SECONDS) -> Report:
    """Judge ``Block(n_embd, n_head, block_size, dropout)``: (B, T, C) -> (B, T, C)."""
    return _apart("Block", Block, _block, seconds)


def generate(Model: type, Config: Callable[..., Any] | None = None, *, seconds: float = SECONDS) -> Report:
    """Judge ``generate`` of a model whose forward is written."""

    def work(Model: type, report: Report) -> None:
        if not generation.written(Model):
            raise NotImplementedError
        probes = Probes(Subject(Model, Config), report)
        probes.guarded("generation", generation.probe)

    return _apart("generate", Model, work, seconds)


def configure_optimizers(Model: type, Config: Callable[..., Any] | None = None, *, seconds: float = SECONDS) -> Report:
    """Judge ``configure_optimizers(weight_decay, learning_rate, betas, device_type)`` of a model."""

    def work(Model: type, report: Report) -> None:
        if not hasattr(Model, "configure_optimizers"):
            raise NotImplementedError
        probes = Probes(Subject(Model, Config), report)
        probes.guarded("optimiser", contract.optimizer)

    return _apart("configure_optimizers", Model, work, seconds)


def drop_in(Model: type, Config: Callable[..., Any] | None = None, *, seconds: float = SECONDS) -> Report:
    """Make the calls that nanoGPT's train.py, sample.py and bench.py make."""
    return _apart("drop_in", Model, lambda Model, report: _drop_in(Subject(Model, Config), report), seconds)


# --- How it is run ----------------------------------------------------------------------------------------------


def _apart(name: str, yours: Yours, work: Callable[[Any, Report], None], seconds: float) -> Report:
    if not callable(yours) or isinstance(yours, nn.Module):
        got = f"a {type(yours).__name__}" if isinstance(yours, nn.Module) else repr(yours)
        raise ValueError(f"the check of {name} needs the class or function itself, got {got}")
    return in_own_process(name, lambda: here(name, yours, work), seconds)


def here(name: str, yours: Yours, work: Callable[[Any, Report], None]) -> Report:
    """The same in this process."""
    report, settings = Report(getattr(yours, "__name__", name)), Settings()
    try:
        work(yours, report)
    except NotImplementedError:
        report.unwritten.append(name)
    except Stop as stop:
        report.findings.append(stop.finding) if stop.finding else report.unwritten.append(name)
    except (Exception, SystemExit, TookTooLong) as error:
        report.findings.append(crash(error, "on the way"))
    finally:
        report.findings += [Finding("global-state", f"the code changed the {change}") for change in settings.changes()]
        settings.restore()
    report.findings = ranked(report.findings)
    return report


def _take(report: Report, judged: Judged) -> None:
    known = {finding.id for finding in report.findings}
    report.findings += [finding for finding in judged.findings if finding.id not in known]
    report.notes += [note for note in judged.notes if note not in report.notes]


KNOWN = {  # names that people give to arguments -> what they mean
    C: ("n_embd", "d_model", "embed_dim", "dim", "width", "emb_dim", "hidden_size"),
    D: ("head_size", "d_head", "head_dim", "d_k"),
    H: ("n_head", "n_heads", "num_heads", "heads", "h"),
    N: ("block_size", "context", "context_length", "n_ctx", "max_len", "ctx_len", "max_seq_len", "T"),
    4 * C: ("d_ff", "hidden", "hidden_dim", "ffn_dim", "d_hidden", "inner"),
}


def make(Part: type, dropout: float = 0.0) -> Written:
    """The part as its constructor makes it. Raises ValueError if that asks for an argument whose meaning is unknown."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(Part).parameters.items():
        if name in ("dropout", "p", "drop", "p_drop"):
            given[name] = dropout
        elif name in ("config", "cfg", "conf", "args"):
            given[name] = SimpleNamespace(**{**SIZES, "dropout": dropout})
        elif (value := next((v for v, names in KNOWN.items() if name in names), None)) is not None:
            given[name] = value
        elif parameter.default is parameter.empty and parameter.kind in (0, 1, 3):
            raise ValueError(
                f"{Part.__name__} asks for {name!r}, which the check does not know: use the lesson's names"
            )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        part: Written = Part(**given)
        return part


def _amplified(Part: type) -> nn.Module:
    part = make(Part)
    if isinstance(part, nn.Module):
        subject = Subject(type(part), SimpleNamespace)
        subject.amplify(part, 3, 1.0, 1.0, SIZES)
        part.eval().double()
    return part


def _input() -> Tensor:
    return torch.randn(B, T, C, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def _run(part: nn.Module, x: Tensor, shape: tuple[int, ...]) -> tuple[Trace, Tensor]:
    """Record the part on x (B, T, C), and check the shape of its output."""
    weights = list(part.parameters())
    try:
        with recorded(B, T, [x], weights) as trace:
            y = part(x)
    except NotImplementedError:
        raise
    except Exception as error:
        raise Stop(crash(error, f"on x of shape {tuple(x.shape)}")) from None
    if y is None or y is Ellipsis:
        raise NotImplementedError
    if not isinstance(y, Tensor) or y.shape != shape:
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise Stop(Finding("output-wrong", f"x of shape {tuple(x.shape)} gives {got}, not {shape}"))
    if trace.strays:
        stray = f"{len(trace.strays)} of the weights that are used are not in parameters()"
        raise Stop(Finding("blocks-unregistered", stray))
    return trace, y.detach()


def _outside(part: nn.Module, report: Report, causal: bool) -> None:
    """Check from outside that no later position and no other text has an influence, and that any length works."""
    x = _input()
    with torch.no_grad():
        before = part(x)
        room = 1e-6 * float(before.nan_to_num().abs().max())
        if not before.isfinite().all():
            report.findings.append(Finding("not-finite", "the output holds NaN"))
            return
        worst = (0.0, 0, 0)
        for t in range(T):
            other = x.clone()
            other[:, t] = torch.randn(B, C, generator=torch.Generator().manual_seed(t), dtype=x.dtype)
            moved = (part(other) - before).abs().amax((0, 2))  # (T,)
            moved[t:] = 0 if causal else moved[t:]
            moved[t] = 0
            worst = max(worst, (float(moved.max()), t, int(moved.argmax())))
        if worst[0] > room:
            by, t, position = worst
            seen = f"changing position {t} of the input changed the output at position {position} by {by:.2g}"
            report.findings.append(Finding("future-leak" if causal else "norm-axis", seen))
        alone = torch.cat([part(row[None]) for row in x])
        if (alone - before).abs().max() > room:
            report.findings.append(Finding("batch-leak", "a text alone and in a batch gives another output"))
        if causal:
            try:
                short = part(x[:, :4].contiguous())
            except Exception as error:
                seen = f"{T} positions pass, 4 do not: {said(error)}"
                report.findings.append(Finding("mask-stale", seen, crash(error, "").where))
                return
            if (short - before[:, :4]).abs().max() > room and worst[0] <= room:
                report.findings.append(Finding("prefix-differs", "4 positions alone give another output than among 11"))


def _drops(Part: type, report: Report) -> None:
    part, x = make(Part, dropout=0.5), _input().float()
    part.eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        if not torch.equal(part(x), part(x)):
            report.findings.append(Finding("dropout-in-eval", "in eval mode two passes over the same x differ"))
            return
        part.train()
        takes = set(inspect.signature(Part).parameters) & {"dropout", "p", "drop", "p_drop", "config", "cfg"}
        if takes and torch.equal(part(x), part(x)):
            report.findings.append(Finding("dropout-missing", "with dropout=0.5, in train mode, two passes are equal"))


# --- The parts --------------------------------------------------------------------------------------------------


def _causal_head(yours: Yours, report: Report) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((T, D)), rng.standard_normal((T, D)), rng.standard_normal((T, D + 2))
    result = yours(q, k, v)
    if result is None or result is Ellipsis:
        raise NotImplementedError
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise Stop(Finding("output-wrong", f"it returns a {type(result).__name__}, not (output, weights)"))
    out, weights = (torch.as_tensor(np.asarray(a, dtype=float)) for a in result)
    if out.shape != (T, D + 2) or weights.shape != (T, T):
        shapes = f"output {tuple(out.shape)} and weights {tuple(weights.shape)}"
        raise Stop(Finding("output-wrong", f"{shapes}, where {(T, D + 2)} and {(T, T)} were expected"))
    judged, trace = Judged(), Trace(1, T, [], [])
    nowhere = torch.empty(0, dtype=torch.long)  # where they came from is not known, and not asked
    heads = Heads(weights[None], nowhere, torch.tensor(q)[None], torch.tensor(k)[None], nowhere, nowhere, (1.0, 1.0))
    judge_weights(trace, heads, None, None, True, judged, "in the head")
    _take(report, judged)
    if not same(out.nan_to_num(), (weights @ torch.tensor(v)).nan_to_num(), 1e-6):
        report.findings.append(Finding("attention-differs", "the output is not the weights times the values"))
    report.checked += ["scale", "softmax", "mask", "output"]


def _head(Head: type, report: Report) -> None:
    part = _amplified(Head)
    trace, _ = _run(part, _input(), (B, T, D))
    layers = layers_of(trace)
    if layers:
        _take(report, judge_attention(trace, layers[0].attention, 1, D, "in the head"))
    else:
        report.notes.append("no attention was found in what the head computes; it was judged from outside")
    report.findings = [f for f in report.findings if f.id != "heads-ignored"]
    _outside(part, report, causal=True)
    _drops(Head, report)
    report.checked += ["queries, keys, values", "scale", "softmax", "mask", "future, batch, lengths", "dropout"]


def _multi_head(MultiHead: type, report: Report) -> None:
    part = _amplified(MultiHead)
    trace, y = _run(part, _input(), (B, T, C))
    layers = layers_of(trace)
    if layers:
        attention = layers[0].attention
        _take(report, judge_attention(trace, attention, H, C, "in the layer"))
        if attention.out is None:
            report.findings.append(Finding("out-projection-missing", "the heads' outputs come back as they are"))
        elif not same(y, trace.output(attention.out), 1e-5):
            report.findings.append(
                Finding("attention-differs", "what comes back is not the output projection's result")
            )
    else:
        report.notes.append("no attention was found in what the layer computes; it was judged from outside")
    _outside(part, report, causal=True)
    _drops(MultiHead, report)
    report.checked += [
        "split and merge",
        "scale",
        "softmax",
        "mask",
        "output projection",
        "future, batch, lengths",
        "dropout",
    ]


def _feed_forward(FeedForward: type, report: Report) -> None:
    part = _amplified(FeedForward)
    trace, y = _run(part, _input(), (B, T, C))
    linear = [e for e in trace.events if e.kind == "linear"]
    if len(linear) == 2:
        _take(report, judge_ffn(trace, (linear[0], linear[1]), C, "in the network,", relu=True))
        if not same(y, trace.output(linear[1]), 1e-5):
            seen = "what comes back is not what the second linear layer gave"
            wrong = "activation-wrong" if not same(y, trace.output(linear[1]) + _input(), 1e-5) else "residual-doubled"
            report.findings.append(Finding(wrong, seen))
    elif len(linear) == 1:
        report.findings.append(Finding("output-wrong", "there is one linear layer, where two are needed"))
    else:
        report.notes.append(f"{len(linear)} linear layers: another design (a gated network?), judged from outside")
    _outside(part, report, causal=False)
    _drops(FeedForward, report)
    report.checked += ["width", "activation", "positions and batch", "dropout"]


def _block(Block: type, report: Report) -> None:
    part, x = _amplified(Block), _input()
    trace, y = _run(part, x, (B, T, C))
    anatomy = Anatomy()
    anatomy.layers = layers_of(trace)
    if anatomy.layers:
        weights = [p.detach() for p in part.parameters()]
        no_ids = torch.empty(0, 0, dtype=torch.long)  # a block reads no tokens
        walk = Walk(trace, SIZES, no_ids, weights, anatomy, relu=True)
        walk.block_alone(x, Reading("none", y.double()))
        _take(report, anatomy.judged)
    else:
        report.notes.append("no attention was found in what the block computes; it was judged from outside")
    _outside(part, report, causal=True)
    _drops(Block, report)
    report.checked += ["attention", "feed-forward network", "norms", "residuals", "future, batch, lengths", "dropout"]


# --- nanoGPT's calls --------------------------------------------------------------------------------------------


def _drop_in(subject: Subject, report: Report) -> None:
    """Make the scripts' calls in their order; every failure is evidence of one finding."""
    failed: list[str] = []
    sizes = {name: subject.sizes[name] for name in SIZES}
    model = subject.build()
    ids, targets = subject.ids, subject.targets

    def call(name: str, attempt: Callable[[], object]) -> None:
        try:
            problem = attempt()
        except Exception as error:
            problem = said(error)
        report.checked.append(name)
        if problem:
            failed.append(f"{name}: {problem}")

    def forward() -> str | None:
        logits, loss = model(ids, targets)
        return (
            None if logits.dim() == 3 and loss.dim() == 0 else f"logits {tuple(logits.shape)}, loss {tuple(loss.shape)}"
        )

    def bare() -> str | None:
        return None if model(ids)[1] is None else "the loss is not None"

    def optimizer() -> None:
        probes = Probes(subject, report)
        made = model.configure_optimizers(0.1, 1e-3, (0.9, 0.95), "cpu")
        contract.judge_optimizer(probes, model, made)
        loss = model(ids, targets)[1]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        made.step()
        made.zero_grad(set_to_none=True)

    def mfu() -> str | None:
        made = model.estimate_mfu(12, 0.5)
        return None if isinstance(made, float | int) else f"it gives {type(made).__name__}, not a number"

    def crop() -> str | None:
        other = subject.build(1)
        other.crop_block_size(8)
        short, long = ids[:, :8].contiguous(), ids[:, :9].contiguous()
        other(short, short)
        try:
            other(long, long)
        except Exception:
            return None if other.config.block_size == 8 else "config.block_size keeps its old value"
        return "after crop_block_size(8) a text of 9 tokens still passes"

    def write() -> str | None:
        out = model.generate(ids[:1], 20, temperature=0.8, top_k=200)
        return None if out.shape == (1, T + 20) else f"{T} tokens and 20 new ones give {tuple(out.shape)}"

    def resume() -> str | None:
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "model_args": sizes}, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        state = saved["model"]
        for name in list(state):  # what the scripts do with a compiled model's names
            if name.startswith("_orig_mod."):
                state[name.removeprefix("_orig_mod.")] = state.pop(name)
        other = subject.Model(subject.Config(**saved["model_args"]))
        other.load_state_dict(state)
        model.eval(), other.eval()
        with torch.no_grad():
            return None if same(other(ids, ids)[0], model(ids, ids)[0], 1e-5) else "other logits after loading"

    call("GPTConfig(**model_args)", lambda: subject.config() and None)
    call("model.config", lambda: None if model.config.block_size == N else "block_size is not there")
    call("model(X, Y)", forward)
    call("model(X)", bare)
    call("configure_optimizers", optimizer)
    call("estimate_mfu", mfu)
    call("crop_block_size", crop)
    call("generate", write)
    call("saving and resuming", resume)
    call(
        "from_pretrained",
        lambda: None if callable(getattr(subject.Model, "from_pretrained", None)) else "there is none",
    )
    if failed:
        report.findings.insert(0, Finding("drop-in", "; ".join(failed)))
