"""What is seen of a patient for nothing, and the tests that a reader may order."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..model import TinyGPT
from ..rng import seeded
from .patients import Record
from .training import SIZES, Source, as_json


def expected_parameters(V: int) -> int:
    """How many numbers the right model of SIZES has."""
    N, L, C = SIZES["block_size"], SIZES["n_layer"], SIZES["n_embd"]
    count: int = V * C + N * C + L * (12 * C**2 + 2 * C) + C
    return count


def sample(model: TinyGPT, text: Source, draws: torch.Generator) -> str:
    start = text.batch(1, 4, 1, draws)[0]  # (1, 4)
    with seeded(int(draws.initial_seed())):
        ids = model.generate(start[:, :1], 160, 0.9, None)[0]  # (161,)
    if text.tokenizer:
        return text.tokenizer.decode(ids)
    return " ".join(str(int(i)) for i in ids[:60])


def _inputs(model: TinyGPT, part: str, idx: Tensor) -> list[Tensor]:
    """What goes into ``part`` of each block (``attn`` or ``mlp``) on ids (B, T): a list of (B, T, C)."""
    seen: list[Tensor] = []
    hooks = [getattr(b, part).register_forward_pre_hook(lambda m, a: seen.append(a[0])) for b in model.blocks]
    with torch.no_grad():
        model(idx, idx)
    for hook in hooks:
        hook.remove()
    return seen


def heads_weights(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """The weights of head 0 in the middle layer, on the first dozen tokens of a text."""
    idx = text.batch(1, 13, 1, draws)[0]  # (1, 13)
    middle = model.blocks[len(model.blocks) // 2].attn
    with torch.no_grad():
        x = _inputs(model, "attn", idx)[len(model.blocks) // 2]  # (1, T, C)
        P = middle(x, need_weights=True)[1][0, 0]  # (T, T)
    labels = list(text.tokenizer.decode(idx[0])) if text.tokenizer else [str(int(i)) for i in idx[0]]
    return {"labels": labels, "P": [[as_json(p) for p in row] for row in P.double().tolist()]}


@torch.no_grad()
def perturb(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """Change one token: the largest change of the logits at each position (T,)."""
    x = text.batch(1, 16, 1, draws)[0]  # (1, 16)
    other = x.clone()
    other[0, 9] = (other[0, 9] + 1) % text.vocab_size
    moved = (model(x, x)[0] - model(other, other)[0]).abs().amax(-1)[0]  # (16,)
    return {"position": 9, "moved": [as_json(m) for m in moved.tolist()]}


@torch.no_grad()
def prefix(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """The logits of the first 8 tokens alone beside those within 16: the largest difference."""
    x = text.batch(1, 16, 1, draws)[0]
    return {"difference": as_json(float((model(x, x)[0][:, :8] - model(x[:, :8], x[:, :8])[0]).abs().max()))}


@torch.no_grad()
def batch(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """Other texts in the other rows: the largest change of the last row's logits."""
    x, other = (text.batch(3, 16, 1, draws)[0] for _ in range(2))  # (3, 16)
    other[2] = x[2]
    return {"difference": as_json(float((model(x, x)[0][2] - model(other, other)[0][2]).abs().max()))}


@torch.no_grad()
def silence(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """Set the last matrix of each branch to zero: the size of the stream after the blocks over that before them, and
    their cosine. Both are 1 where each branch only adds."""
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    streams: dict[str, Tensor] = {}
    hooks = [
        model.blocks[0].register_forward_pre_hook(lambda m, a: streams.setdefault("before", a[0])),
        model.blocks[-1].register_forward_hook(lambda m, a, out: streams.update(after=out)),
    ]
    for block in model.blocks:
        block.attn.out_proj.weight.zero_()
        block.mlp.fc2.weight.zero_()
    x = text.batch(4, 16, 1, draws)[0]
    model(x, x)
    for hook in hooks:
        hook.remove()
    model.load_state_dict(kept)
    before, after = streams["before"].flatten().double(), streams["after"].flatten().double()
    size = float(after.norm() / before.norm())
    cosine = float(nn.functional.cosine_similarity(before, after, 0))
    return {"size": as_json(size), "cosine": as_json(cosine)}


def scale(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """By what the scores were multiplied before the softmax, over the right 1/√D: from the logarithms of P."""
    idx = text.batch(1, 16, 1, draws)[0]
    attn = model.blocks[0].attn
    x = _inputs(model, "attn", idx)[0]
    H, C = SIZES["n_head"], SIZES["n_embd"]
    with torch.no_grad():
        q, k, _ = attn.qkv(x).view(1, 16, 3, H, C // H).permute(2, 0, 3, 1, 4)  # (1, H, T, D) each
        S = (q @ k.transpose(-2, -1))[0].double()  # (H, T, T)
        P = attn(x, need_weights=True)[1][0].double()  # (H, T, T)
    row = 15  # which may read all others under any mask
    s, logs = S[:, row, :row].flatten(), P[:, row, :row].clamp_min(1e-30).log().flatten()
    s, logs = (v.view(H, row) - v.view(H, row).mean(1, keepdim=True) for v in (s, logs))
    slope = float((s * logs).sum() / (s * s).sum())
    return {"ratio": as_json(slope * math.sqrt(C // H))}


def gradients(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """The norm of the loss's gradient for each group of parameters; None where there is none."""
    x, y = text.batch(8, SIZES["block_size"], 0, draws)
    model.zero_grad(set_to_none=True)
    loss = model(x, y)[1]
    if loss.requires_grad:
        loss.backward()
    groups = {
        "token embedding": [model.wte.weight],
        "position embedding": [model.wpe.weight],
        **{f"block {i}": list(block.parameters()) for i, block in enumerate(model.blocks)},
    }
    norms = {}
    for name, parameters in groups.items():
        found = [p.grad.norm() for p in parameters if p.grad is not None]
        norms[name] = as_json(float(torch.stack(found).norm())) if found else None
    model.zero_grad(set_to_none=True)
    return {"norms": norms}


def bend(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """What the first feed-forward network makes of twice its input, over twice its output: 1 if it is linear."""
    mlp = model.blocks[0].mlp
    x = _inputs(model, "mlp", text.batch(2, 16, 1, draws)[0])[0]
    with torch.no_grad():
        zero, once, twice = mlp(0 * x), mlp(x), mlp(2 * x)
    bent = (twice - zero) - 2 * (once - zero)
    return {"bend": as_json(float(bent.norm() / (once - zero).norm()))}


TESTS: dict[str, Callable[[TinyGPT, Source, torch.Generator], Record]] = {
    "perturb": perturb, "prefix": prefix, "batch": batch, "silence": silence, "scale": scale, "gradients": gradients,
    "bend": bend,
}  # fmt: skip
