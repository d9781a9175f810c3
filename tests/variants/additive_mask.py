"""Correct: an additive mask made on the fly and handed down, the scale on the queries, one Linear split in three."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float
    bias: bool

    def __post_init__(self):
        assert self.n_embd % self.n_head == 0


class Attn(nn.Module):
    def __init__(self, embd, head, drop, bias):
        super().__init__()
        self.embd, self.head, self.hs = embd, head, embd // head
        self.qkv = nn.Linear(embd, embd * 3, bias=bias)
        self.o = nn.Linear(embd, embd, bias=bias)
        self.d1, self.d2 = nn.Dropout(drop), nn.Dropout(drop)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).split(self.embd, dim=-1)
        q = q.reshape(b, t, self.head, self.hs).permute(0, 2, 1, 3) / self.hs**0.5
        k = k.reshape(b, t, self.head, self.hs).permute(0, 2, 3, 1)
        v = v.reshape(b, t, self.head, self.hs).permute(0, 2, 1, 3)
        w = self.d1(F.softmax(torch.matmul(q, k) + mask, dim=3))
        out = torch.matmul(w, v).permute(0, 2, 1, 3).reshape(b, t, self.embd)
        return self.d2(self.o(out))


class Blk(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = Attn(c.n_embd, c.n_head, c.dropout, c.bias)
        self.m = nn.Sequential(
            nn.Linear(c.n_embd, 4 * c.n_embd, c.bias), nn.GELU(), nn.Linear(4 * c.n_embd, c.n_embd, c.bias),
            nn.Dropout(c.dropout),
        )  # fmt: skip
        self.l1 = nn.LayerNorm(c.n_embd, bias=c.bias)
        self.l2 = nn.LayerNorm(c.n_embd, bias=c.bias)

    def forward(self, x, mask):
        x = self.a(self.l1(x), mask) + x
        x = self.m(self.l2(x)) + x
        return x


class TinyGPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.te = nn.Embedding(c.vocab_size, c.n_embd)
        self.pe = nn.Embedding(c.block_size, c.n_embd)
        self.d = nn.Dropout(c.dropout)
        self.h = nn.ModuleList()
        for _ in range(c.n_layer):
            self.h.append(Blk(c))
        self.lf = nn.LayerNorm(c.n_embd, bias=c.bias)
        with torch.no_grad():
            for p in self.parameters():
                if p.ndim == 2:
                    p.normal_(0, 0.02)
            for m in self.modules():
                if isinstance(m, nn.Linear) and m.bias is not None:
                    m.bias.zero_()

    def forward(self, idx, targets=None):
        _, t = idx.shape
        assert t <= self.c.block_size
        tok = self.te(idx)
        mask = torch.zeros(t, t, dtype=tok.dtype, device=idx.device)
        above = torch.arange(t, device=idx.device).view(1, t) > torch.arange(t, device=idx.device).view(t, 1)
        mask = mask.masked_fill(above, float("-inf"))
        x = self.d(tok + self.pe.weight[:t])
        for blk in self.h:
            x = blk(x, mask)
        logits = self.lf(x) @ self.te.weight.T
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1)

    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        on = self.training
        self.eval()
        with torch.no_grad():
            for _ in range(max_new_tokens):
                z = self(idx[:, -self.c.block_size :])[0][:, -1, :]
                if temperature == 0:
                    nxt = z.argmax(1, keepdim=True)
                else:
                    z = z / temperature
                    if top_k is not None:
                        top, where = torch.topk(z, min(top_k, z.shape[1]), dim=1)
                        pick = torch.multinomial(top.softmax(1), 1)
                        nxt = where.gather(1, pick)
                    else:
                        nxt = torch.multinomial(z.softmax(1), 1)
                idx = torch.hstack([idx, nxt])
        self.train(on)
        return idx
