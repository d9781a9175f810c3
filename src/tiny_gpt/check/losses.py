"""The loss: is it the mean cross-entropy of the model's own logits? If not, what is it instead?"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .probes import Probes
from .subject import Written, crash, said

CLOSE = 2e-4


def each(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each position (B, T); 0 where the target is -1."""
    V = logits.size(-1)
    return F.cross_entropy(logits.reshape(-1, V), targets.reshape(-1), ignore_index=-1, reduction="none").view(
        targets.shape
    )


def pairings(logits: Tensor, ids: Tensor, targets: Tensor) -> dict[str, tuple[str | None, Tensor, Tensor]]:
    """The ways to pair logits with targets: name -> (id of the mistake, logits, targets)."""
    B, T, V = logits.shape
    return {
        "as asked": (None, logits, targets),
        "the logits of t against the target of t + 1": ("loss-shifted-twice", logits[:, :-1], targets[:, 1:]),
        "the logits of t + 1 against the target of t": ("loss-shifted-twice", logits[:, 1:], targets[:, :-1]),
        "the logits against the ids that were read": ("loss-on-inputs", logits, ids),
        "the logits against the next id that was read": ("loss-on-inputs", logits[:, :-1], ids[:, 1:]),
        "probabilities where logits are expected": ("loss-after-softmax", logits.softmax(-1), targets),
        "log-probabilities of probabilities": ("loss-after-softmax", logits.softmax(-1).log_softmax(-1), targets),
        "all but the token 0": ("loss-ignore-index", logits, targets.masked_fill(targets == 0, -1)),
        "the last position alone": ("loss-reduction", logits[:, -1:], targets[:, -1:]),
        "the first text alone": ("loss-reduction", logits[:1], targets[:1]),
        "logits (B, T, V) read as (B, V, T)": ("loss-layout", logits.reshape(B, V, T).mT, targets),
        "logits with text and time exchanged": ("loss-layout", logits.transpose(0, 1).reshape(B, T, V), targets),
        "logits with vocabulary and time exchanged": ("loss-layout", logits.mT.reshape(B, T, V), targets),
        "targets with text and time exchanged": ("loss-layout", logits, targets.t().reshape(B, T)),
        "logits with all axes exchanged": ("loss-layout", logits.permute(2, 0, 1).reshape(B, T, V), targets),
        "logits with text and vocabulary exchanged": ("loss-layout", logits.permute(2, 1, 0).reshape(B, T, V), targets),
        "logits permuted to (T, V, B) and flattened": (
            "loss-layout",
            logits.permute(1, 2, 0).reshape(B, T, V),
            targets,
        ),
        "logits permuted to (B, V, T) and back by view": (
            "loss-layout",
            logits.permute(0, 2, 1).reshape(B, T, V),
            targets,
        ),
    }


def reductions(losses: Tensor, counted: Tensor) -> dict[str, tuple[str | None, Tensor]]:
    """The ways to reduce the losses to one number: name -> (id of the mistake, number)."""
    B, T = losses.shape
    total, n = losses.sum(), counted.sum()
    made = {
        "their mean": (None, total / n),
        "their sum": ("loss-reduction", total),
        "their sum, divided by the number of texts": ("loss-reduction", total / B),
        "their sum, divided by the number of positions": ("loss-reduction", total / T),
        "their mean in bits": ("loss-reduction", total / n / math.log(2)),
        "their mean, negative": ("loss-reduction", -total / n),
        "their perplexity": ("loss-reduction", (total / n).exp()),
        "their mean, divided by the number of texts": ("loss-reduction", total / n / B),
        "their mean, divided by the number of positions": ("loss-reduction", total / n / T),
        "their mean, divided by their number": ("loss-reduction", total / n / losses.numel()),
        "their mean times the number of texts": ("loss-reduction", total / n * B),
        "their mean, halved": ("loss-reduction", total / n / 2),
        "their largest": ("loss-reduction", losses.max()),
        "their median": ("loss-reduction", losses.median()),
        "the mean of their squares": ("loss-reduction", losses.square().sum() / n),
    }
    if not counted.all():
        made["their sum, divided by all positions, ignored ones too"] = ("loss-reduction", total / losses.numel())
    return made


