"""Correct: protocols, registries, factories, a builder and a strategy for everything."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = field(default=64, metadata={"help": "maximum context"})
    vocab_size: int = field(default=65)
    n_layer: int = field(default=2)
    n_head: int = field(default=4)
    n_embd: int = field(default=64)
    dropout: float = field(default=0.0)
    bias: bool = field(default=True)

    def validate(self) -> GPTConfig:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd={self.n_embd} must be divisible by n_head={self.n_head}")
        return self


REGISTRY: dict[str, Callable[..., nn.Module]] = {}


def register(name: str):
    def wrap(cls):
        REGISTRY[name] = cls
        return cls

    return wrap


def make(name: str, *args, **kwargs) -> nn.Module:
    return REGISTRY[name](*args, **kwargs)


class MaskProvider(Protocol):
    def __call__(self, length: int, like: Tensor) -> Tensor: ...


class CausalMask:
    def __call__(self, length: int, like: Tensor) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool, device=like.device).triu_(1).logical_not_()


class Initialiser(abc.ABC):
    @abc.abstractmethod
    def __call__(self, module: nn.Module) -> None: ...


class NormalInitialiser(Initialiser):
    def __init__(self, std: float):
        self.std = std

    def __call__(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=self.std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=self.std)


class Branch(nn.Module, abc.ABC):
    """A pre-norm branch: subclasses say what happens to the normalised stream."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.norm = make("norm", config)
        self.dropout = nn.Dropout(config.dropout)

    @abc.abstractmethod
    def transform(self, x: Tensor) -> Tensor: ...

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.transform(self.norm(x)))


@register("norm")
class Norm(nn.LayerNorm):
    def __init__(self, config: GPTConfig):
        super().__init__(config.n_embd, bias=config.bias)


@register("attention")
class AttentionBranch(Branch):
    def __init__(self, config: GPTConfig, mask: MaskProvider | None = None):
        super().__init__(config)
        self.n_head = config.n_head
        self.mask = mask or CausalMask()
        names = ("query", "key", "value", "output")
        self.projections = nn.ModuleDict(
            {name: nn.Linear(config.n_embd, config.n_embd, bias=config.bias) for name in names}
        )
        self.attention_dropout = nn.Dropout(config.dropout)

    def _heads(self, name: str, x: Tensor) -> Tensor:
        return self.projections[name](x).unflatten(-1, (self.n_head, -1)).transpose(-3, -2)

    def transform(self, x: Tensor) -> Tensor:
        query, key, value = (self._heads(name, x) for name in ("query", "key", "value"))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(~self.mask(x.shape[-2], x), -math.inf)
        weights = self.attention_dropout(F.softmax(scores, dim=-1))
        return self.projections["output"]((weights @ value).transpose(-3, -2).flatten(-2))


@register("feed_forward")
class FeedForwardBranch(Branch):
    expansion = 4

    def __init__(self, config: GPTConfig):
        super().__init__(config)
        inner = self.expansion * config.n_embd
        self.widen = nn.Linear(config.n_embd, inner, bias=config.bias)
        self.bend = nn.GELU()
        self.narrow = nn.Linear(inner, config.n_embd, bias=config.bias)

    def transform(self, x: Tensor) -> Tensor:
        return self.narrow(self.bend(self.widen(x)))


class Unembedding(nn.Module):
    def __init__(self, embedding: nn.Embedding):
        super().__init__()
        self.weight = embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class Builder:
    def __init__(self, config: GPTConfig):
        self.config = config.validate()

    def branches(self) -> nn.ModuleList:
        names = ("attention", "feed_forward") * self.config.n_layer
        return nn.ModuleList(make(name, self.config) for name in names)


class SamplingStrategy(Protocol):
    def __call__(self, logits: Tensor) -> Tensor: ...


@dataclass
class Greedy:
    def __call__(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1, keepdim=True)


@dataclass
class Temperature:
    temperature: float
    top_k: int | None = None

    def __call__(self, logits: Tensor) -> Tensor:
        if self.top_k is not None:
            kept = logits.topk(min(self.top_k, logits.shape[-1]), dim=-1).values
            logits = logits.masked_fill(logits < kept.min(dim=-1, keepdim=True).values, -math.inf)
        return torch.multinomial(F.softmax(logits / self.temperature, dim=-1), num_samples=1)


class TinyGPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        builder = Builder(config)
        self.config = builder.config
        self.token_embedding = nn.Embedding(config.vocab_size, config.n_embd)
        self.position_embedding = nn.Embedding(config.block_size, config.n_embd)
        self.embedding_dropout = nn.Dropout(config.dropout)
        self.branches = builder.branches()
        self.final_norm = make("norm", config)
        self.unembedding = Unembedding(self.token_embedding)
        self.apply(NormalInitialiser(std=0.02))

    def forward(self, idx: Tensor, targets: Tensor | None = None, *, reduction: str = "mean"):
        length = idx.shape[1]
        if length > self.config.block_size:
            raise ValueError(f"context of {length} exceeds {self.config.block_size}")
        positions = torch.arange(length, device=idx.device)
        stream = self.embedding_dropout(self.token_embedding(idx) + self.position_embedding(positions))
        for branch in self.branches:
            stream = branch(stream)
        logits = self.unembedding(self.final_norm(stream))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=-1, reduction=reduction)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None):
        strategy: SamplingStrategy = Greedy() if temperature == 0 else Temperature(temperature, top_k)
        mode = self.training
        try:
            self.eval()
            for _ in range(max_new_tokens):
                logits, _ = self(idx[:, -self.config.block_size :])
                idx = torch.cat([idx, strategy(logits[:, -1])], dim=1)
        finally:
            self.train(mode)
        return idx
