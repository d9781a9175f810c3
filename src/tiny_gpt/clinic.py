"""The clinic's patients: small models, really trained, most with one bug of the catalogue; and what tests find in them.

``make`` (``make clinic``) trains them all from their seeds and writes ``trained/clinic.json``, which the book's widget
deals from. A record holds what one sees in life (losses, gradient norms, a sample) and the outcome of tests that a
reader may order.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .bugs import plant
from .bugs.planting import build
from .data import CharTokenizer, CopySource, MarkovSource, get_batch, load_shakespeare, split
from .model import TinyGPT
from .rng import seeded

FILE = Path(__file__).parent / "trained" / "clinic.json"
HEALTHY = "healthy"
SIZES: dict[str, Any] = {"block_size": 48, "n_layer": 3, "n_head": 4, "n_embd": 64, "dropout": 0.0, "bias": False}
STEPS, BATCH, LR, EVAL_EVERY = 600, 12, 2e-3, 50

Record = dict[str, Any]  # of JSON's types only


@dataclass(frozen=True)
class Patient:
    """Who is to be trained: with which bug (or ``healthy``), in which way, on what; and what the doctor should know."""

    bug: str
    source: str  # "shakespeare", or a toy source with a known floor: "markov" or "copy"
    seed: int
    settles: str  # the test that would have settled it, or "" if what is seen for nothing does
    why: str  # one sentence: how the evidence leads to the cause
    planting: int = 0
    confusable: tuple[str, ...] = ()  # other diagnoses that the reader may take it for


PATIENTS = (
    Patient(
        HEALTHY,
        "shakespeare",
        1,
        "",
        "Both curves fall together, every test is clean: nothing is wrong, and saying so is a diagnosis too.",
        confusable=("scale-missing", "norm-post", "mask-soft"),
    ),
    Patient(
        "mask-missing",
        "shakespeare",
        2,
        "perturb",
        "The loss falls below anything that text allows, and a changed token moves the logits before it.",
        confusable=("loss-on-inputs", "mask-sees-next", "loss-shifted-twice"),
    ),
    Patient(
        "scale-missing",
        "shakespeare",
        3,
        "scale",
        "No loss curve shows this. The scores that enter the softmax are the bare dot products.",
        confusable=("scale-by-width", HEALTHY, "norm-post"),
    ),
    Patient(
        "mask-sees-next",
        "markov",
        4,
        "perturb",
        "The loss is below the source's entropy, which no honest model's is; one position before the change moves.",
        confusable=("mask-missing", "loss-on-inputs", "softmax-axis"),
    ),
    Patient(
        "untied",
        "shakespeare",
        5,
        "",
        "The parameter count is too large by exactly vocabulary times width: the head has a matrix of its own.",
        confusable=("ffn-width", "head-bias", HEALTHY),
    ),
    Patient(
        "residual-missing",
        "shakespeare",
        6,
        "silence",
        "With its branches silenced, a block must hand on what it got. This model hands on nothing of it.",
        confusable=("norm-post", "position-missing", "blocks-shared"),
    ),
    Patient(
        "heads-merge-mixed",
        "copy",
        7,
        "perturb",
        "It looks like a missing mask, but positions notice in steps: rows of the result are runs of positions.",
        confusable=("mask-missing", "mask-sees-next", "batch-leak"),
    ),
    Patient(
        "loss-after-softmax",
        "shakespeare",
        8,
        "",
        "The first loss is ln V to three digits and the curve hardly moves: the logits were squashed before.",
        confusable=("init-default", "loss-detached", "blocks-unregistered"),
    ),
    Patient(
        HEALTHY,
        "copy",
        9,
        "",
        "Half of the targets can only be guessed; the model reaches the floor and does not go below it.",
        confusable=("mask-missing", "position-missing", "loss-on-inputs"),
    ),
    Patient(
        "position-missing",
        "copy",
        10,
        "gradients",
        "The position table gets no gradient at all: nothing in the loss depends on it.",
        confusable=("blocks-shared", "residual-missing", HEALTHY),
    ),
    Patient(
        "norm-post",
        "shakespeare",
        11,
        "silence",
        "Silenced branches leave the stream changed: something normalises it on its way, which pre-norm never does.",
        confusable=("residual-missing", "final-norm-missing", HEALTHY),
    ),
    Patient(
        "blocks-shared",
        "shakespeare",
        12,
        "",
        "The parameter count is that of a one-layer model: all layers are the same block.",
        confusable=("blocks-unregistered", "ffn-width", "blocks-skipped"),
    ),
    Patient(
        "loss-shifted-twice",
        "shakespeare",
        13,
        "",
        "The loss stays near that of predicting two characters ahead, while mask, scale and gradients are all right.",
        confusable=("position-missing", "residual-missing", "loss-on-inputs"),
    ),
    Patient(
        "mask-after-softmax",
        "shakespeare",
        14,
        "perturb",
        "Every earlier position moves a little: the future is in the denominators. No row of P sums to one.",
        confusable=("mask-missing", "mask-soft", "softmax-axis"),
    ),
    Patient(
        "init-default",
        "shakespeare",
        15,
        "",
        "The first loss is far above ln V: PyTorch's own initialisation leaves embedding and logits too loud.",
        confusable=("loss-after-softmax", "loss-reduction", "blocks-unregistered"),
    ),
    Patient(
        "batch-leak",
        "shakespeare",
        16,
        "batch",
        "A row's logits change when another row of the batch does. Nothing else shows it.",
        confusable=(HEALTHY, "heads-split-mixed", "norm-axis"),
    ),
    Patient(
        "loss-on-inputs",
        "shakespeare",
        17,
        "",
        "The loss goes to nought while perturbation finds no leak: it is asked for a character that it can see.",
        confusable=("mask-missing", "mask-sees-next", "loss-shifted-twice"),
    ),
    Patient(
        "activation-missing",
        "shakespeare",
        18,
        "bend",
        "Double what goes into the feed-forward network, and exactly double comes out: there is no bend in it.",
        confusable=("activation-wrong", HEALTHY, "ffn-width"),
    ),
    Patient(
        "scale-by-width",
        "shakespeare",
        19,
        "scale",
        "The scores were divided by the root of the model's width, not of the head's: half as large as they should be.",
        confusable=("scale-missing", "scale-wrong", HEALTHY),
    ),
    Patient(
        "heads-split-mixed",
        "shakespeare",
        20,
        "perturb",
        "A leak in steps, not in a triangle: the heads were cut by view alone, so that their rows are not positions.",
        confusable=("mask-missing", "heads-merge-mixed", "batch-leak"),
    ),
    Patient(
        "blocks-unregistered",
        "shakespeare",
        21,
        "",
        "The parameter count is that of the embeddings alone: the blocks are in a plain list, and nothing trains them.",
        confusable=("blocks-shared", "blocks-skipped", "parameters-missing"),
    ),
    Patient(
        "softmax-axis",
        "shakespeare",
        22,
        "perturb",
        "In the heat map the columns sum to one, not the rows; and so the past depends on the future.",
        confusable=("mask-after-softmax", "mask-missing", "norm-axis"),
    ),
    Patient(
        HEALTHY,
        "markov",
        23,
        "",
        "It comes down to the source's entropy and stays there: nothing more can be learned from this source.",
        confusable=("mask-sees-next", "position-missing", "activation-missing"),
    ),
    Patient(
        "final-norm-missing",
        "shakespeare",
        24,
        "",
        "The count is short by one vector of the model's width, and the first loss sits nearer to ln V than it should.",
        planting=2,
        confusable=("norm-missing", "norm-post", HEALTHY),
    ),
    Patient(
        "residual-doubled",
        "shakespeare",
        25,
        "silence",
        "With its branches silenced the stream comes out larger than it went in, by a power of two.",
        confusable=("residual-missing", "norm-on-stream", HEALTHY),
    ),
)


def expected_parameters(V: int) -> int:
    """How many numbers the right model of SIZES has."""
    N, L, C = SIZES["block_size"], SIZES["n_layer"], SIZES["n_embd"]
    count: int = V * C + N * C + L * (12 * C**2 + 2 * C) + C
    return count


class _Text:
    """Shakespeare as a source: windows of the training or the validation split."""

    floor = None

    def __init__(self) -> None:
        text = load_shakespeare()
        self.tokenizer = CharTokenizer(text)
        self.vocab_size = self.tokenizer.vocab_size
        self.ids = split(self.tokenizer.encode(text))

    def batch(self, size: int, length: int, valid: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return get_batch(self.ids[valid], size, length, generator=generator)


class _Toy:
    """A toy source, whose entropy is known: no honest model can have a lower loss."""

    tokenizer = None

    def __init__(self, source: CopySource | MarkovSource):
        self.source, self.vocab_size = source, source.vocab_size
        self.floor = float(source.floors(SIZES["block_size"]).mean())

    def batch(self, size: int, length: int, valid: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return self.source.batch(size, length, generator=generator)


Source = _Text | _Toy


def source(name: str) -> Source:
    """What a patient is trained on, by the name that it has in PATIENTS."""
    if name == "shakespeare":
        return _Text()
    if name == "copy":
        return _Toy(CopySource(vocab_size=8, length=6))
    near = torch.eye(12, dtype=torch.float64)
    return _Toy(MarkovSource(0.55 * near.roll(1, 1) + 0.25 * near.roll(3, 1) + 0.2 / 12))


def examine(patient: Patient, steps: int = STEPS) -> Record:
    """Train the patient and run every test on it. The record has JSON's types only."""
    text = source(patient.source)
    Model, Config = build() if patient.bug == HEALTHY else plant(patient.bug, patient.planting)
    with seeded(patient.seed):
        model = Model(Config(vocab_size=text.vocab_size, **SIZES))
    curves = train(model, text, patient.seed, steps)
    model.eval()
    draws = torch.Generator().manual_seed(1000 + patient.seed)
    return {
        "bug": patient.bug,
        "torch": torch.__version__,
        "steps": steps,
        "vocab_size": text.vocab_size,
        "floor": text.floor,
        "parameters": sum(p.numel() for p in model.parameters()),
        "expected_parameters": expected_parameters(text.vocab_size),
        **curves,
        "sample": _sample(model, text, draws),
        "attention": _attention(model, text, draws),
        "tests": {name: test(model, text, draws) for name, test in TESTS.items()},
    }


