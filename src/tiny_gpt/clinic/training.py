"""How a patient is trained: the sizes, the sources, and the plain loop."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..data import CharTokenizer, CopySource, MarkovSource, get_batch, load_shakespeare, split
from ..model import TinyGPT

SIZES: dict[str, Any] = {"block_size": 48, "n_layer": 3, "n_head": 4, "n_embd": 64, "dropout": 0.0, "bias": False}
STEPS, BATCH, LR, EVAL_EVERY = 600, 12, 2e-3, 50


class Text:
    """Shakespeare as a source: windows of the training or the validation split."""

    floor = None

    def __init__(self) -> None:
        text = load_shakespeare()
        self.tokenizer = CharTokenizer(text)
        self.vocab_size = self.tokenizer.vocab_size
        self.ids = split(self.tokenizer.encode(text))

    def batch(self, size: int, length: int, valid: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return get_batch(self.ids[valid], size, length, generator=generator)


class Toy:
    """A toy source, whose entropy is known: no honest model can have a lower loss."""

    tokenizer = None

    def __init__(self, source: CopySource | MarkovSource):
        self.source, self.vocab_size = source, source.vocab_size
        self.floor = float(source.floors(SIZES["block_size"]).mean())

    def batch(self, size: int, length: int, valid: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return self.source.batch(size, length, generator=generator)


Source = Text | Toy


def source(name: str) -> Source:
    """What a patient is trained on, by the name that it has in PATIENTS."""
    if name == "shakespeare":
        return Text()
    if name == "copy":
        return Toy(CopySource(vocab_size=8, length=6))
    near = torch.eye(12, dtype=torch.float64)
    return Toy(MarkovSource(0.55 * near.roll(1, 1) + 0.25 * near.roll(3, 1) + 0.2 / 12))


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
                    curves[name].append(as_json(float(np.mean([float(model(x, y)[1]) for x, y in batches]))))
            model.train()
        x, y = text.batch(BATCH, T, 0, draws)
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        if loss.requires_grad:
            loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if step % EVAL_EVERY == 0:
            curves["gradient"].append(as_json(float(norm)))
        if step < steps:
            optimizer.step()
    return curves


def as_json(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
