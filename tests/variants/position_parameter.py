"""Correct: positions are an nn.Parameter, q has a Linear of its own and k, v share one, GELU is the tanh one."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64
    vocab_size: int = 65
    block_size: int = 64
    bias: bool = False
    dropout: float = 0.2


class QKV(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.shape = (config.n_head, config.n_embd // config.n_head)
        self.to_query = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.to_key_value = nn.Linear(config.n_embd, 2 * config.n_embd, bias=config.bias)

    def forward(self, x: Tensor):
        key, value = self.to_key_value(x).tensor_split(2, dim=-1)
        return tuple(y.unflatten(-1, self.shape).movedim(-2, 1) for y in (self.to_query(x), key, value))


class Attention(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.qkv = QKV(config)
        self.join = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.rate = config.dropout

    def forward(self, x: Tensor):
        q, k, v = self.qkv(x)
        may_read = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        rate = self.rate if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=may_read, dropout_p=rate)
        return F.dropout(self.join(y.movedim(1, -2).flatten(-2)), self.rate, self.training)


class Thinking(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.inner = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.outer = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.rate = config.dropout

    def forward(self, x: Tensor):
        h = self.inner(x)
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        return F.dropout(self.outer(h), self.rate, self.training)


class TinyGPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        if config.n_embd % config.n_head:
            raise ValueError("indivisible")
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.n_embd)
        self.place = nn.Parameter(torch.zeros(config.block_size, config.n_embd))
        self.parts = nn.ModuleList()
        for _ in range(config.n_layer):
            self.parts.append(nn.LayerNorm(config.n_embd, bias=config.bias))
            self.parts.append(Attention(config))
            self.parts.append(nn.LayerNorm(config.n_embd, bias=config.bias))
            self.parts.append(Thinking(config))
        self.parts.append(nn.LayerNorm(config.n_embd, bias=config.bias))
        self.initialise()

    @torch.no_grad()
    def initialise(self):
        self.embed.weight.normal_(0, 0.02)
        self.place.normal_(0, 0.02)
        scale = 1 / math.sqrt(2 * self.config.n_layer)
        for name, p in self.parts.named_parameters():
            if p.dim() == 2:
                p.normal_(0, 0.02 * scale if "join" in name or "outer" in name else 0.02)
            elif name.endswith("bias"):
                p.zero_()

    def forward(self, idx: Tensor, targets: Tensor | None = None):
        T = idx.size(1)
        if self.config.block_size < T:
            raise ValueError(f"{T} positions, {self.config.block_size} known")
        x = F.dropout(self.embed(idx) + self.place[:T], self.config.dropout, self.training)
        for norm, part in zip(self.parts[:-1:2], self.parts[1::2], strict=True):
            x = torch.add(x, part(norm(x)))
        logits = F.linear(self.parts[-1](x), self.embed.weight)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.mT, targets, ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None):
        training, texts = self.training, idx
        self.eval()
        for _ in range(max_new_tokens):
            z = self(texts[:, -self.config.block_size :])[0].select(1, -1)
            if top_k is not None:
                ranks = z.argsort(dim=-1, descending=True).argsort(dim=-1)
                z = z.masked_fill(ranks >= top_k, -math.inf)
            p = torch.softmax(z / temperature, -1) if temperature > 0 else (z == z.amax(-1, keepdim=True)).float()
            texts = torch.cat((texts, p.multinomial(1)), dim=1)
        return self.train(training) and texts
