"""How to train: the settings of a run, the tried combinations of them, and the learning rate of each update."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from ..rng import checked


@dataclass(frozen=True)
class TrainConfig:
    """How to train."""

    max_steps: int = 2000
    """Length of the run, in updates of the weights."""
    batch_size: int = 12
    """Windows in one forward pass, of all processes together if torchrun started several."""
    accumulate: int = 1
    """Forward passes whose gradients are averaged into one update."""
    learning_rate: float = 1e-3
    """Highest learning rate, reached after the warm-up."""
    min_lr: float = 1e-4
    """Learning rate at the end, where the schedule arrives."""
    warmup_steps: int = 100
    """Updates in which the learning rate rises linearly."""
    schedule: Literal["cosine", "linear"] = "cosine"
    """How the learning rate comes down after the warm-up: along half a cosine or a straight line."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """What updates the matrices in the blocks; embeddings, biases and LayerNorms are always AdamW's."""
    weight_decay: float = 0.1
    """Decay of matrices; biases and LayerNorms have none."""
    beta1: float = 0.9
    """AdamW's memory of the gradient, a fraction kept in each step."""
    beta2: float = 0.99
    """AdamW's memory of its square, a fraction kept in each step."""
    grad_clip: float = 1.0
    """Longest gradient, as the norm over all weights; 0 does not clip."""
    eval_every: int = 250
    """Updates between evaluations; a checkpoint is saved at each."""
    eval_batches: int = 100
    """Batches of each split in an evaluation, the same ones every time."""
    eval_seed: int = 2
    """Seed that the evaluation's batches are drawn with."""
    sample_every: int = 0
    """Updates between samples of text (also at the start and the end); 0 takes none."""
    sample_tokens: int = 200
    """Length of a sample, in tokens."""
    seed: int = 1337
    """Seed of the weights, the order of the data and dropout."""
    device: str = "auto"
    """'auto' (cuda, else mps, else cpu) or a torch device such as 'cuda:1'."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Precision of the forward pass; 'auto' is float32 but on a GPU, where it is bfloat16 if native, else float16."""
    compile: bool = False
    """Whether to try torch.compile: a minute at first, then faster steps, mostly on a GPU."""

    def __post_init__(self) -> None:
        """Raises ValueError for values that make no sense. (The class's own docstring is a heading in --help.)"""
        for counted in fields(self):  # a run of 2.5 steps would never end
            value = getattr(self, counted.name)
            if counted.type is int and not isinstance(value, int):
                raise ValueError(f"{counted.name} must be a whole number, got {value!r}: use int(...)")
        for name in ("max_steps", "batch_size", "accumulate", "eval_every", "eval_batches", "sample_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in ("warmup_steps", "weight_decay", "grad_clip", "sample_every", "min_lr"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        checked(self.seed)
        if not self.learning_rate > 0 or self.min_lr > self.learning_rate:
            raise ValueError(
                f"learning_rate={self.learning_rate} must be above 0 and at least min_lr={self.min_lr}: "
                "the schedule goes down from the one to the other"
            )
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        choices = {
            "dtype": ("auto", "float32", "bfloat16", "float16"),
            "schedule": ("cosine", "linear"),
            "optimizer": ("adamw", "muon"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")


class Preset(NamedTuple):
    """A tried combination: ``GPTConfig(vocab_size=V, **preset.model)`` and ``preset.train``."""

    model: dict[str, Any]
    train: TrainConfig


# nanoGPT's model for a laptop, of both presets for a CPU
SMALL: dict[str, Any] = dict(block_size=64, n_layer=4, n_head=4, n_embd=128, dropout=0.0, bias=False)
PRESETS = {
    # nanoGPT's README for a laptop without a GPU: about a minute, validation loss 1.88.
    "cpu": Preset(
        SMALL,
        TrainConfig(),
    ),
    # The same model, below the loss of `cpu` in less than half its time: bench/speedrun.py has each ingredient's gain.
    "cpu-fast": Preset(
        SMALL,
        TrainConfig(
            max_steps=575,
            learning_rate=1e-2,
            min_lr=0.0,
            warmup_steps=20,
            schedule="linear",
            optimizer="muon",
            eval_every=115,
        ),
    ),
    # What a computer without a GPU does in an evening: 4.8 million parameters, an hour or two on one core.
    "cpu-long": Preset(
        dict(block_size=256, n_layer=6, n_head=4, n_embd=256, dropout=0.1, bias=False),
        TrainConfig(
            max_steps=3000,
            batch_size=8,
            learning_rate=5e-3,
            min_lr=0.0,
            schedule="linear",
            optimizer="muon",
            eval_batches=25,
            sample_every=500,
        ),
    ),
    # nanoGPT's shakespeare_char: some minutes on one GPU, best validation loss 1.47.
    "gpu": Preset(
        dict(block_size=256, n_layer=6, n_head=6, n_embd=384, dropout=0.2, bias=False),
        TrainConfig(max_steps=5000, batch_size=64, eval_batches=200),
    ),
}


def learning_rate(step: int, config: TrainConfig) -> float:
    """The learning rate of update ``step`` (from 0): a straight line up, then ``schedule`` down to ``min_lr``."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / (config.warmup_steps + 1)
    share = min(1.0, (step - config.warmup_steps) / max(1, config.max_steps - config.warmup_steps))  # from 0 to 1
    height = 1 - share if config.schedule == "linear" else (1 + math.cos(math.pi * share)) / 2  # from 1 to 0
    return config.min_lr + height * (config.learning_rate - config.min_lr)
