"""Correct: the vocabulary is padded to a multiple of 64 inside, and the logits are cut back to vocab_size."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = 64
    vocab_size: int = 65
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64
    dropout: float = 0.0
    bias: bool = True


def padded(n, multiple=64):
    return -(-n // multiple) * multiple


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        assert cfg.n_embd % cfg.n_head == 0
        self.n = cfg.n_head
        self.c_in = nn.Linear(cfg.n_embd, 3 * cfg.n_embd, bias=cfg.bias)
        self.c_out = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.d = nn.Dropout(cfg.dropout)
        self.register_buffer("mask", torch.full((cfg.block_size, cfg.block_size), -math.inf).triu(1))  # saved, too

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.n, C // self.n).transpose(1, 2) for y in self.c_in(x).split(C, 2))
        p = F.softmax(q @ k.transpose(2, 3) * (C // self.n) ** -0.5 + self.mask[None, None, :T, :T], 3)
        return self.d(self.c_out((self.d(p) @ v).transpose(1, 2).contiguous().view(B, T, C)))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = Attention(cfg)
        self.mlp = nn.Sequential()
        self.mlp.add_module("fc", nn.Linear(cfg.n_embd, 4 * cfg.n_embd, bias=cfg.bias))
        self.mlp.add_module("gelu", nn.GELU())
        self.mlp.add_module("proj", nn.Linear(4 * cfg.n_embd, cfg.n_embd, bias=cfg.bias))
        self.mlp.add_module("drop", nn.Dropout(cfg.dropout))
        self.ln_1 = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.ln_2 = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class TinyGPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.V = cfg.vocab_size
        self.wte = nn.Embedding(padded(cfg.vocab_size), cfg.n_embd)
        self.wpe = nn.Embedding(cfg.block_size, cfg.n_embd)
        self.d = nn.Dropout(cfg.dropout)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.n_layer)])
        self.ln_f = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.lm_head = nn.Linear(cfg.n_embd, padded(cfg.vocab_size), bias=False)
        self.lm_head.weight = self.wte.weight
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0.0, 0.02)
            elif "ln" not in name:
                nn.init.zeros_(p)

    def forward(self, idx, targets=None):
        B, T = idx.shape
        if self.cfg.block_size < T:
            raise ValueError(f"Cannot forward {T} tokens, block size is only {self.cfg.block_size}")
        x = self.d(self.wte(idx) + self.wpe(torch.arange(T, device=idx.device)))
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))[..., : self.V]
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.reshape(B * T, self.V), targets.reshape(B * T), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        training = self.training
        self.eval()
        for _ in range(max_new_tokens):
            z = self(idx[:, -self.cfg.block_size :])[0][:, -1].clone()
            if top_k is not None:
                v, _ = z.topk(min(top_k, self.V))
                z[z < v[:, -1, None]] = -math.inf
            if temperature == 0:
                nxt = z.argmax(dim=-1, keepdim=True)
            else:
                nxt = torch.distributions.Categorical(logits=z / temperature).sample()[:, None]
            idx = torch.cat([idx, nxt], dim=1)
        self.train(training)
        return idx