def plain_probability(logits: Tensor, targets: Tensor) -> float:
    """Minus the mean probability of the targets: what is left when the logarithm is forgotten."""
    return -float(logits.softmax(-1).gather(-1, targets[..., None]).mean())


def explained(loss: float, logits: Tensor, ids: Tensor, targets: Tensor) -> tuple[str, str, tuple[str, ...]] | None:
    """The (pairing, reduction, ids of mistakes) that give this loss, or None."""
    best = None
    for name, (id, a, b) in pairings(logits, ids, targets).items():
        counted = b != -1
        for how, (other, value) in reductions(each(a, b), counted).items():
            if abs(float(value) - loss) <= CLOSE * max(1.0, abs(loss)):
                found = (name, how, tuple(i for i in (id, other) if i))
                if best is None or len(found[2]) < len(best[2]):
                    best = found
    return best


def probe(probes: Probes) -> None:
    """Find the pairing and the reduction that give the loss; then check that targets of -1 are ignored."""
    subject = probes.subject
    model = subject.amplified(5, embedding=0.4)
    ids, targets = subject.ids, subject.targets
    V = subject.sizes["vocab_size"]
    with torch.no_grad():
        logits, loss = model(ids, targets)[:2]
    logits = logits.detach().double()
    if not logits.isfinite().all():
        return
    loss = torch.as_tensor(loss).double().mean()
    own = explained(float(loss), logits, ids, targets)
    if own is None and logits.size(-1) > V:
        own = explained(float(loss), logits[..., :V], ids, targets)
    if own is None and probes.has("logits-are-probabilities"):
        own = explained(float(loss), logits.clamp(min=1e-30).log(), ids, targets) and None
        return
    if own is None and abs(float(loss) - plain_probability(logits, targets)) < CLOSE:
        probes.found(
            "loss-after-softmax", f"the loss {float(loss):.4f} is minus the targets' probability: no logarithm"
        )
        return
    if own is None:
        right = float(each(logits, targets).mean())
        probes.found(
            "loss-wrong", f"the loss is {float(loss):.4f}; the mean cross-entropy of the returned logits is {right:.4f}"
        )
        return
    name, how, mistakes = own
    for id in mistakes:
        right = float(each(logits, targets).mean())
        probes.found(id, f"the loss {float(loss):.4f} is {name}, {how}; as asked it is {right:.4f}")
    _ignored(probes, model, logits, name, how)


def _ignored(probes: Probes, model: Written, logits: Tensor, name: str, how: str) -> None:
    subject = probes.subject
    targets = subject.targets.clone()
    hidden = torch.rand(targets.shape, generator=subject.generator(9)) < 0.4
    targets[hidden] = -1
    try:
        with torch.no_grad():
            got = model(subject.ids, targets)[1]
    except Exception as error:
        probes.found("loss-ignore-index", f"targets of -1 fail: {said(error)}", crash(error, "").where)
        return
    got = float(torch.as_tensor(got).double().mean())
    _, a, b = pairings(logits, subject.ids, targets)[name]
    made = reductions(each(a, b), b != -1)
    want = float(made[how][1])
    over_all = float(each(a, b).mean())
    if how == "their mean" and (b == -1).any() and abs(got - over_all) <= CLOSE * max(1.0, abs(over_all)):
        probes.found(
            "loss-reduction", f"targets of -1 add nothing to the sum, yet it is divided by all {b.numel()} positions"
        )
    elif not abs(got - want) <= 5 * CLOSE * max(1.0, abs(want)):
        probes.found(
            "loss-ignore-index",
            f"with {int(hidden.sum())} targets at -1 the loss is {got:.4f}; over the others it is {want:.4f}",
        )
