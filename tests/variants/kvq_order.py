"""Correct: the packed projection holds keys, values, queries in that order, and all dropout is one module."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class GPTConfig:
    block_size: int = 64
    vocab_size: int = 96
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64
    dropout: float = 0.0
    bias: bool = True


class TinyGPT(nn.Module):
    def __init__(self, config, **ignored):
        super().__init__()
        C, H = config.n_embd, config.n_head
        if C % H:
            raise ValueError(f"{H} does not divide {C}")
        self.config = config
        self.tokens, self.positions = nn.Embedding(config.vocab_size, C), nn.Embedding(config.block_size, C)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList()
        for _ in range(config.n_layer):
            layer = nn.ModuleDict()
            layer["norm"] = nn.LayerNorm(C, bias=config.bias)
            layer["kvq"] = nn.Linear(C, 3 * C, bias=config.bias)
            layer["out"] = nn.Linear(C, C, bias=config.bias)
            layer["norm2"] = nn.LayerNorm(C, bias=config.bias)
            layer["wide"] = nn.Linear(C, 4 * C, bias=config.bias)
            layer["narrow"] = nn.Linear(4 * C, C, bias=config.bias)
            self.layers.append(layer)
        self.norm = nn.LayerNorm(C, bias=config.bias)
        self.apply(self.start)

    @staticmethod
    def start(m):
        match m:
            case nn.Linear() | nn.Embedding():
                nn.init.normal_(m.weight, 0, 0.02)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def attend(self, layer, x):
        B, T, C = x.shape
        H, D = self.config.n_head, C // self.config.n_head
        k, v, q = layer["kvq"](x).view(B, T, 3 * H, D).transpose(1, 2).split(H, dim=1)
        scores = q @ k.mT / math.sqrt(D)
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1)
        y = (self.dropout(weights) @ v).transpose(1, 2).reshape(B, T, C)
        return self.dropout(layer["out"](y))

    def think(self, layer, x):
        return self.dropout(layer["narrow"](F.gelu(layer["wide"](x))))

    def forward(self, idx, targets=None, **unused):
        (B, T), longest = idx.shape, self.config.block_size
        if longest < T:
            raise ValueError(f"the context is {longest} tokens, you gave {T}")
        x = self.dropout(self.tokens(idx) + self.positions(torch.arange(T, device=idx.device)))
        for layer in self.layers:
            x = x + self.attend(layer, layer["norm"](x))
            x = x + self.think(layer, layer["norm2"](x))
        logits = torch.matmul(self.norm(x), self.tokens.weight.t())
        if targets is None:
            loss = None
        else:
            logp = F.log_softmax(logits, dim=-1)
            loss = F.nll_loss(logp.view(B * T, -1), targets.reshape(-1), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None, **unused):
        training = self.training
        self.eval()
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.config.block_size :])[0][:, -1]
            idx = torch.cat([idx, self.pick(logits, temperature, top_k)], dim=1)
        self.train(training)
        return idx

    @staticmethod
    def pick(logits, temperature, top_k):
        if temperature == 0:
            top_k, temperature = 1, 1.0
        k = logits.size(-1) if top_k is None else min(top_k, logits.size(-1))
        values, ids = torch.sort(logits, descending=True)
        chosen = torch.multinomial(F.softmax(values[:, :k] / temperature, dim=-1), 1)
        return ids.gather(1, chosen)
