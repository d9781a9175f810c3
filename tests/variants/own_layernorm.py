"""Correct: LayerNorm, GELU, softmax and cross-entropy are all the learner's own."""

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GPTConfig:
    block_size: int = 64
    vocab_size: int = 65
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64
    dropout: float = 0.0
    bias: bool = True


class LayerNorm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        y = self.gamma * centred * torch.rsqrt(variance + 1e-5)
        return y if self.beta is None else y + self.beta


class GELU(nn.Module):
    def forward(self, x):
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


class Dense(nn.Module):
    def __init__(self, n_in, n_out, bias=True):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(n_in, n_out) * 0.02)
        self.offset = nn.Parameter(torch.zeros(n_out)) if bias else None

    def forward(self, x):
        y = x @ self.matrix
        return y if self.offset is None else y + self.offset


class Dropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0.0:
            return x
        keep = torch.rand_like(x) >= self.p
        return x * keep / (1 - self.p)


def softmax(x):
    e = torch.exp(x - x.max(dim=-1, keepdim=True).values)
    return e / e.sum(dim=-1, keepdim=True)


def cross_entropy(logits, targets):
    counted = targets != -1
    log_z = torch.logsumexp(logits, dim=-1)
    right = logits.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return ((log_z - right) * counted).sum() / counted.sum()


class Head(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c.n_embd // c.n_head
        self.q, self.k, self.v = Dense(c.n_embd, d, c.bias), Dense(c.n_embd, d, c.bias), Dense(c.n_embd, d, c.bias)
        self.drop = Dropout(c.dropout)
        self.scale = 1 / math.sqrt(d)

    def forward(self, x, mask):
        scores = self.q(x) @ self.k(x).transpose(1, 2) * self.scale
        return self.drop(softmax(scores + mask)) @ self.v(x)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm_a, self.norm_f = LayerNorm(c.n_embd, c.bias), LayerNorm(c.n_embd, c.bias)
        self.heads = nn.ModuleList([Head(c) for _ in range(c.n_head)])
        self.project = Dense(c.n_embd, c.n_embd, c.bias)
        self.ffn = nn.Sequential(
            Dense(c.n_embd, 4 * c.n_embd, c.bias), GELU(), Dense(4 * c.n_embd, c.n_embd, c.bias), Dropout(c.dropout)
        )
        self.drop = Dropout(c.dropout)

    def forward(self, x, mask):
        normed = self.norm_a(x)
        x = x + self.drop(self.project(torch.cat([h(normed, mask) for h in self.heads], -1)))
        return x + self.ffn(self.norm_f(x))


class TinyGPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        if c.n_embd % c.n_head != 0:
            raise ValueError("n_embd is not a multiple of n_head")
        self.c = c
        self.table = nn.Parameter(torch.randn(c.vocab_size, c.n_embd) * 0.02)
        self.order = nn.Parameter(torch.randn(c.block_size, c.n_embd) * 0.02)
        self.drop = Dropout(c.dropout)
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.n_layer)])
        self.norm = LayerNorm(c.n_embd, c.bias)

    def forward(self, idx, targets=None):
        T = idx.shape[1]
        if self.c.block_size < T:
            raise ValueError("text too long")
        x = self.drop(self.table[idx] + self.order[:T])
        mask = torch.triu(x.new_full((T, T), -math.inf), diagonal=1)
        for block in self.blocks:
            x = block(x, mask)
        logits = self.norm(x) @ self.table.T
        return (logits, None) if targets is None else (logits, cross_entropy(logits, targets))

    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        was = self.training
        self.eval()
        result = idx.detach().clone()
        with torch.no_grad():
            for _ in range(max_new_tokens):
                logits = self(result[:, -self.c.block_size :])[0][:, -1]
                if temperature == 0:
                    token = logits.argmax(-1, keepdim=True)
                else:
                    probs = softmax(logits / temperature)
                    if top_k is not None and top_k < probs.size(-1):
                        limit = probs.sort(-1).values[:, -top_k].unsqueeze(-1)
                        probs = torch.where(probs >= limit, probs, torch.zeros_like(probs))
                    u = torch.rand(probs.size(0), 1, device=probs.device) * probs.sum(-1, keepdim=True)
                    token = torch.searchsorted(probs.cumsum(-1), u).clamp(max=probs.size(-1) - 1)
                result = torch.cat([result, token], dim=1)
        self.train(was)
        return result
