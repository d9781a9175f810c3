"""A GPT by another hand, under names of its own: what a reader's finished file can look like.

The model ``strangers`` beside it was trained with these classes, by ``make weights`` with FILE.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class GPTConfig:
    block_size: int = 1024
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True


class LookBack(nn.Module):
    """All heads, an einsum each way: letters b text, h head, q asking and k answering position, d channel."""

    def __init__(self, c: GPTConfig):
        super().__init__()
        self.heads = c.n_head
        self.ask, self.offer, self.give, self.merge = (nn.Linear(c.n_embd, c.n_embd, bias=c.bias) for _ in range(4))
        self.drop_weights, self.drop = nn.Dropout(c.dropout), nn.Dropout(c.dropout)

    def forward(self, x: Tensor) -> Tensor:
        T = x.size(1)
        asks, offers, gifts = (f(x).unflatten(-1, (self.heads, -1)) for f in (self.ask, self.offer, self.give))
        scores = torch.einsum("bqhd,bkhd->bhqk", asks, offers) / asks.size(-1) ** 0.5
        later = torch.arange(T, device=x.device)[:, None] < torch.arange(T, device=x.device)
        share = self.drop_weights(scores.masked_fill(later, -torch.inf).softmax(-1))
        return self.drop(self.merge(torch.einsum("bhqk,bkhd->bqhd", share, gifts).flatten(2)))


class Layer(nn.Module):
    def __init__(self, c: GPTConfig):
        super().__init__()
        self.calm_a, self.calm_b = nn.LayerNorm(c.n_embd, bias=c.bias), nn.LayerNorm(c.n_embd, bias=c.bias)
        self.look_back = LookBack(c)
        self.widen, self.narrow = (nn.Linear(m * c.n_embd, n * c.n_embd, bias=c.bias) for m, n in ((1, 4), (4, 1)))
        self.drop = nn.Dropout(c.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.look_back(self.calm_a(x))
        return x + self.drop(self.narrow(F.gelu(self.widen(self.calm_b(x)))))


class TinyGPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.what = nn.Embedding(config.vocab_size, config.n_embd)
        self.where = nn.Parameter(torch.empty(config.block_size, config.n_embd))
        self.drop = nn.Dropout(config.dropout)
        self.layers = nn.Sequential(*(Layer(config) for _ in range(config.n_layer)))
        self.calm = nn.LayerNorm(config.n_embd, bias=config.bias)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                into_stream = name.endswith(("merge.weight", "narrow.weight"))
                nn.init.normal_(p, std=0.02 / (2 * config.n_layer) ** 0.5 if into_stream else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        if idx.size(1) > self.config.block_size:
            raise ValueError(f"{idx.size(1)} tokens are more than block_size={self.config.block_size}")
        x = self.layers(self.drop(self.what(idx) + self.where[: idx.size(1)]))
        if targets is None:
            return self.calm(x[:, -1:]) @ self.what.weight.T, None
        logits = self.calm(x) @ self.what.weight.T
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.config.block_size :])[0][:, -1]
            if top_k is not None:
                lowest = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
                logits = logits.masked_fill(logits < lowest, -torch.inf)
            if temperature == 0:
                new = logits.argmax(-1, keepdim=True)
            else:
                new = torch.multinomial((logits / temperature).softmax(-1), 1)
            idx = torch.cat([idx, new], dim=1)
        return idx
