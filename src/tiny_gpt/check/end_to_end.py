"""The whole model against a right one with the same weights: logits, loss, gradients, and the number of parameters.

Each weight has been found (places.py), so a right GPT can be computed from the very parameters of the model under test,
and its loss be differentiated with respect to them. Whatever the other probes did not look for shows here. It is seen
late and told vaguely, though, so this probe speaks only where the others have found nothing.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .anatomy import dissect
from .places import ZERO, NotCarriedOver, Places, gathered
from .probes import Probes
from .subject import B, Sizes, Subject, T
from .trace import recorded

# Other sizes than those of the other probes, for numbers that stand in the code where the config should be asked.
OTHER = {"vocab_size": 41, "block_size": 18, "n_layer": 3, "n_head": 2, "n_embd": 20}
ROOM = 1e-4  # relative; the reader's code may compute some of its steps in float32


def right_logits(weights: dict[str, Tensor], idx: Tensor, layers: int, heads: int) -> Tensor:
    """The logits (B, T, V) of a right GPT: lesson two in a dozen lines, from its weights under the book's names."""

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    length = idx.size(1)
    x = weights["wte.weight"][idx] + weights["wpe.weight"][:length]  # (B, T, C)
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)  # (T, T)
    for block in (f"blocks.{i}" for i in range(layers)):
        qkv = linear(norm(x, f"{block}.ln1"), f"{block}.attn.qkv").unflatten(-1, (3, heads, -1))  # (B, T, 3, H, D)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, D) each
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(hidden, -math.inf)  # (B, H, T, T)
        x = x + linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), f"{block}.attn.out_proj")  # (B, T, C)
        x = x + linear(F.gelu(linear(norm(x, f"{block}.ln2"), f"{block}.mlp.fc1")), f"{block}.mlp.fc2")  # (B, T, C)
    return norm(x, "ln_f") @ weights["wte.weight"].mT


def probe(probes: Probes) -> None:
    """Compare the model with a right one, in evaluation and, with dropout 0, in training."""
    if probes.report.findings or probes.report.notes or "the model" in probes.report.unwritten:
        return
    subject = probes.subject
    for sizes in (subject.sizes, {**subject.sizes, **OTHER}):
        if not probes.report.findings:
            _compare(probes, Subject(subject.Model, subject.Config, subject.seed, sizes))


def _compare(probes: Probes, subject: Subject) -> None:
    report = probes.report
    model = subject.build(13).double().eval()
    started = [p.detach().clone() for p in model.parameters()]
    subject.amplify(model, 13, 0.4, 1.0, subject.sizes)  # in double precision, in which no two numbers are the same
    parameters = list(model.parameters())
    with recorded(B, T, [subject.ids, subject.targets], parameters) as trace:
        logits = model(subject.ids, subject.targets)[0]
    every = [*(p.detach() for p in parameters), *(p.detach() for p in trace.strays)]
    try:
        with torch.no_grad():
            anatomy = dissect(trace, logits.detach(), subject.ids, subject.sizes, every, len(parameters))
            for finding in anatomy.judged.findings:
                probes.add(finding)
            if report.findings:
                return
            places = Places(model, subject.sizes, trace, anatomy).find()
    except NotCarriedOver as reason:
        probes.note(f"{reason}: another design, which cannot be carried over to the book's model and its pages")
        return
    _shared(probes, places, subject.sizes["n_head"])
    _counted(probes, places, model, subject.sizes)
    _started(probes, gathered(places, started))
    if report.findings:
        return
    weights = gathered(places, parameters)
    right = right_logits(weights, subject.ids, subject.sizes["n_layer"], subject.sizes["n_head"])  # (B, T, V)
    loss = F.cross_entropy(right.flatten(0, 1), subject.targets.flatten())
    wanted = torch.autograd.grad(loss, parameters, allow_unused=True)
    for mode in ("eval", "train"):
        model.train(mode == "train")
        theirs, their_loss = model(subject.ids, subject.targets)[:2]
        gap = float(((theirs[..., : right.size(-1)] - right).abs().max() / right.abs().max()).detach())
        if not gap <= ROOM:
            id = "model-differs" if mode == "eval" else "mode-differs"
            probes.found(id, f"in {mode} mode, with dropout 0, the logits are off by {gap:.2g} of their size")
            return
        if not abs(their_loss.item() - loss.item()) <= ROOM * loss.item():
            id = "loss-wrong" if mode == "eval" else "mode-differs"
            probes.found(id, f"in {mode} mode the loss is {their_loss.item():.5f}, where {loss.item():.5f} is right")
            return
        found = torch.autograd.grad(their_loss, parameters, allow_unused=True)
        for (name, p), a, b in zip(model.named_parameters(), found, wanted, strict=True):
            a, b = (torch.zeros_like(p) if g is None else g for g in (a, b))
            if not (a - b).norm() <= 20 * ROOM * b.norm() + 1e-7:
                share = float((a * b).sum() / b.square().sum())
                probes.found(
                    "gradient-wrong",
                    f"in {mode} mode the gradient of {name} is {share:.3g} of the loss's derivative, along that",
                )
                return


def _started(probes: Probes, weights: dict[str, Tensor]) -> None:
    """How a new model starts: every gain at one, every bias at zero, whatever tensor they are kept in."""
    for name, start in weights.items():
        norm = name.rsplit(".", 2)[-2].startswith("ln") and name.endswith("weight")
        if (norm or name.endswith("bias")) and not bool((start == float(norm)).all()):
            part, what = name.rsplit(".", 1)
            what = "gain" if norm else what
            probes.found("init-bias", f"the {what} of {part} starts at {float(start[0]):.3g}, not at {int(norm)}")
            return


def _counted(probes: Probes, places: dict[str, Tensor], model: torch.nn.Module, sizes: Sizes) -> None:
    """V·C + N·C + L·(12·C² + 13·C) + 2·C numbers, biases included; a padded vocabulary has more rows."""
    if probes.report.findings:
        return
    used = torch.zeros(sum(p.numel() for p in model.parameters()), dtype=torch.bool)
    for place in places.values():
        used[place[place >= 0]] = True
    C, V, start = sizes["n_embd"], sizes["vocab_size"], 0
    for name, p in model.named_parameters():
        idle = int((~used[start : start + p.numel()]).sum())
        start += p.numel()
        if idle and not (p.dim() == 2 and p.size(-1) == C and p.size(0) > V):
            probes.found(
                "parameters-extra", f"{idle} of the {p.numel()} numbers of {name} change nothing in what is computed"
            )
            return


def _shared(probes: Probes, places: dict[str, Tensor], H: int) -> None:
    """Numbers that serve in two places of the model at once."""
    owner: dict[int, str] = {}
    for name, place in places.items():
        parts = place.chunk(3 * H) if ".qkv." in name else (place,)
        for number, part in enumerate(parts):
            mine = f"{name} {'qkv'[number // H]} of head {number % H}" if ".qkv." in name else name
            for at in part.flatten().tolist():
                if at == ZERO or at < 0:
                    continue
                other = owner.setdefault(at, mine)
                if other != mine:
                    probes.found(_named(other, mine), f"{mine} and {other} use the same numbers")
                    return


def _named(a: str, b: str) -> str:
    """The id of the mistake in which these two parts share numbers."""
    if a.partition(" ")[0] == b.partition(" ")[0]:
        return "heads-share-weights" if a.split()[1] == b.split()[1] else "qkv-shared"
    if "ln" in a and "ln" in b:
        return "norm-shared"
    return "blocks-shared" if a.startswith("blocks.") and b.startswith("blocks.") else "parameters-shared"
