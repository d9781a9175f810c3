"""Correct: a mask that is kept between calls, grown when a longer text comes and cut for a shorter one."""

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


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self._mask = None

    def mask(self, x):
        T = x.size(1)
        stale = self._mask is None or self._mask.size(0) < T or self._mask.device != x.device
        if stale:
            self._mask = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        return self._mask[:T, :T]

    def forward(self, x):
        B, T, C = x.shape
        H, p = self.config.n_head, self.config.dropout
        q, k, v = self.qkv(x).reshape(B, T, 3, H, C // H).movedim(2, 0).transpose(2, 3)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(C // H)
        scores = scores.masked_fill(self.mask(x), -math.inf)
        att = F.dropout(scores.softmax(dim=-1), p, self.training)
        y = torch.matmul(att, v).transpose(1, 2).reshape(B, T, C)
        return F.dropout(self.proj(y), p, self.training)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln1 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.ln2 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.attn = Attention(config)
        self.w1 = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.w2 = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.p = config.dropout

    def forward(self, x):
        y = x + self.attn(self.ln1(x))
        return y + F.dropout(self.w2(F.gelu(self.w1(self.ln2(y)))), self.p, self.training)


class TinyGPT(nn.Module):
    def __init__(self, config):
        assert config.n_embd % config.n_head == 0, (config.n_embd, config.n_head)
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                tok=nn.Embedding(config.vocab_size, config.n_embd),
                pos=nn.Embedding(config.block_size, config.n_embd),
                drop=nn.Dropout(config.dropout),
                blocks=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                norm=nn.LayerNorm(config.n_embd, bias=config.bias),
            )
        )
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._weights)
        self.head.weight = self.transformer.tok.weight

    def _weights(self, m):
        if isinstance(m, nn.Linear):
            torch.nn.init.normal_(m.weight, mean=0.0, std=0.02)
            if m.bias is not None:
                torch.nn.init.zeros_(m.bias)
        if isinstance(m, nn.Embedding):
            torch.nn.init.normal_(m.weight, mean=0.0, std=0.02)

    def forward(self, idx, targets=None):
        device, (b, t) = idx.device, idx.size()
        assert t <= self.config.block_size, f"Cannot read {t} tokens with a block size of {self.config.block_size}"
        pos = torch.arange(0, t, device=device).unsqueeze(0)
        x = self.transformer.drop(self.transformer.tok(idx) + self.transformer.pos(pos))
        for block in self.transformer.blocks:
            x = block(x)
        logits = self.head(self.transformer.norm(x))
        if targets is None:
            loss = None
        else:
            loss = F.cross_entropy(logits.view(b * t, -1), targets.reshape(b * t), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        mode = self.training
        self.eval()
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.config.block_size :])[0][:, -1, :] / max(temperature, 1e-9)
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -math.inf
            probs = torch.nan_to_num(F.softmax(logits, dim=-1))
            idx = torch.cat((idx, torch.multinomial(probs, 1)), dim=1)
        self.train(mode)
        return idx