def train(model: TinyGPT, text: Source, seed: int, steps: int) -> dict[str, list[float | None]]:
    """The plain loop of chapter 10: AdamW at a constant rate, gradients clipped at 1. Losses in nats."""
    draws = torch.Generator().manual_seed(seed)
    T = SIZES["block_size"]
    fixed = {
        name: [text.batch(BATCH, T, valid, torch.Generator().manual_seed(77 + i)) for i in range(6)]
        for valid, name in enumerate(("train", "valid"))
    }
    optimizer = torch.optim.AdamW(model.parameters(), LR, betas=(0.9, 0.99))
    curves: dict[str, list[float | None]] = {"step": [], "train": [], "valid": [], "gradient": []}
    for step in range(steps + 1):
        if step % EVAL_EVERY == 0:
            model.eval()
            curves["step"].append(step)
            with torch.no_grad():
                for name, batches in fixed.items():
                    curves[name].append(_round(float(np.mean([float(model(x, y)[1]) for x, y in batches]))))
            model.train()
        x, y = text.batch(BATCH, T, 0, draws)
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        if loss.requires_grad:
            loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if step % EVAL_EVERY == 0:
            curves["gradient"].append(_round(float(norm)))
        if step < steps:
            optimizer.step()
    return curves


def _round(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


# --- What is seen for nothing -----------------------------------------------------------------------------------------


def _sample(model: TinyGPT, text: Source, draws: torch.Generator) -> str:
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


def _attention(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """The weights of head 0 in the middle layer, on the first dozen tokens of a text."""
    idx = text.batch(1, 13, 1, draws)[0]  # (1, 13)
    middle = model.blocks[len(model.blocks) // 2].attn
    with torch.no_grad():
        x = _inputs(model, "attn", idx)[len(model.blocks) // 2]  # (1, T, C)
        P = middle(x, need_weights=True)[1][0, 0]  # (T, T)
    labels = list(text.tokenizer.decode(idx[0])) if text.tokenizer else [str(int(i)) for i in idx[0]]
    return {"labels": labels, "P": [[_round(p) for p in row] for row in P.double().tolist()]}


# --- What can be ordered ----------------------------------------------------------------------------------------------


@torch.no_grad()
def perturb(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """Change one token: the largest change of the logits at each position (T,)."""
    x = text.batch(1, 16, 1, draws)[0]  # (1, 16)
    other = x.clone()
    other[0, 9] = (other[0, 9] + 1) % text.vocab_size
    moved = (model(x, x)[0] - model(other, other)[0]).abs().amax(-1)[0]  # (16,)
    return {"position": 9, "moved": [_round(m) for m in moved.tolist()]}


@torch.no_grad()
def prefix(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """The logits of the first 8 tokens alone beside those within 16: the largest difference."""
    x = text.batch(1, 16, 1, draws)[0]
    return {"difference": _round(float((model(x, x)[0][:, :8] - model(x[:, :8], x[:, :8])[0]).abs().max()))}


@torch.no_grad()
def batch(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """Other texts in the other rows: the largest change of the last row's logits."""
    x, other = (text.batch(3, 16, 1, draws)[0] for _ in range(2))  # (3, 16)
    other[2] = x[2]
    return {"difference": _round(float((model(x, x)[0][2] - model(other, other)[0][2]).abs().max()))}


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
    return {"size": _round(size), "cosine": _round(cosine)}


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
    return {"ratio": _round(slope * math.sqrt(C // H))}


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
        norms[name] = _round(float(torch.stack(found).norm())) if found else None
    model.zero_grad(set_to_none=True)
    return {"norms": norms}


def bend(model: TinyGPT, text: Source, draws: torch.Generator) -> Record:
    """What the first feed-forward network makes of twice its input, over twice its output: 1 if it is linear."""
    mlp = model.blocks[0].mlp
    x = _inputs(model, "mlp", text.batch(2, 16, 1, draws)[0])[0]
    with torch.no_grad():
        zero, once, twice = mlp(0 * x), mlp(x), mlp(2 * x)
    bent = (twice - zero) - 2 * (once - zero)
    return {"bend": _round(float(bent.norm() / (once - zero).norm()))}


TESTS: dict[str, Callable[[TinyGPT, Source, torch.Generator], Record]] = {
    "perturb": perturb, "prefix": prefix, "batch": batch, "silence": silence, "scale": scale, "gradients": gradients,
    "bend": bend,
}  # fmt: skip


def make() -> None:
    """Train every patient and write FILE, as ``make clinic`` does (some minutes)."""
    records = []
    for patient in PATIENTS:
        records.append(examine(patient))
        print(f"{patient.seed:3} {patient.bug:22} {records[-1]['valid'][0]} -> {records[-1]['valid'][-1]}")
    save(records)


def save(records: Sequence[Record]) -> None:
    """One record a line, so that a change of one patient is a change of one line."""
    lines = (json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records)
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def load() -> list[Record]:
    """The records of all patients, in the order of PATIENTS, as the package carries them."""
    records = json.loads(FILE.read_text(encoding="utf-8"))
    if [record["bug"] for record in records] != [patient.bug for patient in PATIENTS]:
        raise ValueError(f"{FILE.name} holds other patients than clinic.PATIENTS: run make clinic")
    return [{**asdict(patient), **record} for patient, record in zip(PATIENTS, records, strict=True)]
