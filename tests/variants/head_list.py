"""Correct: every head is a module with three Linears of its own, and their results are concatenated."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class GPTConfig:
    def __init__(self, block_size=128, vocab_size=65, n_layer=2, n_head=2, n_embd=32, dropout=0.0, bias=True):
        if n_embd % n_head != 0:
            raise ValueError(f"n_embd {n_embd} must be a multiple of n_head {n_head}")
        self.block_size = block_size
        self.vocab_size = vocab_size
        self.n_layer = n_layer
        self.n_head = n_head
        self.n_embd = n_embd
        self.dropout = dropout
        self.bias = bias


class SingleHead(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.d = cfg.n_embd // cfg.n_head
        self.to_q = nn.Linear(cfg.n_embd, self.d, bias=cfg.bias)
        self.to_k = nn.Linear(cfg.n_embd, self.d, bias=cfg.bias)
        self.to_v = nn.Linear(cfg.n_embd, self.d, bias=cfg.bias)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x):
        T = x.size(1)
        scores = torch.bmm(self.to_q(x), self.to_k(x).mT) / math.sqrt(self.d)
        future = torch.ones(T, T, device=x.device).triu(diagonal=1) == 1
        scores = scores.masked_fill(future, -math.inf)
        return torch.bmm(self.drop(torch.softmax(scores, -1)), self.to_v(x))


class ManyHeads(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = nn.ModuleList([SingleHead(cfg) for _ in range(cfg.n_head)])
        self.mix = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x):
        return self.drop(self.mix(torch.cat([head(x) for head in self.heads], dim=-1)))


class Transformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.before_attention = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.attention = ManyHeads(cfg)
        self.before_thinking = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.thinking = nn.Sequential(
            nn.Linear(cfg.n_embd, 4 * cfg.n_embd, bias=cfg.bias),
            nn.GELU(),
            nn.Linear(4 * cfg.n_embd, cfg.n_embd, bias=cfg.bias),
            nn.Dropout(cfg.dropout),
        )

    def forward(self, x):
        x = x + self.attention(self.before_attention(x))
        x = x + self.thinking(self.before_thinking(x))
        return x


class TinyGPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.what = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.where = nn.Embedding(cfg.block_size, cfg.n_embd)
        self.drop = nn.Dropout(cfg.dropout)
        self.body = nn.Sequential(*[Transformer(cfg) for _ in range(cfg.n_layer)])
        self.last = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.out = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                m.weight.data.normal_(0, 0.02)
                if m.bias is not None:
                    m.bias.data.zero_()
            elif isinstance(m, nn.Embedding):
                m.weight.data.normal_(0, 0.02)
        self.out.weight = self.what.weight

    def forward(self, idx, targets=None):
        B, T = idx.size()
        if self.cfg.block_size < T:
            raise ValueError(f"sequence of {T} tokens, but block_size is {self.cfg.block_size}")
        positions = torch.arange(0, T, dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.drop(self.what(idx) + self.where(positions))
        logits = self.out(self.last(self.body(x)))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.reshape(B * T, -1), targets.reshape(B * T), ignore_index=-1)

    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        mode = self.training
        self.eval()
        with torch.no_grad():
            out = idx.clone()
            while out.size(1) < idx.size(1) + max_new_tokens:
                logits = self(out[:, -self.cfg.block_size :])[0][:, -1]
                if top_k:
                    k = min(top_k, logits.size(1))
                    values, indices = logits.topk(k, dim=1)
                    logits = torch.full_like(logits, -math.inf).scatter(1, indices, values)
                if temperature > 0:
                    p = (logits / temperature).softmax(1)
                    nxt = torch.multinomial(p, 1)
                else:
                    nxt = logits.max(1, keepdim=True).indices
                out = torch.cat([out, nxt], 1)
        self.train(mode)
        return out
