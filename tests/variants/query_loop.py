"""Correct: no mask at all, since a Python loop gives each query only the keys up to its own position."""

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


class CausalAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.d_head = config.n_embd // config.n_head
        assert self.d_head * self.n_head == config.n_embd
        self.key = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.query = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.value = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.result = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        B, T, C = x.shape
        shape = (B, T, self.n_head, self.d_head)
        q, k, v = self.query(x).view(shape), self.key(x).view(shape), self.value(x).view(shape)
        rows = []
        for t in range(T):
            scores = (q[:, t, None] * k[:, : t + 1]).sum(-1) * self.d_head**-0.5  # (B, t+1, H)
            weights = self.dropout(scores.softmax(dim=1)).unsqueeze(-1)  # (B, t+1, H, 1): over the keys
            rows.append((weights * v[:, : t + 1]).sum(dim=1))  # (B, H, D)
        y = torch.stack(rows, dim=1).reshape(B, T, C)
        return self.dropout(self.result(y))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = CausalAttention(config)
        self.first = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.second = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.attn_norm = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.mlp_norm = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.dropout(self.second(F.gelu(self.first(self.mlp_norm(x)))))


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tok = nn.Embedding(config.vocab_size, config.n_embd)
        self.pos = nn.Embedding(config.block_size, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.norm = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.out = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.out.weight = self.tok.weight
        self.apply(self.reset)

    def reset(self, module):
        if isinstance(module, (nn.Embedding, nn.Linear)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        _, T = idx.shape
        if self.config.block_size < T:
            raise ValueError(f"{T} tokens; the model can read {self.config.block_size}")
        x = self.dropout(self.tok(idx) + self.pos(torch.arange(T, device=idx.device)))
        for block in self.blocks:
            x = block(x)
        logits = self.out(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)

    def next(self, idx, temperature, top_k):
        logits = self(idx[:, -self.config.block_size :])[0][:, -1]
        if top_k is not None:
            smallest_kept = logits.topk(min(top_k, logits.size(-1)), sorted=True).values[:, -1]
            logits = logits.masked_fill(logits < smallest_kept.unsqueeze(-1), -torch.inf)
        if temperature == 0:
            return logits.max(dim=-1, keepdim=True)[1]
        return torch.multinomial((logits / temperature).softmax(-1), 1)

    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        training = self.training
        self.eval()
        with torch.no_grad():
            for _ in range(max_new_tokens):
                idx = torch.cat([idx, self.next(idx, temperature, top_k)], dim=1)
        if training:
            self.train()
        return idx
