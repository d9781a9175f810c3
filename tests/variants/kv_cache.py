"""Correct: generate feeds one token at a time through a cache of keys and values while the text fits the context."""

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


class CachedAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.h, self.d = config.n_head, config.n_embd // config.n_head
        self.wq = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.wkv = nn.Linear(config.n_embd, 2 * config.n_embd, bias=config.bias)
        self.wo = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_drop, self.resid_drop = nn.Dropout(config.dropout), nn.Dropout(config.dropout)

    def forward(self, x, past=None):
        B, T, C = x.shape
        q = self.wq(x).view(B, T, self.h, self.d).transpose(1, 2)
        k, v = self.wkv(x).view(B, T, 2, self.h, self.d).permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.size(2)
        rows = torch.arange(S - T, S, device=x.device)[:, None]
        cols = torch.arange(S, device=x.device)[None, :]
        scores = (q @ k.transpose(2, 3)) / math.sqrt(self.d)
        scores = torch.where(cols <= rows, scores, -math.inf)
        y = self.attn_drop(F.softmax(scores, dim=-1)) @ v
        return self.resid_drop(self.wo(y.transpose(1, 2).reshape(B, T, C))), (k, v)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln1, self.ln2 = (
            nn.LayerNorm(config.n_embd, bias=config.bias),
            nn.LayerNorm(config.n_embd, bias=config.bias),
        )
        self.attn = CachedAttention(config)
        self.ff = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias),
            nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias),
            nn.Dropout(config.dropout),
        )

    def forward(self, x, past=None):
        a, present = self.attn(self.ln1(x), past)
        x = x + a
        return x + self.ff(self.ln2(x)), present


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.n_embd % config.n_head:
            raise ValueError("bad head count")
        self.config = config
        self.tok = nn.Embedding(config.vocab_size, config.n_embd)
        self.pos = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.tok.weight = self.head.weight
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)

    def run(self, idx, past=None):
        start = 0 if past is None else past[0][0].size(2)
        end = start + idx.size(1)
        if end > self.config.block_size:
            raise ValueError(f"{end} > {self.config.block_size}")
        x = self.drop(self.tok(idx) + self.pos(torch.arange(start, end, device=idx.device)))
        presents = []
        for i, block in enumerate(self.h):
            x, present = block(x, None if past is None else past[i])
            presents.append(present)
        return self.head(self.ln(x)), presents

    def forward(self, idx, targets=None):
        logits, _ = self.run(idx)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        mode = self.training
        self.eval()
        past, fresh = None, idx[:, -self.config.block_size :]
        for _ in range(max_new_tokens):
            if past is not None and past[0][0].size(2) + 1 > self.config.block_size:
                past, fresh = None, idx[:, -self.config.block_size :]  # positions have moved: start afresh
            logits, past = self.run(fresh, past)
            logits = logits[:, -1]
            if temperature == 0:
                fresh = logits.argmax(-1, keepdim=True)
            else:
                logits = logits / temperature
                if top_k is not None:
                    kth = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
                    logits = logits.masked_fill(logits < kth, -math.inf)
                fresh = torch.multinomial(logits.softmax(-1), 1)
            idx = torch.cat([idx, fresh], dim=1)
        self.train(mode)
        return idx
